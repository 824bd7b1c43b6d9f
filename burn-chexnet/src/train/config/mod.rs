//! Everything that decides a run, in one serialisable value; `file` reads and writes it, `check` says
//! what makes no sense.

mod check;
mod file;

use std::path::PathBuf;

use burn_dist::distributed::Wire;
use burn_dist::train::Uneven;
use chest_datasets::{Augmentation, LabelPolicy, OnBadImage};
use serde::{Deserialize, Serialize};

use super::{DeviceName, OptimizerChoice, ScheduleChoice, SplitName};
use crate::Normalisation;
use crate::loss::Reduction;
use crate::model::Architecture;

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
    /// Whether the classifier begins anew, instead of with the outputs of `weights` that have the
    /// names of the labels.
    pub new_head: bool,
    /// How pixels become the input; as for `weights`, or ImageNet's, when `None`.
    pub normalisation: Option<Normalisation>,
    /// What the norms add to the variance; as for `weights`, or 1e-5, when `None`.
    pub norm_epsilon: Option<f64>,
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
    /// Whether the learning rate is that of one rank, and is multiplied by their number.
    pub scale_lr: bool,
    /// What becomes of the end of an epoch that does not give every rank a whole batch.
    pub uneven: Uneven,
    /// The type in which gradients travel between ranks.
    pub wire: Wire,
    /// Whether norms see the batches of all ranks together.
    pub sync_batch_norm: bool,
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
            new_head: false,
            normalisation: None,
            norm_epsilon: None,
            freeze_backbone: false,
            backbone_lr: 1.0,
            optimizer: OptimizerChoice::default(),
            learning_rate: 1e-3,
            schedule: ScheduleChoice::default(),
            warm_up: 0.0,
            warm_up_start: 0.1,
            scale_lr: false,
            uneven: Uneven::Join,
            wire: Wire::Exact,
            sync_batch_norm: false,
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
            epochs: 4,
            // In so few epochs the rate has to fall by itself: a plateau would be noticed too late.
            schedule: ScheduleChoice::Cosine { minimum: 0.0 },
            warm_up: 0.5,
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
}
