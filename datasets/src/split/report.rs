//! What the sides of a split share.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{Side, Split};
use crate::dataset::Dataset;

/// What [`Split::check`] found. Printed, it is a small table and one line with the verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitReport {
    /// The sizes of the sides, in the order of [`Side::ALL`].
    pub sides: [SideCount; 3],
    /// What each pair of sides shares: train and validation, train and test, validation and test.
    pub overlaps: [Overlap; 3],
    /// The patients on more than one side, in alphabetical order.
    pub shared_patients: Vec<String>,
    /// The images that are on more than one side themselves.
    pub shared_images: usize,
    /// The images on no side.
    pub left_out: usize,
}

/// The size of one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SideCount {
    /// The side.
    pub side: Side,
    /// Its images.
    pub images: usize,
    /// Its patients.
    pub patients: usize,
}

/// What two sides share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overlap {
    /// The two sides.
    pub sides: (Side, Side),
    /// The patients with images on both.
    pub patients: usize,
    /// The images of these patients on either of the two, each counted once.
    pub images_of_patients: usize,
    /// The images that are on both themselves.
    pub images: usize,
}

const PAIRS: [(Side, Side); 3] = [
    (Side::Train, Side::Validation),
    (Side::Train, Side::Test),
    (Side::Validation, Side::Test),
];

impl SplitReport {
    pub(super) fn new(split: &Split, dataset: &Dataset) -> Self {
        // Each patient's images on each side.
        let mut patients: BTreeMap<&str, [BTreeSet<usize>; 3]> = BTreeMap::new();
        let mut sides_of_image = vec![0_u8; dataset.len()];
        for side in Side::ALL {
            for &index in split.side(side) {
                let patient = dataset.records()[index].patient.as_str();
                patients.entry(patient).or_default()[side as usize].insert(index);
                sides_of_image[index] += 1;
            }
        }
        let on = |images: &[BTreeSet<usize>; 3], side: Side| !images[side as usize].is_empty();
        Self {
            sides: Side::ALL.map(|side| SideCount {
                side,
                images: split.side(side).len(),
                patients: patients.values().filter(|images| on(images, side)).count(),
            }),
            overlaps: PAIRS.map(|(first, second)| {
                let mut overlap = Overlap {
                    sides: (first, second),
                    patients: 0,
                    images_of_patients: 0,
                    images: 0,
                };
                let shared = |images: &&_| on(images, first) && on(images, second);
                for images in patients.values().filter(shared) {
                    let (first, second) = (&images[first as usize], &images[second as usize]);
                    overlap.patients += 1;
                    overlap.images_of_patients += first.union(second).count();
                    overlap.images += first.intersection(second).count();
                }
                overlap
            }),
            shared_patients: patients
                .iter()
                .filter(|(_, images)| {
                    Side::ALL.iter().filter(|side| on(images, **side)).count() > 1
                })
                .map(|(patient, _)| patient.to_string())
                .collect(),
            shared_images: sides_of_image.iter().filter(|sides| **sides > 1).count(),
            left_out: sides_of_image.iter().filter(|sides| **sides == 0).count(),
        }
    }

    /// Whether no patient, and so no image, is on two sides.
    pub fn is_disjoint(&self) -> bool {
        self.shared_patients.is_empty()
    }
}

impl fmt::Display for SplitReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            formatter,
            "{:<24} {:>8} {:>8}",
            "side", "images", "patients"
        )?;
        for SideCount {
            side,
            images,
            patients,
        } in self.sides
        {
            writeln!(formatter, "{side:<24} {images:>8} {patients:>8}")?;
        }
        for overlap in &self.overlaps {
            let both = format!("{} and {}", overlap.sides.0, overlap.sides.1);
            let Overlap {
                images_of_patients,
                patients,
                ..
            } = overlap;
            writeln!(
                formatter,
                "{both:<24} {images_of_patients:>8} {patients:>8}"
            )?;
        }
        writeln!(formatter, "{:<24} {:>8}", "on no side", self.left_out)?;
        match self.shared_patients.first() {
            None => formatter.write_str("disjoint: no patient is on two sides"),
            Some(first) => write!(
                formatter,
                "OVERLAP: {} patients (the first is {first:?}) and {} images are on two sides",
                self.shared_patients.len(),
                self.shared_images
            ),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::{LabelSet, LabelValue, Record};

    /// Patient a has images 0 to 2, b has 3 and 4, c has 5.
    fn dataset() -> Dataset {
        let records = "aaabbc".chars().zip(2..).map(|(patient, row)| {
            Record::new(format!("{row}.png"), patient, [LabelValue::Negative], row)
        });
        Dataset::new("t.csv", LabelSet::new(["Mass"]).unwrap(), records.collect()).unwrap()
    }

    #[test]
    fn a_disjoint_split_is_accepted() {
        let dataset = dataset();
        let split = Split::new(&dataset, vec![2, 0, 1, 1], vec![4, 3], vec![]).unwrap();
        assert_eq!(split.train(), [0, 1, 2]);
        let report = split.check(&dataset);
        assert!(report.is_disjoint());
        assert_eq!(
            report.to_string(),
            "side                       images patients\n\
             train                           3        1\n\
             validation                      2        1\n\
             test                            0        0\n\
             train and validation            0        0\n\
             train and test                  0        0\n\
             validation and test             0        0\n\
             on no side                      1\n\
             disjoint: no patient is on two sides"
        );
        split.ensure_disjoint(&dataset).unwrap();
    }

    #[test]
    fn shared_patients_and_images_are_counted() {
        let dataset = dataset();
        // a and b are in train and test, image 1 in both; a is in validation as well.
        let split = Split::new(&dataset, vec![0, 1, 3], vec![2], vec![1, 4, 5]).unwrap();
        let report = split.check(&dataset);
        assert!(!report.is_disjoint());
        let counts = report
            .overlaps
            .map(|o| (o.patients, o.images_of_patients, o.images));
        assert_eq!(counts, [(1, 3, 0), (2, 4, 1), (1, 2, 0)]);
        assert_eq!(report.shared_patients, ["a", "b"]);
        assert_eq!((report.shared_images, report.left_out), (1, 0));
        assert!(
            report.to_string().ends_with(
                "\nOVERLAP: 2 patients (the first is \"a\") and 1 images are on two sides"
            )
        );
        assert_eq!(
            split.ensure_disjoint(&dataset).unwrap_err().to_string(),
            "2 patients and 1 images of t.csv are on two sides of the split, the first patient is \
             \"a\": results would be too good; split by patient"
        );
    }

    #[test]
    fn an_index_beyond_the_records_is_refused() {
        let error = Split::new(&dataset(), vec![0], vec![], vec![6]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "index 6 is not one of the 6 records of t.csv"
        );
    }
}
