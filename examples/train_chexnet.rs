//! Trains CheXNet on chest X-rays and ends with a table of AUROC; on a synthetic phantom where no
//! X-rays are named.
//!
//! ```text
//! cargo run --example train_chexnet
//! cargo run --example train_chexnet -- --data DIR
//! ```

use std::path::PathBuf;
use std::process::ExitCode;

use burn_chexnet::Normalisation;
use burn_chexnet::loss::Reduction;
use burn_chexnet::model::Architecture;
use burn_chexnet::train::{
    DeviceName, OptimizerChoice, Outcome, RunControl, RunError, ScheduleChoice, SplitName,
    TrainConfig, check_split, run, run_seeds,
};
use burn_dist::distributed::Wire;
use burn_dist::start::{Started, ranks_of_host, start};
use burn_dist::train::Uneven;
use chest_datasets::{Augmentation, LabelPolicy, OnBadImage};
use clap::Parser;

/// Train CheXNet (DenseNet-121, 14 pathologies) on chest X-rays.
///
/// Options override --config, which overrides the recipe: the paper's with --data, else one for the
/// phantom.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// A folder in the layout of NIH ChestX-ray14 or CheXpert, or a table image,patient,<label>...
    /// (CSV) [default: a synthetic phantom, written into the output folder]
    #[arg(long, value_name = "DIR|CSV")]
    data: Option<PathBuf>,
    /// Images of the phantom [default: 2400]
    #[arg(long, value_name = "N")]
    phantom_images: Option<usize>,
    /// Labels to train on, separated by commas [default: all of the data]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    labels: Option<Vec<String>>,
    /// What uncertain labels (-1) count as in training: zeros, ones or ignore, or with exceptions
    /// such as zeros,Edema=ones [default: ignore]
    #[arg(long, value_name = "POLICY")]
    uncertain: Option<LabelPolicy>,
    /// What blank labels count as: zeros, ones, ignore, or with exceptions [default: ignore]
    #[arg(long, value_name = "POLICY")]
    blank: Option<LabelPolicy>,
    /// official, random, or a table image,split such as the split.csv of a run [default: official]
    #[arg(long)]
    split: Option<SplitName>,
    /// Report patients and images that are on two sides of the split, and stop; needs no image
    #[arg(long)]
    check_split: bool,
    /// densenet121, densenet161, densenet169, densenet201 or resnet50 [default: densenet121]
    #[arg(long)]
    model: Option<Architecture>,
    /// Channels of the input, 1 or 3 [default: 3]
    #[arg(long, value_name = "N")]
    in_channels: Option<usize>,
    /// Folder of the results; a run that is there is replaced [default: runs/train_chexnet]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Height and width of the input in pixels, 32 to 4096 [default: 224; phantom: 64]
    #[arg(long, value_name = "N")]
    image_size: Option<usize>,
    /// Random changes to training images: none, flip, or a list such as
    /// flip=0.5,rotation=5,translation=0.02,scale=0.05,brightness=0.1 [default: flip; phantom: none]
    #[arg(long, value_name = "CHANGES")]
    augment: Option<Augmentation>,
    /// Folder in which decoded and resized pixels are kept [default: decode in every epoch]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// stop or skip an image that cannot be decoded [default: stop]
    #[arg(long, value_name = "stop|skip")]
    on_bad_image: Option<OnBadImage>,
    /// Images a step [default: 16; phantom: 8]
    #[arg(long, value_name = "N")]
    batch_size: Option<usize>,
    /// Epochs [default: 10; phantom: 4]
    #[arg(long, value_name = "N")]
    epochs: Option<usize>,
    /// Stop training after this many steps
    #[arg(long, value_name = "N")]
    max_steps: Option<usize>,
    /// Weights to start from: a run, or a file of safetensors or PyTorch in any published key style;
    /// outputs are taken by the names of the labels [default: random]
    #[arg(long, value_name = "FILE|DIR")]
    weights: Option<PathBuf>,
    /// Begin the classifier anew, as for the weights of other labels or of ImageNet [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    new_head: Option<bool>,
    /// What pixels are normalised for: imagenet or torchxrayvision [default: as --weights, else imagenet]
    #[arg(long, value_name = "NAME")]
    normalisation: Option<Normalisation>,
    /// Let only the classifier learn [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    freeze_backbone: Option<bool>,
    /// Factor on the learning rate of all but the classifier, 0 to 1 [default: 1]
    #[arg(long, value_name = "FACTOR", allow_negative_numbers = true)]
    backbone_lr: Option<f64>,
    /// adam, adamw or sgd, with settings as in adamw,weight-decay=0.01 or
    /// sgd,momentum=0.9,nesterov [default: adam]
    #[arg(long, value_name = "NAME")]
    optimizer: Option<OptimizerChoice>,
    /// Learning rate [default: 0.001]
    #[arg(long, value_name = "RATE", allow_negative_numbers = true)]
    lr: Option<f64>,
    /// How the learning rate falls: constant, cosine,minimum=0, step,epochs=2,factor=0.1 or
    /// plateau,factor=0.1,patience=0 [default: plateau; phantom: cosine]
    #[arg(long, value_name = "NAME")]
    schedule: Option<ScheduleChoice>,
    /// Epochs in which the learning rate rises to its full value, such as 0.5 [default: 0; phantom: 0.5]
    #[arg(long, value_name = "EPOCHS", allow_negative_numbers = true)]
    warm_up: Option<f64>,
    /// Share of the learning rate at the first step of the warm-up [default: 0.1]
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    warm_up_start: Option<f64>,
    /// Batches in a step of the optimiser [default: 1]
    #[arg(long, value_name = "N")]
    accumulate: Option<usize>,
    /// The largest L2 norm of all gradients of a step [default: none]
    #[arg(long, value_name = "NORM", allow_negative_numbers = true)]
    clip_norm: Option<f64>,
    /// Stop training after so many epochs in a row without a lower validation loss [default: never]
    #[arg(long, value_name = "EPOCHS")]
    early_stopping: Option<usize>,
    /// sum-over-labels (the paper) or mean [default: sum-over-labels]
    #[arg(long)]
    loss: Option<Reduction>,
    /// Weigh positives and negatives of a label alike, the paper's w+ and w- [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    weighted_loss: Option<bool>,
    /// Seed of the split, the order and the initial weights [default: 0]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Threads [default: the CPU limit of the cgroup]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Train on so many processes of this host; under mpirun, srun, torchrun or Kubernetes leave it out [default: 1]
    #[arg(long, value_name = "N")]
    nproc: Option<usize>,
    /// Multiply the learning rate by the number of processes [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    scale_lr: Option<bool>,
    /// What becomes of the end of an epoch that does not give every process a whole batch: join (some
    /// have less), pad (some images twice) or drop (left out) [default: join]
    #[arg(long, value_name = "NAME")]
    uneven: Option<Uneven>,
    /// The type in which gradients travel between processes: exact, f16 or bf16 [default: exact]
    #[arg(long, value_name = "NAME")]
    wire: Option<Wire>,
    /// Norms see the batches of all processes together, with --uneven pad or drop; gradients then
    /// travel after the backward pass [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    sync_batch_norm: Option<bool>,
    /// Where to compute: cpu [default: cpu]
    #[arg(long)]
    device: Option<DeviceName>,
    /// Write a snapshot to resume from after every so many steps, beside the one of each epoch
    #[arg(long, value_name = "STEPS")]
    checkpoint_steps: Option<usize>,
    /// Snapshots that stay [default: 2]
    #[arg(long, value_name = "N")]
    keep_checkpoints: Option<usize>,
    /// Go on with the run in this folder, with its options; or, with auto, with the run in --output
    /// if there is one, which is for scripts that run the same command again
    #[arg(long, value_name = "DIR|auto")]
    resume: Option<PathBuf>,
    /// Train once for each of these seeds and report mean and deviation
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N,N,...",
        conflicts_with = "seed"
    )]
    seeds: Option<Vec<u64>>,
    /// A configuration such as the config.json of a run
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Options {
    /// The folder of the run that is resumed by name.
    fn resumed(&self) -> Option<&PathBuf> {
        self.resume.as_ref().filter(|folder| **folder != *"auto")
    }

    fn config(self) -> Result<TrainConfig, RunError> {
        let resumed = self.resumed().cloned();
        if resumed.is_some() && self.config.is_some() {
            return Err(RunError::Option {
                option: "--config",
                reason: "a run that is resumed has a configuration of its own: leave it out"
                    .to_string(),
            });
        }
        let base = match (&resumed, &self.config) {
            (Some(folder), _) => TrainConfig::of_run(folder, self.data)?,
            (None, Some(path)) => {
                let config = TrainConfig::read(path, self.data)?;
                if self.output.is_none() && self.resume.is_none() {
                    config.ensure_elsewhere(path)?;
                }
                config
            }
            (None, None) => TrainConfig::recipe(self.data),
        };
        if resumed.is_some() && self.seeds.is_some() {
            return Err(RunError::Option {
                option: "--seeds",
                reason:
                    "several runs are resumed by the command that began them: give --resume auto"
                        .to_string(),
            });
        }
        if self.warm_up_start.is_some() && self.warm_up.unwrap_or(base.warm_up) == 0.0 {
            return Err(RunError::Option {
                option: "--warm-up-start",
                reason: "there is no warm-up: give --warm-up EPOCHS".to_string(),
            });
        }
        let output = self.output;
        if resumed.is_some() && output.as_ref().is_some_and(|output| *output != base.output) {
            return Err(RunError::Option {
                option: "--output",
                reason: "a run that is resumed goes on in its own folder: leave it out".to_string(),
            });
        }
        if self.phantom_images.is_some() && base.data.is_some() {
            return Err(RunError::Option {
                option: "--phantom-images",
                reason: "there is no phantom in a run with --data: leave one of them out"
                    .to_string(),
            });
        }
        // Other weights bring their own normalisation and epsilon.
        let kept = resumed.is_some() || self.weights.is_none();
        Ok(TrainConfig {
            data: base.data,
            phantom_images: self.phantom_images.unwrap_or(base.phantom_images),
            labels: self.labels.map(trimmed).or(base.labels),
            uncertain: self.uncertain.unwrap_or(base.uncertain),
            blank: self.blank.unwrap_or(base.blank),
            split: self.split.unwrap_or(base.split),
            model: self.model.unwrap_or(base.model),
            in_channels: self.in_channels.unwrap_or(base.in_channels),
            output: output.unwrap_or(base.output),
            image_size: self.image_size.unwrap_or(base.image_size),
            augmentation: self.augment.unwrap_or(base.augmentation),
            cache: self.cache.or(base.cache),
            on_bad_image: self.on_bad_image.unwrap_or(base.on_bad_image),
            batch_size: self.batch_size.unwrap_or(base.batch_size),
            epochs: self.epochs.unwrap_or(base.epochs),
            max_steps: self.max_steps.or(base.max_steps),
            learning_rate: self.lr.unwrap_or(base.learning_rate),
            weights: self.weights.or(base.weights),
            new_head: self.new_head.unwrap_or(base.new_head),
            normalisation: self
                .normalisation
                .or(kept.then_some(base.normalisation).flatten()),
            norm_epsilon: kept.then_some(base.norm_epsilon).flatten(),
            freeze_backbone: self.freeze_backbone.unwrap_or(base.freeze_backbone),
            backbone_lr: self.backbone_lr.unwrap_or(base.backbone_lr),
            optimizer: self.optimizer.unwrap_or(base.optimizer),
            schedule: self.schedule.unwrap_or(base.schedule),
            warm_up: self.warm_up.unwrap_or(base.warm_up),
            warm_up_start: self.warm_up_start.unwrap_or(base.warm_up_start),
            scale_lr: self.scale_lr.unwrap_or(base.scale_lr),
            uneven: self.uneven.unwrap_or(base.uneven),
            wire: self.wire.unwrap_or(base.wire),
            sync_batch_norm: self.sync_batch_norm.unwrap_or(base.sync_batch_norm),
            accumulate: self.accumulate.unwrap_or(base.accumulate),
            clip_norm: self.clip_norm.or(base.clip_norm),
            early_stopping: self.early_stopping.or(base.early_stopping),
            checkpoint_steps: self.checkpoint_steps.or(base.checkpoint_steps),
            keep_checkpoints: self.keep_checkpoints.unwrap_or(base.keep_checkpoints),
            reduction: self.loss.unwrap_or(base.reduction),
            weighted_loss: self.weighted_loss.unwrap_or(base.weighted_loss),
            seed: self.seed.unwrap_or(base.seed),
            threads: self.threads.or(base.threads),
            device: self.device.unwrap_or(base.device),
        })
    }
}

