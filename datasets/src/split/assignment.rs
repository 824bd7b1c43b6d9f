//! Patients to sides: splits whose test side is given, such as the official one, and a random one.

use std::collections::HashMap;
use std::hash::Hasher;

use siphasher::sip::SipHasher24;

use super::{Split, SplitError};
use crate::dataset::Dataset;
use crate::nih::{ImageList, OfficialLists};

impl Split {
    /// NIH's official split: test is the official test list; validation is a tenth of the patients
    /// of the official training list, and train the rest of them, as [`with_test`](Self::with_test)
    /// divides. Images on neither list are left out;
    /// [`SplitReport::left_out`](super::SplitReport::left_out) counts them.
    ///
    /// # Errors
    ///
    /// A list names images that the table does not have.
    pub fn official(
        dataset: &Dataset,
        lists: &OfficialLists,
        seed: u64,
    ) -> Result<Self, SplitError> {
        let positions = dataset.positions();
        let train_val = indices(dataset, &positions, &lists.train_val)?;
        let test = indices(dataset, &positions, &lists.test)?;
        Self::with_test(dataset, train_val, test, seed)
    }

    /// A split whose test side is given, as [`CheXpert`](crate::CheXpert)'s is: validation is a
    /// tenth of the patients of the records `train_val`, and train the rest of them.
    ///
    /// The tenth is rounded to whole patients, at least one where there are two, and chosen as
    /// [`random`](Self::random) chooses. Records of neither list are left out.
    ///
    /// # Errors
    ///
    /// An index is beyond the records.
    ///
    /// ```
    /// use chest_datasets::{Dataset, LabelSet, LabelValue, Record, Split};
    ///
    /// let records = (0..25).map(|row: u64| {
    ///     Record::new(row.to_string(), row.to_string(), [LabelValue::Negative], row + 2)
    /// });
    /// let dataset = Dataset::new("table.csv", LabelSet::new(["Mass"])?, records.collect())?;
    /// let split = Split::with_test(&dataset, (0..20).collect(), (20..25).collect(), 42)?;
    /// assert_eq!((split.train().len(), split.validation().len()), (18, 2));
    /// assert_eq!(split.test(), [20, 21, 22, 23, 24]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_test(
        dataset: &Dataset,
        train_val: Vec<usize>,
        test: Vec<usize>,
        seed: u64,
    ) -> Result<Self, SplitError> {
        let Self {
            train: train_val,
            test,
            ..
        } = Self::new(dataset, train_val, Vec::new(), test)?;
        let mut patients = shuffled_patients(dataset, train_val, seed);
        let validation = match patients.len() {
            0 | 1 => 0,
            count => tenths(1, count).max(1),
        };
        let train = patients.split_off(validation);
        Ok(Self::sorted([train.concat(), patients.concat(), test]))
    }

    /// A random split by patient: 70 % of the patients to train, 10 % to validation, 20 % to test.
    ///
    /// Rounded to whole patients; from three patients on, no side is empty. The patients are put in
    /// the order of the SipHash-2-4 (key: `seed`, then 0, both 64 bit) of their ids in UTF-8, those
    /// of one hash in the order of their ids, and cut into validation, test and train. So the
    /// assignment depends on `seed` and the set of patients alone, neither on the order of the rows
    /// nor on the version of a library.
    pub fn random(dataset: &Dataset, seed: u64) -> Self {
        let mut patients = shuffled_patients(dataset, (0..dataset.len()).collect(), seed);
        let least = usize::from(patients.len() >= 3);
        let validation = tenths(1, patients.len()).max(least);
        let test = tenths(2, patients.len()).max(least);
        let train = patients.split_off(validation + test);
        let test = patients.split_off(validation);
        Self::sorted([train.concat(), patients.concat(), test.concat()])
    }
}

/// The records that a list names.
fn indices(
    dataset: &Dataset,
    positions: &HashMap<&str, usize>,
    list: &ImageList,
) -> Result<Vec<usize>, SplitError> {
    let position = |image: &String| positions.get(image.as_str()).copied();
    let mut unknown = list.images.iter().filter(|image| position(image).is_none());
    if let Some(first) = unknown.next() {
        return Err(SplitError::UnknownImages {
            list: list.path.clone(),
            count: 1 + unknown.count(),
            first: first.clone(),
            tables: dataset.tables(),
        });
    }
    Ok(list.images.iter().filter_map(position).collect())
}

