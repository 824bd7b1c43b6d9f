//! Everything that decides a run, in one serialisable value.

use std::path::{Path, PathBuf};

use chest_datasets::{Augmentation, LabelPolicy, OnBadImage};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::output;
use super::{DeviceName, OptimizerChoice, RunError, ScheduleChoice, SplitName};
use crate::PreprocessingError;
use crate::loss::Reduction;
use crate::model::Architecture;
use crate::preprocessing::SIZES;
use crate::written::write_whole;

/// Beyond any machine; more would only stall this one.
const MOST_THREADS: usize = 1024;

/// The options of a run. `config.json` in the output folder holds it; a file of the same form
/// (any part of it) can be given back.
///
/// ```
/// use burn_chexnet::train::TrainConfig;
/// let config: TrainConfig = serde_json::from_str(r#"{ "epochs": 3, "split": "random" }"#)?;
/// assert_eq!((config.epochs, config.batch_size), (3, 16));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrainConfig {
    /// A folder in the layout of NIH or CheXpert, or a CSV table `image,patient,<label>...`; the
    /// synthetic phantom when `None`.
    pub data: Option<PathBuf>,
    /// Images of the phantom.
    pub phantom_images: usize,
    /// Labels to train on, by name; all that the data has when `None`.
    pub labels: Option<Vec<String>>,
    /// What uncertain labels (-1) count as on the training side.
    pub uncertain: LabelPolicy,
    /// What blank labels count as.
    pub blank: LabelPolicy,
    /// Which images train, validate and test.
    pub split: SplitName,
    /// The network.
    pub model: Architecture,
    /// Channels of the input, 1 or 3 (grey is repeated).
    pub in_channels: usize,
    /// Folder of the results.
    pub output: PathBuf,
    /// Height and width of the input, pixels.
    pub image_size: usize,
    /// Random changes to the images of training.
    pub augmentation: Augmentation,
    /// Folder of the decoded and resized pixels; decode in every epoch when `None`.
    pub cache: Option<PathBuf>,
    /// What is done about an image that cannot be decoded.
    pub on_bad_image: OnBadImage,
    /// Images a step.
    pub batch_size: usize,
    /// Epochs.
    pub epochs: usize,
    /// Steps after which training ends even in the middle of an epoch.
    pub max_steps: Option<usize>,
    /// Weights to start from; random ones when `None`.
    pub weights: Option<PathBuf>,
    /// Whether only the classifier learns.
    pub freeze_backbone: bool,
    /// Factor on the learning rate of all but the classifier.
    pub backbone_lr: f64,
    /// What moves the weights.
    pub optimizer: OptimizerChoice,
    /// Learning rate behind the warm-up.
    pub learning_rate: f64,
    /// How it falls.
    pub schedule: ScheduleChoice,
    /// Epochs in which it rises to its full value.
    pub warm_up: f64,
    /// Share of it at the first step of the warm-up.
    pub warm_up_start: f64,
    /// Batches in a step of the optimiser.
    pub accumulate: usize,
    /// The largest L2 norm of all gradients of a step; none when `None`.
    pub clip_norm: Option<f64>,
    /// Epochs in a row without a lower validation loss after which training ends.
    pub early_stopping: Option<usize>,
    /// Steps after which a snapshot is written, beside the one of each epoch.
    pub checkpoint_steps: Option<usize>,
    /// Snapshots that stay.
    pub keep_checkpoints: usize,
    /// How the losses of the labels become one.
    pub reduction: Reduction,
    /// Whether positives and negatives of a label weigh the same in total.
    pub weighted_loss: bool,
    /// Seed of the split, the order and the initial weights.
    pub seed: u64,
    /// Threads; the CPU limit of the cgroup when `None`.
    pub threads: Option<usize>,
    /// Where to compute.
    pub device: DeviceName,
}

