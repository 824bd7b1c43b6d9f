//! What to train, for how long, and how to start it through burn-train.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use burn::data::dataloader::DataLoader;
use burn::lr_scheduler::module_lr_scheduler::ModuleLrScheduler;
use burn::module::ParamGroup;
use burn::optim::ModuleOptimizer;
use burn::tensor::Device;
use burn::train::logger::InMemoryMetricLogger;
use burn::train::metric::{Adaptor, LossInput, LossMetric};
use burn::train::renderer::MetricsRenderer;
use burn::train::{
    InferenceStep, Learner, LearnerModel, SupervisedTraining, TrainStep, TrainingStrategy,
};
use burn_dist_core::World;
use serde_json::json;

use super::accumulation::Accumulation;
use super::step::{StepInput, StepOutput};
use super::training_loop::LoopOptions;
use super::{
    EpochClock, EpochSummary, LearningRate, LocalReplica, Observer, ProgressRenderer, Replica,
    SharedLearningRate, Snapshot, Snapshots, Stop, TrainError, TrainingLoop, WorldReplica,
};
use crate::distributed::DataParallelConfig;
use crate::progress::is_logged;

/// A training run of a Burn model: burn-train's `SupervisedTraining` with the one
/// [`TrainingLoop`].
///
/// ```no_run
/// # use std::sync::Arc;
/// # use burn::{data::dataloader::DataLoader, optim::AdamConfig, tensor::Device};
/// # use burn::train::{InferenceStep, LearnerModel, TrainStep, metric::{Adaptor, LossInput}};
/// # use burn_dist::train::*;
/// # fn run<M>(
/// #     model: M,
/// #     observer: impl Observer<M> + 'static,
/// #     training: Arc<dyn DataLoader<<M as TrainStep>::Input>>,
/// #     validation: Arc<dyn DataLoader<<M as InferenceStep>::Input>>,
/// # ) -> Result<(), TrainError>
/// # where
/// #     M: LearnerModel,
/// #     <M as TrainStep>::Input: StepInput,
/// #     <M as TrainStep>::Output: StepOutput + Adaptor<LossInput>,
/// #     <M as InferenceStep>::Output: StepOutput + Adaptor<LossInput>,
/// # {
/// let trained = Training::new("run", Device::flex())
///     .epochs(10)
///     .learning_rate(LearningRate::new(1e-3).schedule(Schedule::Plateau(Plateau::new(0.1, 0))))
///     .snapshots(Snapshots::new("run/checkpoints"))
///     .launch(model, AdamConfig::new().init(), training, validation, observer)?;
/// println!("{} epochs", trained.epochs.len());
/// # Ok(())
/// # }
/// ```
pub struct Training<M: LearnerModel> {
    directory: PathBuf,
    device: Device,
    learning_rate: LearningRate,
    groups: Vec<(ParamGroup, f64)>,
    epochs: usize,
    max_steps: Option<usize>,
    patience: Option<usize>,
    accumulation: usize,
    clip_norm: Option<f64>,
    seed: u64,
    snapshots: Option<Snapshots>,
    resume: Option<Snapshot>,
    replica: Arc<dyn Replica<M>>,
    clock: EpochClock,
    stop: Stop,
    unit: &'static str,
}

/// A finished run.
#[derive(Debug)]
pub struct Trained<M> {
    /// The model of the last epoch, in evaluation mode.
    pub model: M,
    /// The figures of each epoch.
    pub epochs: Vec<EpochSummary>,
    /// Steps of the optimiser.
    pub steps: usize,
    /// Why training ended.
    pub ending: Ending,
    /// The newest snapshot, if there are any.
    pub snapshot: Option<PathBuf>,
}

/// Why training ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// It had all its epochs or steps.
    #[default]
    Complete,
    /// The validation loss did not get lower for too many epochs.
    Early,
    /// It was asked to stop. A snapshot, if there are any, holds all until then.
    Stopped,
}

