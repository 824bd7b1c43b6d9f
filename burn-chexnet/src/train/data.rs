//! Records, split and images of a run.

use std::path::PathBuf;
use std::sync::Arc;

use burn_dist::progress::write_line;
use chest_datasets::{Dataset, ImageSource, LabelPolicies, LabelValue, PolicyReport, Split};

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
    /// Reads the tables that `config` names, splits them and applies its policies of unknown labels.
    /// Where it names no data, the phantom is written first.
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
        let (dataset, unknown) = tables.dataset.with_policies(&policies, split.train())?;
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
        let mut training = self.split.train().iter().flat_map(|&i| &records[i].labels);
        if !training.any(|label| label.target().is_some()) {
            return Err(RunError::NothingKnown {
                tables: self.dataset.tables(),
            });
        }
        // On a network drive with a hundred thousand files this takes a while.
        write_line(&format!(
            "looking for the images below {}",
            self.folder.display()
        ));
        let used: Vec<usize> = sides.iter().flat_map(|(_, side)| *side).copied().collect();
        Ok(ImageSource::new(self.dataset.clone(), &self.folder, &used)?)
    }

    /// The paper's weights of the labels, from the training side.
    pub fn label_weights(&self) -> LabelWeights {
        let count = |label: usize, value: LabelValue| {
            let records = self.dataset.records();
            let side = self.split.train().iter();
            side.filter(|&&index| records[index].labels[label] == value)
                .count()
        };
        LabelWeights::from_counts((0..self.dataset.labels().len()).map(|label| {
            (
                count(label, LabelValue::Positive),
                count(label, LabelValue::Negative),
            )
        }))
    }
}
