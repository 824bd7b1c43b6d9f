//! Records, split and images of a run.

use std::hash::Hasher;
use std::path::PathBuf;
use std::sync::Arc;

use burn_dist::progress::write_line;
use chest_datasets::{Dataset, ImageSource, LabelPolicies, LabelValue, PolicyReport, Split};

use siphasher::sip128::{Hasher128, SipHasher24};

use super::tables::Tables;
use super::{RunError, SplitName, TrainConfig};
use crate::loss::LabelWeights;

/// The records of a data set and the sides they are on. Tables only: no image has been looked
/// for yet.
#[derive(Debug)]
pub struct RunData {
    dataset: Arc<Dataset>,
    split: Split,
    folder: PathBuf,
    unknown: PolicyReport,
}

impl RunData {
    /// Reads the tables that `config` names, or those of the phantom in its output folder, splits
    /// them and applies its policies of unknown labels.
    ///
    /// # Errors
    ///
    /// If a table cannot be read, a label is not there, or the split cannot be made. Overlapping
    /// sides are no error here: see [`Split::check`].
    pub fn open(config: &TrainConfig) -> Result<Self, RunError> {
        let tables = Tables::open(config)?;
        let split = tables.split(config)?;
        let policies = LabelPolicies {
            uncertain: config.uncertain.clone(),
            blank: config.blank.clone(),
        };
        let held_out = [split.validation(), split.test()].concat();
        let dataset = tables.dataset;
        let (dataset, unknown) = dataset.with_policies(&policies, split.train(), &held_out)?;
        Ok(Self {
            dataset: Arc::new(dataset),
            split,
            folder: tables.folder,
            unknown,
        })
    }

    /// The records.
    pub fn dataset(&self) -> &Arc<Dataset> {
        &self.dataset
    }

    /// How many labels were not known, and what they count as.
    pub fn unknown_labels(&self) -> &PolicyReport {
        &self.unknown
    }

    /// The sides.
    pub fn split(&self) -> &Split {
        &self.split
    }

    /// Refuses a split that shares a patient or lacks a side, then finds the images of all sides.
    ///
    /// # Errors
    ///
    /// If a patient is on two sides, a side is empty, or an image is not there.
    pub fn images(&self, name: &SplitName) -> Result<ImageSource, RunError> {
        self.split.ensure_disjoint(&self.dataset)?;
        let sides = [
            ("training", self.split.train()),
            ("validation", self.split.validation()),
            ("test", self.split.test()),
        ];
        for (side, indices) in sides {
            if indices.is_empty() {
                return Err(RunError::EmptySide {
                    side,
                    split: name.to_string(),
                });
            }
        }
        let records = self.dataset.records();
        for (side, indices) in sides {
            let mut labels = indices.iter().flat_map(|&index| &records[index].labels);
            if !labels.any(|label| label.target().is_some()) {
                return Err(RunError::NothingKnown {
                    side,
                    tables: self.dataset.tables(),
                });
            }
        }
        // On a network drive with a hundred thousand files this takes a while.
        write_line(&format!(
            "looking for the images below {}",
            self.folder.display()
        ));
        let used: Vec<usize> = sides.iter().flat_map(|(_, side)| *side).copied().collect();
        Ok(ImageSource::new(self.dataset.clone(), &self.folder, &used)?)
    }

    /// A digest of the images of all sides, by name, and of their labels: SipHash-2-4 with 128 bits.
    pub fn digest(&self) -> String {
        let mut hasher = SipHasher24::new();
        let records = self.dataset.records();
        for side in [
            self.split.train(),
            self.split.validation(),
            self.split.test(),
        ] {
            hasher.write_usize(side.len());
            for &index in side {
                let record = &records[index];
                hasher.write(record.image.as_bytes());
                hasher.write_u8(0);
                for label in &record.labels {
                    let target = label.target();
                    hasher.write_u8(match target {
                        None => 2,
                        Some(target) => u8::from(target > 0.5),
                    });
                }
            }
        }
        let hash = hasher.finish128();
        format!("{:016x}{:016x}", hash.h1, hash.h2)
    }

    /// The labels that training cannot learn: all that is known of them is of one kind.
    pub fn one_sided_labels(&self) -> Vec<&str> {
        let names = self.dataset.labels().names().iter().enumerate();
        let one_sided = names.filter(|(label, _)| {
            [LabelValue::Positive, LabelValue::Negative]
                .iter()
                .any(|&value| self.training_count(*label, value) == 0)
        });
        one_sided.map(|(_, name)| name.as_str()).collect()
    }

    /// The training images whose value of a label is this one.
    fn training_count(&self, label: usize, value: LabelValue) -> usize {
        let records = self.dataset.records();
        let side = self.split.train().iter();
        side.filter(|&&index| records[index].labels[label] == value)
            .count()
    }

    /// The paper's weights of the labels, from the training side.
    pub fn label_weights(&self) -> LabelWeights {
        LabelWeights::from_counts((0..self.dataset.labels().len()).map(|label| {
            (
                self.training_count(label, LabelValue::Positive),
                self.training_count(label, LabelValue::Negative),
            )
        }))
    }
}
