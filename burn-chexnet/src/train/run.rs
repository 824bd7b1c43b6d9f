//! A run in order: tables, split, images, training, test, results.

use std::sync::{Arc, PoisonError};

use burn::tensor::Device;
use burn_dist::distributed::DataParallelConfig;
use burn_dist::progress::write_line;
use burn_dist::train::{Ending, EpochClock, Shard, Snapshot, Snapshots, Stop, Training, Uneven};
use burn_dist_core::World;
use chest_datasets::{ImageSource, Loader, LoaderConfig, PackedCache, Side, SplitReport};

use super::cache::open_cache;
use super::measure::TrainedRun;
use super::output;
use super::prepared::Prepared;
use super::ranks::Ranks;
use super::recipe::{backbone, head, start_from};
use super::results::SideCounts;
use super::resume::{ensure_same_split, snapshots};
use super::tables::write_phantom;
use super::{
    Order, Outcome, Recorder, Results, RunData, RunError, Stopped, SupervisedClassifier,
    TrainConfig, XrayLoader,
};
use crate::Preprocessing;
use crate::loss::BinaryCrossEntropy;
use crate::model::{Classifier, ResNetConfig};
use crate::norm::{self, SumOfAll};
use crate::weights::{Checkpoint, Head, Metadata, SplitOrigin};

/// Reads the tables that `config` names and reports whether any patient or image is on two sides
/// of the split. No image is needed, and nothing is written.
///
/// # Errors
///
/// If a table cannot be read or the split cannot be made.
pub fn check_split(config: &TrainConfig) -> Result<SplitReport, RunError> {
    config.check()?;
    if config.data.is_none() && !config.output.join(output::PHANTOM).is_dir() {
        return Err(RunError::Option {
            option: "--data",
            reason: format!(
                "name the data to check: there is no phantom in {} yet",
                config.output.display()
            ),
        });
    }
    let data = RunData::open(config)?;
    Ok(data.split().check(data.dataset()))
}

/// How a run begins and ends, beyond its configuration.
#[derive(Clone, Default)]
pub struct RunControl {
    /// Whether to go on from the newest snapshot in the output folder, if there is one.
    pub resume: bool,
    /// Asks the run to stop.
    pub stop: Stop,
    /// The command that resumes the run, for the message after a stop.
    pub resume_command: String,
    /// The processes that train together, each of which calls [`run()`]; this one alone when `None`.
    pub world: Option<Arc<World>>,
}

/// Trains as `config` says, keeps the weights of the lowest validation loss and measures them on
/// the test side. Everything is written into the output folder.
///
/// Progress goes to standard error. Threads are the caller's matter: all work runs on rayon's
/// global pool.
///
/// Of several ranks the first does all of this, and the others train with it: each takes its part of every batch, and of
/// validation and test. All need to see the data; the folder of the results only the first does, and the others write a
/// log `logs/rank-N.log` into a folder of that name on their host.
///
/// # Errors
///
/// Each is one line that names the option, file, row or image to look at.
///
/// ```no_run
/// use burn_chexnet::train::{Outcome, RunControl, TrainConfig, run};
/// # fn main() -> Result<(), burn_chexnet::train::RunError> {
/// let config = TrainConfig {
///     data: Some("ChestX-ray14".into()),
///     ..TrainConfig::default()
/// };
/// if let Outcome::Finished(results) = run(&config, &RunControl::default())? {
///     println!("{results}");
/// }
/// # Ok(())
/// # }
/// ```
pub fn run(config: &TrainConfig, control: &RunControl) -> Result<Outcome<Box<Results>>, RunError> {
    config.check()?;
    let ranks = Ranks::of(control.world.as_ref());
    let device = config.device.device();
    let prepared = ranks.main(|| Prepared::new(config, control.resume, ranks.count()))?;
    let told = prepared.as_ref();
    let config = &ranks.share(told.map(|prepared| prepared.config.clone()))?;
    let goes_on = ranks.share(told.map(|prepared| prepared.snapshot.is_some()))?;
    let (weights, snapshot, _lock) = match prepared {
        None => (None, None, None),
        Some(prepared) => (prepared.weights, prepared.snapshot, prepared.lock),
    };
    ranks.all(|| {
        if !ranks.is_main() {
            output::follow(&config.output, ranks.rank())?;
        }
        // A host that does not see the folder of the main rank draws its own.
        match config.data.is_none() && ranks.leads_host() {
            true => write_phantom(config),
            false => Ok(()),
        }
    })?;
    let (data, source, cache) = ranks.all(|| {
        let data = RunData::open(config)?;
        if goes_on && ranks.is_main() {
            ensure_same_split(config, &data)?;
        }
        let source = Arc::new(data.images(&config.split)?);
        let cache = config.cache.as_deref();
        let cache = cache
            .map(|folder| open_cache(folder, &source, config))
            .transpose()?;
        Ok((data, source, cache))
    })?;
    let digests = ranks.gather(data.digest())?;
    if let Some(rank) = digests.iter().position(|digest| *digest != digests[0]) {
        return Err(RunError::OtherData { rank });
    }
    let labels = data.dataset().labels().names();
    let outputs = labels.len();
    // The weights of the main rank are those of all.
    let start = weights
        .map(|weights| {
            let head = head(&weights, labels, config.new_head)?;
            Ok::<_, RunError>(Start { weights, head })
        })
        .transpose();
    let start = ranks.all(|| start)?;
    let normalisation = config.normalisation.clone().unwrap_or_default();
    let epsilon = config.norm_epsilon.unwrap_or(norm::EPSILON);
    let prepared = Run {
        config,
        control,
        preprocessing: Preprocessing::new(config.image_size, config.in_channels, &normalisation)?,
        norm_epsilon: epsilon,
        source,
        cache,
        data,
        snapshots: snapshots(config, ranks.count())?,
        start,
        device: device.clone(),
        ranks,
    };
    // Initial weights are drawn from the device's generator.
    device.seed(config.seed);
    match config.model.densenet() {
        Some(shape) => {
            let shape = shape.with_in_channels(config.in_channels);
            let shape = shape.with_outputs(outputs).with_norm_epsilon(epsilon);
            prepared.train(shape.init(&device), snapshot)
        }
        None => {
            let shape = ResNetConfig::resnet50().with_in_channels(config.in_channels);
            let shape = shape.with_outputs(outputs).with_norm_epsilon(epsilon);
            prepared.train(shape.init(&device), snapshot)
        }
    }
}