/// `Mass, Edema` in quotes has a blank.
fn trimmed(labels: Vec<String>) -> Vec<String> {
    let labels = labels.iter().map(|label| label.trim().to_string());
    labels.collect()
}

fn main() -> ExitCode {
    chexnet::main(
        |options: Options| -> Result<ExitCode, Box<dyn std::error::Error>> {
            let (only_check, seeds) = (options.check_split, options.seeds.clone());
            let (resume, nproc) = (options.resume.is_some(), options.nproc);
            let config = options.config()?;
            config.check()?;
            if only_check {
                let report = check_split(&config)?;
                chexnet::print(&report)?;
                return Ok(match report.is_disjoint() {
                    true => ExitCode::SUCCESS,
                    false => ExitCode::FAILURE,
                });
            }
            let world = match start("--nproc", nproc, config.entries())? {
                Started::Launcher(code) => return Ok(code),
                Started::Rank(world) => world,
            };
            chexnet::thread_pool(config.threads, ranks_of_host(world.as_deref()))?;
            let control = RunControl {
                resume,
                resume_command: match seeds {
                    None => {
                        let output = config.output.to_string_lossy();
                        let ranks = nproc.map(|ranks| format!("--nproc={ranks}"));
                        let options = ["--resume", &output].into_iter();
                        chexnet::command(&options.chain(ranks.as_deref()).collect::<Vec<_>>())
                    }
                    Some(_) => chexnet::same_command(&["--resume", "auto"]),
                },
                world,
                ..RunControl::default()
            };
            control.stop.on_signals()?;
            let outcome = match seeds {
                None => run(&config, &control)?.map(|results| results.to_string()),
                Some(seeds) => run_seeds(&config, &seeds, &control)?.map(|all| all.to_string()),
            };
            match outcome {
                Outcome::Finished(results) => {
                    let folder = config.output.display();
                    chexnet::print(format_args!("{results}\nresults in {folder}"))?;
                    Ok(ExitCode::SUCCESS)
                }
                Outcome::WithMain => Ok(ExitCode::SUCCESS),
                Outcome::Stopped(stopped) => {
                    let is_main = control.world.as_ref().is_none_or(|world| world.rank() == 0);
                    let hint = control.stop.hint().unwrap_or_default();
                    let text = is_main.then(|| format!("{stopped}\n{hint}"));
                    Ok(chexnet::stopped(text, control.stop.exit_code()))
                }
            }
        },
    )
}