impl Default for TrainConfig {
    /// The recipe of the paper (section 2.2): DenseNet-121 at 224 pixels, Adam at 1e-3 divided by
    /// 10 when the validation loss stalls, batches of 16, the unweighted sum of the losses, random
    /// horizontal flips.
    fn default() -> Self {
        Self {
            data: None,
            phantom_images: 2400,
            labels: None,
            uncertain: LabelPolicy::default(),
            blank: LabelPolicy::default(),
            split: SplitName::Official,
            model: Architecture::DenseNet121,
            in_channels: 3,
            output: PathBuf::from("runs/train_chexnet"),
            image_size: 224,
            augmentation: Augmentation::paper(),
            cache: None,
            on_bad_image: OnBadImage::Stop,
            batch_size: 16,
            epochs: 10,
            max_steps: None,
            weights: None,
            freeze_backbone: false,
            backbone_lr: 1.0,
            optimizer: OptimizerChoice::default(),
            learning_rate: 1e-3,
            schedule: ScheduleChoice::default(),
            warm_up: 0.0,
            warm_up_start: 0.1,
            accumulate: 1,
            clip_norm: None,
            early_stopping: None,
            checkpoint_steps: None,
            keep_checkpoints: 2,
            reduction: Reduction::SumOverLabels,
            weighted_loss: false,
            seed: 0,
            threads: None,
            device: DeviceName::Cpu,
        }
    }
}

impl TrainConfig {
    /// A recipe for the phantom that takes minutes, not days: small images, small batches.
    pub fn phantom() -> Self {
        Self {
            image_size: 64,
            // In so few epochs a network does better on chests that all have their heart on the left.
            augmentation: Augmentation::none(),
            batch_size: 8,
            epochs: 5,
            // Of few validation images the loss is noisy.
            schedule: ScheduleChoice::Plateau {
                factor: 0.1,
                patience: 1,
            },
            ..Self::default()
        }
    }

    /// The recipe for `data`: the paper's, or that of the phantom when it is `None`.
    pub fn recipe(data: Option<PathBuf>) -> Self {
        match data {
            Some(_) => Self {
                data,
                ..Self::default()
            },
            None => Self::phantom(),
        }
    }