/// The records of each patient, the patients in the order of their hashes.
fn shuffled_patients(dataset: &Dataset, indices: Vec<usize>, seed: u64) -> Vec<Vec<usize>> {
    let mut records: HashMap<&str, Vec<usize>> = HashMap::new();
    for index in indices {
        let patient = dataset.records()[index].patient.as_str();
        records.entry(patient).or_default().push(index);
    }
    let mut patients: Vec<_> = records.into_iter().collect();
    patients.sort_by_cached_key(|(patient, _)| (hash(patient, seed), patient.to_string()));
    patients.into_iter().map(|(_, indices)| indices).collect()
}

fn hash(patient: &str, seed: u64) -> u64 {
    let mut hasher = SipHasher24::new_with_keys(seed, 0);
    // `write`, not `str::hash`: that adds a byte which the standard library does not promise.
    hasher.write(patient.as_bytes());
    hasher.finish()
}

/// So many tenths of `count`, rounded half up.
fn tenths(tenths: usize, count: usize) -> usize {
    (tenths * count + 5) / 10
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::super::Side;
    use super::*;
    use crate::{LabelSet, LabelValue, Record};

    /// One record for each given patient.
    fn dataset(patients: &[u16]) -> Dataset {
        let records = patients.iter().enumerate().map(|(index, patient)| {
            let image = format!("{index}.png");
            Record::new(
                image,
                patient.to_string(),
                [LabelValue::Negative],
                2 + index as u64,
            )
        });
        Dataset::new("t.csv", LabelSet::new(["Mass"]).unwrap(), records.collect()).unwrap()
    }

    fn lists(train_val: &[usize], test: &[usize]) -> OfficialLists {
        let list = |path: &str, indices: &[usize]| ImageList {
            path: path.into(),
            images: indices.iter().map(|index| format!("{index}.png")).collect(),
        };
        OfficialLists {
            train_val: list("train_val_list.txt", train_val),
            test: list("test_list.txt", test),
        }
    }

    /// The patients of one side.
    fn patients<'a>(dataset: &'a Dataset, indices: &[usize]) -> BTreeSet<&'a str> {
        let patients = indices
            .iter()
            .map(|index| &*dataset.records()[*index].patient);
        patients.collect()
    }

    #[test]
    fn the_hash_is_siphash_2_4() {
        // The example of appendix A of the SipHash paper (Aumasson and Bernstein, 2012).
        let mut hasher = SipHasher24::new_with_keys(0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);
        hasher.write(&(0..15).collect::<Vec<u8>>());
        assert_eq!(hasher.finish(), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn the_assignment_is_fixed_by_the_seed() {
        // Computed with another implementation of SipHash. They may never change, or a published
        // split would.
        let dataset = dataset(&(0..10).collect::<Vec<_>>());
        let split = Split::random(&dataset, 42);
        assert_eq!(split.validation(), [5]);
        assert_eq!(split.test(), [6, 7]);
        assert_ne!(Split::random(&dataset, 43), split);
    }

    #[test]
    fn few_patients_leave_no_side_empty_where_that_can_be() {
        let sizes = |count: u16| {
            let split = Split::random(&dataset(&(0..count).collect::<Vec<_>>()), 1);
            Side::ALL.map(|side| split.side(side).len())
        };
        assert_eq!(sizes(0), [0, 0, 0]);
        assert_eq!(sizes(1), [1, 0, 0]);
        assert_eq!(sizes(2), [2, 0, 0]);
        assert_eq!(sizes(3), [1, 1, 1]);
        assert_eq!(sizes(4), [2, 1, 1]);
        assert_eq!(sizes(100), [70, 10, 20]);
    }

    #[test]
    fn the_official_test_list_is_the_test_side() {
        let dataset = dataset(&[1, 1, 2, 2, 3, 4]);
        let split = Split::official(&dataset, &lists(&[3, 0, 1, 2], &[4]), 7).unwrap();
        assert_eq!(split.test(), [4]);
        assert_eq!(split.train().len(), 2);
        assert_eq!(split.validation().len(), 2);
        assert_eq!(split.check(&dataset).left_out, 1);
        split.ensure_disjoint(&dataset).unwrap();
        // One patient alone cannot be divided.
        let split = Split::official(&dataset, &lists(&[0, 1], &[4]), 7).unwrap();
        assert_eq!(split.train(), [0, 1]);
        assert!(split.validation().is_empty());
    }

    #[test]
    fn an_index_beyond_the_records_is_refused() {
        let error = Split::with_test(&dataset(&[1, 2]), vec![0], vec![2], 7).unwrap_err();
        assert_eq!(
            error.to_string(),
            "index 2 is not one of the 2 records of t.csv"
        );
    }

    #[test]
    fn an_unknown_image_of_a_list_is_refused() {
        let error = Split::official(&dataset(&[1, 2]), &lists(&[0, 9, 8], &[1]), 7).unwrap_err();
        assert_eq!(
            error.to_string(),
            "train_val_list.txt: 2 images are not in t.csv, the first is \"9.png\": \
             use the list of this table"
        );
    }

    #[test]
    fn lists_that_overlap_make_a_split_that_is_refused() {
        let dataset = dataset(&[1, 1, 2]);
        let split = Split::official(&dataset, &lists(&[0, 2], &[1, 2]), 7).unwrap();
        assert!(split.ensure_disjoint(&dataset).is_err());
    }

    proptest! {
        #[test]
        fn random_divides_patients_and_every_index_is_on_one_side(
            of_patient in proptest::collection::vec(0_u16..60, 0..200),
            seed: u64,
        ) {
            let dataset = dataset(&of_patient);
            let split = Split::random(&dataset, seed);
            let mut indices = [split.train(), split.validation(), split.test()].concat();
            indices.sort_unstable();
            prop_assert_eq!(indices, (0..of_patient.len()).collect::<Vec<_>>());
            prop_assert!(split.check(&dataset).is_disjoint());

            let count = dataset.patients() as f64;
            for (side, share) in Side::ALL.into_iter().zip([0.7, 0.1, 0.2]) {
                let size = patients(&dataset, split.side(side)).len() as f64;
                prop_assert!((size - share * count).abs() <= 1.2, "{side}: {size} of {count}");
                prop_assert!(size > 0.0 || count < 3.0);
            }
        }

        #[test]
        fn the_order_of_rows_does_not_matter(
            of_patient in proptest::collection::vec(0_u16..60, 1..100).prop_shuffle(),
            seed: u64,
        ) {
            let mut sorted = of_patient.clone();
            sorted.sort_unstable();
            let side_of_patient = |of_patient: &[u16]| -> BTreeMap<String, Side> {
                let dataset = dataset(of_patient);
                let split = Split::random(&dataset, seed);
                let mut sides = BTreeMap::new();
                for side in Side::ALL {
                    for patient in patients(&dataset, split.side(side)) {
                        sides.insert(patient.to_owned(), side);
                    }
                }
                sides
            };
            prop_assert_eq!(side_of_patient(&of_patient), side_of_patient(&sorted));
        }

        #[test]
        fn official_divides_the_training_list_by_patient(
            of_patient in proptest::collection::vec(0_u16..60, 2..200),
            seed: u64,
        ) {
            // Patients from 40 on are the test list's.
            let dataset = dataset(&of_patient);
            let (test, train_val): (Vec<usize>, Vec<usize>) =
                (0..of_patient.len()).partition(|index| of_patient[*index] >= 40);
            let split = Split::official(&dataset, &lists(&train_val, &test), seed).unwrap();
            prop_assert_eq!(split.test(), &test[..]);
            let mut rest = [split.train(), split.validation()].concat();
            rest.sort_unstable();
            prop_assert_eq!(&rest, &train_val);
            prop_assert!(split.check(&dataset).is_disjoint());
            let all = patients(&dataset, &train_val).len();
            let validation = patients(&dataset, split.validation()).len();
            prop_assert_eq!(validation, if all < 2 { 0 } else { ((all + 5) / 10).max(1) });
        }
    }
}