impl<M> Training<M>
where
    M: LearnerModel,
    <M as TrainStep>::Input: StepInput,
    <M as TrainStep>::Output: StepOutput + Adaptor<LossInput>,
    <M as InferenceStep>::Output: StepOutput + Adaptor<LossInput>,
{
    /// A run of one epoch on `device` with a constant learning rate of 1e-3 and no snapshots.
    /// `directory` is where burn-train would write files of its own.
    pub fn new(directory: impl AsRef<Path>, device: Device) -> Self {
        Self {
            directory: directory.as_ref().to_path_buf(),
            device,
            learning_rate: LearningRate::new(1e-3),
            groups: Vec::new(),
            epochs: 1,
            max_steps: None,
            patience: None,
            accumulation: 1,
            clip_norm: None,
            seed: 0,
            snapshots: None,
            resume: None,
            replica: Arc::new(LocalReplica),
            clock: EpochClock::default(),
            stop: Stop::new(),
            unit: "samples",
        }
    }

    /// The learning rate over the steps.
    pub fn learning_rate(self, learning_rate: impl Into<LearningRate>) -> Self {
        Self {
            learning_rate: learning_rate.into(),
            ..self
        }
    }

    /// The parameters of `group` learn at `factor` times the rate, such as a backbone that is
    /// fine-tuned. The last group that a parameter matches counts. Name parameters by their path: a
    /// resumed model has other identifiers.
    pub fn group(mut self, group: ParamGroup, factor: f64) -> Self {
        self.groups.push((group, factor));
        self
    }

    /// Epochs to train for.
    pub fn epochs(self, epochs: usize) -> Self {
        Self { epochs, ..self }
    }

    /// Steps of the optimiser after which training ends, in the middle of an epoch if need be.
    pub fn max_steps(self, max_steps: Option<usize>) -> Self {
        Self { max_steps, ..self }
    }

    /// Ends training after that many epochs in a row without a lower validation loss.
    pub fn patience(self, patience: Option<usize>) -> Self {
        Self { patience, ..self }
    }

    /// Batches in a step of the optimiser; the gradient is their mean by sample, as of one large
    /// batch. (Batch normalisation still sees each batch by itself.)
    pub fn accumulation(self, batches: usize) -> Self {
        Self {
            accumulation: batches,
            ..self
        }
    }

    /// Scales the gradients of a step down to this common L2 norm where it is larger.
    pub fn clip_norm(self, largest: Option<f64>) -> Self {
        Self {
            clip_norm: largest,
            ..self
        }
    }

    /// Seeds the device's generator before each step, with epoch, step and rank.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Keeps snapshots to resume from. A run that does not resume removes those that are there.
    pub fn snapshots(self, snapshots: Snapshots) -> Self {
        Self {
            snapshots: Some(snapshots),
            ..self
        }
    }

    /// Goes on from `snapshot`; from the start when it is `None`. Options and data have to be those
    /// of the run that it is of: then the end is that of an unbroken run, to the last bit. Only the
    /// number of epochs may be another.
    pub fn resume(self, snapshot: Option<Snapshot>) -> Self {
        Self {
            resume: snapshot,
            ..self
        }
    }

    /// Trains on all ranks of `world` together, each of which calls this: one model, whose gradients are the mean of
    /// theirs. Loaders have to give each rank its part of the data, as [`ShardedLoader`](super::ShardedLoader) does.
    ///
    /// Only rank 0 writes files and draws progress; a snapshot to [`resume`](Self::resume) from is that of rank 0. A rank
    /// that is asked to stop stops all.
    pub fn distributed(self, world: &Arc<World>, config: DataParallelConfig) -> Self {
        match world.size() {
            1 => self,
            _ => self.replica(Arc::new(WorldReplica::new(world, config))),
        }
    }

    /// Runs as one of several replicas.
    pub fn replica(self, replica: Arc<dyn Replica<M>>) -> Self {
        Self { replica, ..self }
    }

    /// Sets `clock` to the epoch before its batches are asked for.
    pub fn clock(self, clock: EpochClock) -> Self {
        Self { clock, ..self }
    }

    /// A handle that asks the run to stop after the current step.
    pub fn stop(self, stop: Stop) -> Self {
        Self { stop, ..self }
    }

    /// What the progress counts, such as `images`.
    pub fn unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    /// Trains `model`.
    ///
    /// # Errors
    ///
    /// If a loss is not finite, data cannot be read, another replica is lost, a snapshot cannot be
    /// written or is of another run, or `observer` fails.
    pub fn launch(
        self,
        model: M,
        optimizer: ModuleOptimizer,
        training: Arc<dyn DataLoader<<M as TrainStep>::Input>>,
        validation: Arc<dyn DataLoader<<M as InferenceStep>::Input>>,
        observer: impl Observer<M> + 'static,
    ) -> Result<Trained<M>, TrainError> {
        let settings = json!({
            "learning_rate": &self.learning_rate,
            "groups": self.groups.iter().map(|(group, factor)| json!([group, factor])).collect::<Vec<_>>(),
            "max_steps": self.max_steps,
            "patience": self.patience,
            "accumulation": self.accumulation,
            "clip_norm": self.clip_norm,
            "seed": self.seed,
        });
        match (&self.snapshots, &self.resume) {
            (Some(snapshots), Some(snapshot)) => snapshots.ensure_same(snapshot, &settings)?,
            (None, Some(snapshot)) => Snapshots::new("")
                .configuration(snapshot.configuration().clone())
                .ensure_same(snapshot, &settings)?,
            // Else a run that is killed before its first snapshot would go on from another's.
            (Some(snapshots), None) if self.replica.is_main() => snapshots.clear()?,
            _ => {}
        }
        let shared_rate = SharedLearningRate::new(self.learning_rate.at(0));
        let mut scheduler = ModuleLrScheduler::new(shared_rate.clone());
        for (group, factor) in self.groups {
            scheduler = scheduler.with_group(group, shared_rate.scaled(factor));
        }
        let mut progress = ProgressRenderer::new(self.unit, self.clock.clone());
        if self.replica.count() > 1 {
            progress = progress.of_replica(self.replica.rank());
        }
        let renderer: Box<dyn MetricsRenderer> = match self.replica.is_main() {
            true => renderer(progress, &self.stop),
            // Its log has the progress of the others.
            false if is_logged() => Box::new(progress),
            false => Box::new(ProgressRenderer::silent()),
        };
        let mut training_loop = TrainingLoop::new(
            self.device.autodiff(),
            shared_rate,
            self.replica,
            Box::new(observer),
            self.clock,
        );
        training_loop.options = LoopOptions {
            learning_rate: self.learning_rate,
            max_steps: self.max_steps,
            patience: self.patience,
            accumulation: Some(Accumulation::Mean(self.accumulation)),
            clip_norm: self.clip_norm,
            seed: self.seed,
            snapshots: self.snapshots,
            settings,
        };
        training_loop.resume = Mutex::new(self.resume);
        let outcome = training_loop.outcome();

        let heeded = self.stop.heed();
        let result = SupervisedTraining::new(&self.directory, training, validation)
            .num_epochs(self.epochs)
            .metric_train_numeric(LossMetric::new())
            .metric_valid_numeric(LossMetric::new())
            // The observer writes what is kept; without a logger burn-train writes its own files.
            .with_metric_logger(InMemoryMetricLogger::new())
            .with_application_logger(None)
            .with_interrupter(self.stop.interrupter())
            .renderer(renderer)
            .with_training_strategy(TrainingStrategy::Custom(Arc::new(training_loop)))
            .launch(Learner::new(model.train(), optimizer, scheduler));
        drop(heeded);
        let outcome = std::mem::take(&mut *outcome.lock().unwrap_or_else(PoisonError::into_inner));
        if outcome.error.is_none() && outcome.ending != Ending::Stopped {
            self.stop.end_if_signalled();
        }

        if let Some(error) = outcome.error {
            return Err(error);
        }
        if let Some(error) = result.error {
            return Err(TrainError::Burn(error.to_string()));
        }
        Ok(Trained {
            model: result.model,
            epochs: outcome.epochs,
            steps: outcome.steps,
            ending: outcome.ending,
            snapshot: outcome.snapshot,
        })
    }
}

/// What shows how training goes: with the feature `tui` burn-train's dashboard, where there is a terminal
/// for it.
fn renderer(progress: ProgressRenderer, stop: &Stop) -> Box<dyn MetricsRenderer> {
    #[cfg(feature = "tui")]
    if std::io::IsTerminal::is_terminal(&std::io::stdout()) {
        use burn::train::renderer::tui::TuiMetricsRendererWrapper;
        return Box::new(TuiMetricsRendererWrapper::new(stop.interrupter(), None));
    }
    #[cfg(not(feature = "tui"))]
    let _ = stop;
    Box::new(progress)
}