    /// Reads a configuration; what the file leaves out is as in the [`recipe`](Self::recipe) for
    /// `data`, which takes the place of the file's, or for the file's when it is `None`.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is no JSON, or has an unknown or mistyped entry.
    pub fn read(path: impl AsRef<Path>, data: Option<PathBuf>) -> Result<Self, RunError> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|e| RunError::file(path, e))?;
        let text = text.trim_start_matches('\u{feff}');
        // serde would also take the values as a list, in the order of the fields.
        if !text.trim_start().starts_with('{') {
            return Err(RunError::file(
                path,
                "this is no JSON object: it must begin with {",
            ));
        }
        let failed = |error| RunError::file(path, error);
        let config: Self = serde_json::from_str(text).map_err(failed)?;
        let data = data.or(config.data);
        // Once more, over the recipe: serde itself fills in the paper's.
        let entries: Map<String, Value> = serde_json::from_str(text).map_err(failed)?;
        let recipe = serde_json::to_value(Self::recipe(data.clone())).map_err(failed)?;
        let mut merged = Map::from_iter(recipe.as_object().cloned().unwrap_or_default());
        merged.extend(entries);
        let config: Self = serde_json::from_value(Value::Object(merged)).map_err(failed)?;
        Ok(Self { data, ..config })
    }

    /// The configuration of the run in `folder`, with `folder` as its output: it may have been moved.
    /// `data` takes the place of the run's, if it is given.
    ///
    /// # Errors
    ///
    /// If there is no run, or its configuration cannot be read.
    pub fn of_run(folder: impl AsRef<Path>, data: Option<PathBuf>) -> Result<Self, RunError> {
        let folder = folder.as_ref();
        let path = folder.join(output::CONFIG);
        if !path.exists() {
            return Err(RunError::file(
                folder,
                format!(
                    "there is no run here to resume, it would have a {}: name the output folder of a run",
                    output::CONFIG
                ),
            ));
        }
        Ok(Self {
            output: folder.to_path_buf(),
            ..Self::read(path, data)?
        })
    }

    /// Refuses to take its own run's place: `path` is where it was read from, and nobody has named
    /// another output.
    ///
    /// # Errors
    ///
    /// If `path` lies in the output folder.
    pub fn ensure_elsewhere(&self, path: impl AsRef<Path>) -> Result<(), RunError> {
        let own = self.output.join(output::CONFIG).canonicalize();
        match (own, path.as_ref().canonicalize()) {
            (Ok(own), Ok(path)) if own == path => Err(RunError::Option {
                option: "--output",
                reason: format!(
                    "the run of {} is in {}: name another folder, or go on with it by --resume",
                    path.display(),
                    self.output.display()
                ),
            }),
            _ => Ok(()),
        }
    }

    /// Writes the configuration as JSON.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), RunError> {
        let path = path.as_ref();
        let text = serde_json::to_string_pretty(self).map_err(|e| RunError::file(path, e))?;
        write_whole(path, (text + "\n").as_bytes()).map_err(|e| RunError::file(path, e))
    }

    /// Whether every value makes sense on its own.
    ///
    /// # Errors
    ///
    /// Names the first option that does not.
    pub fn check(&self) -> Result<(), RunError> {
        let least = |option: &'static str, value: usize, least: usize| {
            if value >= least {
                return Ok(());
            }
            Err(RunError::Option {
                option,
                reason: format!("{value} is too small: give at least {least}"),
            })
        };
        if !SIZES.contains(&self.image_size) {
            return Err(RunError::Option {
                option: "--image-size",
                reason: PreprocessingError::ImageSize(self.image_size).to_string(),
            });
        }
        self.augmentation.check()?;
        least("--phantom-images", self.phantom_images, 1)?;
        least("--batch-size", self.batch_size, 1)?;
        least("--epochs", self.epochs, 1)?;
        least("--max-steps", self.max_steps.unwrap_or(1), 1)?;
        least("--accumulate", self.accumulate, 1)?;
        least("--early-stopping", self.early_stopping.unwrap_or(1), 1)?;
        least("--checkpoint-steps", self.checkpoint_steps.unwrap_or(1), 1)?;
        least("--keep-checkpoints", self.keep_checkpoints, 1)?;
        least("--threads", self.threads.unwrap_or(1), 1)?;
        if self.threads.is_some_and(|threads| threads > MOST_THREADS) {
            return Err(RunError::Option {
                option: "--threads",
                reason: format!(
                    "more than {MOST_THREADS} threads: give as many as there are cores"
                ),
            });
        }
        let within = |option: &'static str, value: f64, below: f64| {
            if value > 0.0 && value < below {
                return Ok(());
            }
            let reason = match below.is_finite() {
                true => format!("{value} must be above 0 and below {below}"),
                false => format!("{value} must be above 0 and finite"),
            };
            Err(RunError::Option { option, reason })
        };
        within("--lr", self.learning_rate, f64::INFINITY)?;
        within("--clip-norm", self.clip_norm.unwrap_or(1.0), f64::INFINITY)?;
        let share = |option: &'static str, value: f64, most: f64| {
            if (0.0..=most).contains(&value) {
                return Ok(());
            }
            Err(RunError::Option {
                option,
                reason: format!("{value} must be from 0 to {most}"),
            })
        };
        if let ScheduleChoice::Cosine { minimum } = self.schedule
            && minimum > self.learning_rate
        {
            return Err(RunError::Option {
                option: "--schedule",
                reason: format!(
                    "a cosine cannot fall from {} to {minimum}: give a smaller minimum",
                    self.learning_rate
                ),
            });
        }
        share("--backbone-lr", self.backbone_lr, 1.0)?;
        if self.freeze_backbone && self.backbone_lr != 1.0 {
            return Err(RunError::Option {
                option: "--backbone-lr",
                reason: "the backbone is frozen: leave out this or --freeze-backbone".to_string(),
            });
        }
        if self.freeze_backbone && self.weights.is_none() {
            return Err(RunError::Option {
                option: "--freeze-backbone",
                reason: "a random backbone would stay random: give --weights".to_string(),
            });
        }
        share("--warm-up", self.warm_up, self.epochs as f64)?;
        share("--warm-up-start", self.warm_up_start, 1.0)?;
        if self.in_channels != 1 && self.in_channels != 3 {
            return Err(RunError::Option {
                option: "--in-channels",
                reason: format!("{} channels: give 1 or 3", self.in_channels),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn written_configuration_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        let config = TrainConfig {
            data: Some("data".into()),
            split: SplitName::File("split.csv".into()),
            model: Architecture::ResNet50,
            max_steps: Some(7),
            cache: Some("cache".into()),
            uncertain: "zeros,Edema=ones".parse().unwrap(),
            augmentation: "flip,rotation=5".parse().unwrap(),
            on_bad_image: OnBadImage::Skip,
            optimizer: "sgd,momentum=0.9,nesterov".parse().unwrap(),
            schedule: "step,epochs=2,factor=0.5".parse().unwrap(),
            // Not the shortest that a sloppy reader would give back.
            learning_rate: 0.1 + 0.2,
            ..TrainConfig::default()
        };
        config.write(&path).unwrap();
        assert_eq!(TrainConfig::read(&path, None).unwrap(), config);
    }

    #[test]
    fn what_a_file_leaves_out_is_of_the_recipe_for_its_data() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        let read = |text: &str, data: Option<&str>| {
            std::fs::write(&path, text).unwrap();
            TrainConfig::read(&path, data.map(PathBuf::from)).unwrap()
        };
        let phantom = read(r#"{"epochs": 3}"#, None);
        assert_eq!(
            phantom,
            TrainConfig {
                epochs: 3,
                ..TrainConfig::phantom()
            }
        );
        for config in [
            read(r#"{"epochs": 3}"#, Some("xrays")),
            read(r#"{"epochs": 3, "data": "xrays"}"#, None),
            read(r#"{"epochs": 3, "data": "others"}"#, Some("xrays")),
        ] {
            assert_eq!(
                config,
                TrainConfig {
                    data: Some("xrays".into()),
                    epochs: 3,
                    ..TrainConfig::default()
                }
            );
        }
    }

    #[test]
    fn unknown_entries_and_values_are_refused_with_file_and_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        for (text, part) in [
            (r#"{"epoch": 3}"#, "unknown field `epoch`"),
            (r#"{"split": "patients"}"#, "unknown split `patients`"),
            (r#"{"model": "vgg16"}"#, "unknown variant `vgg16`"),
            (r#"{"epochs": -1}"#, "invalid value"),
            (r#"["data"]"#, "no JSON object"),
            ("", "no JSON object"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = TrainConfig::read(&path, None).unwrap_err().to_string();
            assert!(
                error.contains("config.json") && error.contains(part),
                "{error}"
            );
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn values_that_make_no_sense_are_named() {
        type Change = fn(&mut TrainConfig);
        let cases: [(&str, Change); 22] = [
            ("--image-size", |config| config.image_size = 0),
            ("--image-size", |config| config.image_size = 5000),
            ("--phantom-images", |config| config.phantom_images = 0),
            ("--batch-size", |config| config.batch_size = 0),
            ("--epochs", |config| config.epochs = 0),
            ("--max-steps", |config| config.max_steps = Some(0)),
            ("--threads", |config| config.threads = Some(0)),
            ("--threads", |config| config.threads = Some(100_000)),
            ("--lr", |config| config.learning_rate = f64::NAN),
            ("--lr", |config| config.learning_rate = -1.0),
            ("--clip-norm", |config| config.clip_norm = Some(0.0)),
            ("--backbone-lr", |config| config.backbone_lr = 1.5),
            ("--freeze-backbone", |config| config.freeze_backbone = true),
            ("--backbone-lr", |config| {
                config.freeze_backbone = true;
                config.backbone_lr = 0.1;
            }),
            ("--schedule", |config| {
                config.schedule = ScheduleChoice::Cosine { minimum: 1.0 };
            }),
            ("--warm-up", |config| config.warm_up = 11.0),
            ("--warm-up-start", |config| config.warm_up_start = f64::NAN),
            ("--accumulate", |config| config.accumulate = 0),
            ("--early-stopping", |config| config.early_stopping = Some(0)),
            ("--checkpoint-steps", |config| {
                config.checkpoint_steps = Some(0)
            }),
            ("--keep-checkpoints", |config| config.keep_checkpoints = 0),
            ("--in-channels", |config| config.in_channels = 2),
        ];
        for (option, change) in cases {
            let mut config = TrainConfig::default();
            config.check().unwrap();
            change(&mut config);
            let error = config.check().unwrap_err().to_string();
            assert!(error.starts_with(option), "{error}");
        }
    }
}
