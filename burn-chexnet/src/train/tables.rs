//! The tables that a run is told of: which layout they have, and what its `official` split is. It may
//! not look for images.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use burn_dist::progress::{Progress, write_line};
use chest_datasets::{
    CheXpert, ChestXray14, Dataset, LabelSet, OfficialLists, PhantomConfig, PhantomOutcome, Split,
};

use super::output::PHANTOM;
use super::{RunError, SplitName, TrainConfig};
use crate::preprocessing::SIZES;

/// Records, and where their images lie.
pub(super) struct Tables {
    pub(super) dataset: Dataset,
    pub(super) folder: PathBuf,
    official: Official,
}

/// The split that comes with the data.
enum Official {
    /// NIH's lists of images.
    Lists(OfficialLists),
    /// CheXpert's two tables, as ranges of records.
    Tables {
        train: Range<usize>,
        valid: Range<usize>,
    },
    /// None; the files that would make one.
    Missing(&'static str),
}

impl Tables {
    /// Reads what `config` names, or the phantom in its output folder, which has to be there.
    pub(super) fn open(config: &TrainConfig) -> Result<Self, RunError> {
        let labels = config.labels.clone().map(LabelSet::new).transpose()?;
        let Some(data) = &config.data else {
            return Self::folder(&config.output.join(PHANTOM), labels);
        };
        match data.metadata() {
            Err(error) => Err(RunError::Option {
                option: "--data",
                reason: match error.kind() {
                    std::io::ErrorKind::NotFound => format!("{} does not exist", data.display()),
                    _ => format!("{}: {error}", data.display()),
                },
            }),
            Ok(found) if found.is_dir() => Self::folder(data, labels),
            Ok(_) => Ok(Self {
                dataset: Dataset::from_csv(data, labels)?,
                folder: match data.parent() {
                    Some(parent) if parent != Path::new("") => parent.to_path_buf(),
                    _ => ".".into(),
                },
                official: Official::Missing("train_val_list.txt and test_list.txt"),
            }),
        }
    }

    /// A folder in the layout of NIH, or else of CheXpert.
    fn folder(folder: &Path, labels: Option<LabelSet>) -> Result<Self, RunError> {
        let (dataset, official) = if CheXpert::is_in(folder) && !ChestXray14::is_in(folder) {
            let CheXpert {
                dataset,
                train,
                valid,
            } = CheXpert::open(folder)?;
            let official = match train.is_empty() || valid.is_empty() {
                true => Official::Missing("train.csv and valid.csv"),
                false => Official::Tables { train, valid },
            };
            (dataset, official)
        } else if !ChestXray14::is_in(folder) {
            return Err(RunError::Option {
                option: "--data",
                reason: format!(
                    "{} has neither NIH's Data_Entry_2017_v2020.csv or Data_Entry_2017.csv nor \
                     CheXpert's train.csv or valid.csv: name a folder that has, or a table",
                    folder.display()
                ),
            });
        } else {
            let ChestXray14 { dataset, lists, .. } = ChestXray14::open(folder)?;
            let official = match lists {
                Some(lists) => Official::Lists(lists),
                None => Official::Missing("train_val_list.txt and test_list.txt"),
            };
            (dataset, official)
        };
        Ok(Self {
            dataset: match labels {
                Some(labels) => dataset.select(&labels)?,
                None => dataset,
            },
            folder: folder.to_path_buf(),
            official,
        })
    }

    /// The split that `config` names, of frontal images only.
    pub(super) fn split(&self, config: &TrainConfig) -> Result<Split, RunError> {
        let dataset = &self.dataset;
        let split = match (&config.split, &self.official) {
            (SplitName::Official, Official::Lists(lists)) => {
                Split::official(dataset, lists, config.seed)?
            }
            (SplitName::Official, Official::Tables { train, valid }) => Split::with_test(
                dataset,
                dataset.frontal(train.clone()),
                dataset.frontal(valid.clone()),
                config.seed,
            )?,
            (SplitName::Official, Official::Missing(files)) => {
                return Err(RunError::Option {
                    option: "--split",
                    reason: format!(
                        "official needs {files} beside {}: give random or a table image,split",
                        dataset.tables()
                    ),
                });
            }
            (SplitName::Random, _) => Split::random(dataset, config.seed),
            (SplitName::File(path), _) => Split::from_csv(path, dataset)?,
        };
        let frontal = |side: &[usize]| dataset.frontal(side.iter().copied());
        Ok(Split::new(
            dataset,
            frontal(split.train()),
            frontal(split.validation()),
            frontal(split.test()),
        )?)
    }
}

/// Writes the phantom of `config`, which names no data, into its output folder, unless it is there.
pub(super) fn write_phantom(config: &TrainConfig) -> Result<(), RunError> {
    let folder = config.output.join(PHANTOM);
    let phantom = PhantomConfig {
        images: config.phantom_images,
        // Twice the input, so that the images are resized as those of any data set are.
        image_size: (2 * config.image_size).min(*SIZES.end()),
        ..PhantomConfig::default()
    };
    let progress = Mutex::new(Progress::new("phantom", phantom.images, "images"));
    let outcome = phantom.write(&folder, |done| {
        let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.set(done);
    })?;
    if !ChestXray14::is_in(&folder) {
        return Err(RunError::Output {
            path: config.output.clone(),
            reason: format!(
                "the phantom in {} lacks its table: remove that folder, and it is drawn again",
                folder.display()
            ),
        });
    }
    progress
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
        .finish("");
    write_line(&format!(
        "no --data: {} {}",
        match outcome {
            PhantomOutcome::Written => "the synthetic phantom was written into",
            PhantomOutcome::Kept => "the synthetic phantom is already in",
        },
        folder.display()
    ));
    Ok(())
}
