//! Records, split and images of a run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn_dist::progress::write_line;
use chest_datasets::{
    ChestXray14, Dataset, ImageSource, LabelSet, LabelValue, OfficialLists, Split,
};

use super::{RunError, SplitName, TrainConfig};
use crate::loss::LabelWeights;

/// The records of a data set and the sides they are on. Tables only: no image has been looked
/// for yet.
#[derive(Debug)]
pub struct RunData {
    dataset: Arc<Dataset>,
    split: Split,
    folder: PathBuf,
}

impl RunData {
    /// Reads the tables that `config` names and splits them.
    ///
    /// # Errors
    ///
    /// If no data is given, a table cannot be read, a label is not there, or the split cannot be
    /// made. Overlapping sides are no error here: see [`Split::check`].
    pub fn open(config: &TrainConfig) -> Result<Self, RunError> {
        let Some(data) = &config.data else {
            return Err(RunError::Option {
                option: "--data",
                reason: "give a folder in the layout of NIH ChestX-ray14 (Data_Entry_2017_v2020.csv and its images) or a table image,patient,<label>...".to_string(),
            });
        };
        if !data.exists() {
            return Err(RunError::Option {
                option: "--data",
                reason: format!("{} does not exist", data.display()),
            });
        }
        let labels = config.labels.clone().map(LabelSet::new).transpose()?;
        let (dataset, lists, folder) = if data.is_file() {
            let folder = data.parent().unwrap_or(Path::new("")).to_path_buf();
            (Dataset::from_csv(data, labels)?, None, folder)
        } else {
            let nih = ChestXray14::open(data)?;
            let dataset = match labels {
                Some(labels) => nih.dataset.select(&labels)?,
                None => nih.dataset,
            };
            (dataset, nih.lists, data.clone())
        };
        let split = split(config, &dataset, lists.as_ref())?;
        Ok(Self {
            dataset: Arc::new(dataset),
            split,
            folder: if folder.as_os_str().is_empty() {
                ".".into()
            } else {
                folder
            },
        })
    }

    /// The records.
    pub fn dataset(&self) -> &Arc<Dataset> {
        &self.dataset
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
                table: self.dataset.table().to_path_buf(),
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

fn split(
    config: &TrainConfig,
    dataset: &Dataset,
    lists: Option<&OfficialLists>,
) -> Result<Split, RunError> {
    match (&config.split, lists) {
        (SplitName::Official, Some(lists)) => Ok(Split::official(dataset, lists, config.seed)?),
        (SplitName::Official, None) => Err(RunError::Option {
            option: "--split",
            reason: format!(
                "official needs train_val_list.txt and test_list.txt beside {}: give random or a table image,split",
                dataset.table().display()
            ),
        }),
        (SplitName::Random, _) => Ok(Split::random(dataset, config.seed)),
        (SplitName::File(path), _) => Ok(Split::from_csv(path, dataset)?),
    }
}