/// Weights that a run starts from.
struct Start {
    weights: Checkpoint,
    head: Head,
}

/// A run whose inputs are known to be there.
pub(super) struct Run<'a> {
    pub(super) config: &'a TrainConfig,
    pub(super) control: &'a RunControl,
    pub(super) data: RunData,
    pub(super) source: Arc<ImageSource>,
    cache: Option<Arc<PackedCache>>,
    pub(super) preprocessing: Preprocessing,
    norm_epsilon: f64,
    snapshots: Snapshots,
    start: Option<Start>,
    pub(super) device: Device,
    pub(super) ranks: Ranks,
}

impl Run<'_> {
    /// Trains `network`, from `snapshot` if there is one, and measures it.
    fn train<C: Classifier>(
        &self,
        mut network: C,
        snapshot: Option<Snapshot>,
    ) -> Result<Outcome<Box<Results>>, RunError> {
        let config = self.config;
        let metadata = self.metadata();
        self.ranks.main(|| {
            if let Some(Start { weights, head }) = &self.start {
                start_from(&mut network, weights, head)?;
            }
            self.announce(&network);
            self.prepare_output(snapshot.as_ref())
        })?;

        let mut parallel = DataParallelConfig::new().wire(config.wire);
        if let Some(world) = self.ranks.world().filter(|_| config.sync_batch_norm) {
            let sums;
            (parallel, sums) = parallel.sums_over_ranks(world);
            network = network.synchronised(&SumOfAll::new(move |own| sums.sum(own)));
        }
        let mut loss = BinaryCrossEntropy::new(config.reduction);
        if config.weighted_loss {
            loss = loss.with_weights(self.data.label_weights());
        }
        let mut model = SupervisedClassifier::new(network, loss);
        if config.freeze_backbone {
            model = model.freeze_backbone();
        }
        let clock = EpochClock::default();
        let shuffled = Order::Shuffled {
            seed: config.seed,
            clock: clock.clone(),
            augmentation: config.augmentation,
        };
        let training = self.loader(Side::Train, shuffled)?;
        let validation = self.loader(Side::Validation, Order::Fixed)?;
        let loaders = [training.clone(), validation.clone()];
        let digest = self.data.digest();
        let is_main = self.ranks.is_main();
        let recorder = Recorder::new(&config.output, metadata, loaders, digest, is_main);
        let history = recorder.history();
        let run = Training::new(&config.output, self.device.clone())
            .epochs(config.epochs)
            .max_steps(config.max_steps)
            .patience(config.early_stopping)
            .learning_rate(self.learning_rate())
            .group(backbone::<C>(), config.backbone_lr)
            .accumulation(config.accumulate)
            .clip_norm(config.clip_norm)
            .seed(config.seed)
            .snapshots(self.snapshots.clone())
            .resume(snapshot)
            .clock(clock)
            .stop(self.control.stop.clone())
            .unit("images");
        let run = match self.ranks.world() {
            Some(world) => run.distributed(world, parallel),
            None => run,
        };
        let trained = run
            .launch(
                model,
                config.optimizer.optimizer(),
                Arc::new(training.clone()),
                Arc::new(validation.clone()),
                recorder,
            )
            .map_err(|error| self.explained(error, &training, &validation))?;
        if let (Ending::Early, Some(patience)) = (trained.ending, config.early_stopping) {
            write_line(&format!(
                "training has ended early: the validation loss has not been lower for {patience} epochs"
            ));
        }
        let best = trained.epochs.iter().rev().find(|epoch| epoch.best);
        let (Ending::Complete | Ending::Early, Some(best)) = (trained.ending, best) else {
            return Ok(Outcome::Stopped(Stopped {
                steps: trained.steps,
                snapshot: trained.snapshot,
            }));
        };

        let history = history.lock().unwrap_or_else(PoisonError::into_inner);
        let results = self.measure(
            trained.model.network,
            &TrainedRun {
                epochs: &trained.epochs,
                best,
                stopped_early: trained.ending == Ending::Early,
                history: &history,
                training: &training,
                validation: &validation,
            },
        )?;
        Ok(match results {
            Some(results) => Outcome::Finished(Box::new(results)),
            None => Outcome::WithMain,
        })
    }

    /// The output folder with the configuration and the split in it.
    fn prepare_output(&self, snapshot: Option<&Snapshot>) -> Result<(), RunError> {
        let folder = &self.config.output;
        output::create_folders(folder)?;
        match snapshot {
            None => output::remove_earlier_run(folder)?,
            Some(snapshot) => {
                write_line(&format!(
                    "going on after step {}, in epoch {}, from {}",
                    snapshot.steps(),
                    snapshot.epoch(),
                    snapshot.path().display()
                ));
                if snapshot.epoch() < self.config.epochs {
                    output::remove_results(folder)?;
                } else if folder.join(output::RESULTS).exists() {
                    write_line("this run has ended before: it is only measured again");
                }
            }
        }
        self.config.write(folder.join(output::CONFIG))?;
        if snapshot.is_none() {
            let split = self.data.split();
            split.write_csv(folder.join(output::SPLIT), self.data.dataset())?;
        }
        if !self.control.resume_command.is_empty() {
            let hint = format!("go on with: {}", self.control.resume_command);
            self.control.stop.set_hint(hint);
        }
        Ok(())
    }

    fn metadata(&self) -> Metadata {
        Metadata {
            architecture: self.config.model,
            labels: self.data.dataset().labels().names().to_vec(),
            preprocessing: self.preprocessing.clone(),
            norm_epsilon: self.norm_epsilon,
            split: Some(SplitOrigin {
                name: self.config.split.to_string(),
                seed: self.config.seed,
                training_images: self.counts().training,
            }),
            metrics: Default::default(),
        }
    }

    pub(super) fn counts(&self) -> SideCounts {
        let split = self.data.split();
        SideCounts {
            training: split.train().len(),
            validation: split.validation().len(),
            test: split.test().len(),
        }
    }

    pub(super) fn loader(&self, side: Side, order: Order) -> Result<XrayLoader, RunError> {
        let shape = LoaderConfig {
            on_bad_image: self.config.on_bad_image,
            ..LoaderConfig::new(self.config.image_size, self.config.batch_size)
        };
        let loader = Loader::new(self.source.clone(), shape)?;
        let (rank, count) = (self.ranks.rank(), self.ranks.count());
        let shard = Shard::new(rank, count, self.config.batch_size).uneven(match side {
            Side::Train => self.config.uneven,
            // Each image once, whatever the ranks.
            Side::Validation | Side::Test => Uneven::Join,
        });
        Ok(XrayLoader::new(
            match &self.cache {
                Some(cache) => loader.with_cache(cache.clone())?,
                None => loader,
            },
            self.data.split().side(side),
            order,
            shard,
            self.preprocessing.clone(),
            self.device.clone(),
        )
        .reduction(self.config.reduction))
    }
}
