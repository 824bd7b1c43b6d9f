//! What to train, for how long, and how to start it through burn-train.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use burn::data::dataloader::DataLoader;
use burn::optim::ModuleOptimizer;
use burn::tensor::Device;
use burn::train::checkpoint::{FileCheckpointer, KeepLastNCheckpoints};
use burn::train::logger::InMemoryMetricLogger;
use burn::train::metric::{Adaptor, LossInput, LossMetric};
use burn::train::{
    InferenceStep, Interrupter, Learner, LearnerModel, SupervisedTraining, TrainStep,
    TrainingStrategy,
};

use super::training_loop::StepOutput;
use super::{
    EpochClock, EpochSummary, LocalReplica, Observer, Plateau, ProgressRenderer, Replica,
    SharedLearningRate, TrainError, TrainingLoop,
};

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
/// #     <M as TrainStep>::Output: StepOutput + Adaptor<LossInput>,
/// #     <M as InferenceStep>::Output: StepOutput + Adaptor<LossInput>,
/// # {
/// let trained = Training::new("run", Device::flex(), 1e-3)
///     .epochs(10)
///     .plateau(Plateau::new(0.1, 0))
///     .launch(model, AdamConfig::new().init(), training, validation, observer)?;
/// println!("{} epochs", trained.epochs.len());
/// # Ok(())
/// # }
/// ```
pub struct Training<M: LearnerModel> {
    directory: PathBuf,
    device: Device,
    learning_rate: f64,
    epochs: usize,
    max_steps: Option<usize>,
    plateau: Option<Plateau>,
    replica: Arc<dyn Replica<M>>,
    clock: EpochClock,
    interrupter: Interrupter,
    unit: &'static str,
}

/// A finished run.
#[derive(Debug)]
pub struct Trained<M> {
    /// The model of the last epoch, in evaluation mode.
    pub model: M,
    /// The figures of each epoch.
    pub epochs: Vec<EpochSummary>,
    /// Whether the run was asked to stop before its last step.
    pub stopped: bool,
}

impl<M> Training<M>
where
    M: LearnerModel,
    <M as TrainStep>::Output: StepOutput + Adaptor<LossInput>,
    <M as InferenceStep>::Output: StepOutput + Adaptor<LossInput>,
{
    /// A run of one epoch on `device` with a constant learning rate. Checkpoints go to
    /// `checkpoints/` under `directory`.
    pub fn new(directory: impl AsRef<Path>, device: Device, learning_rate: f64) -> Self {
        Self {
            directory: directory.as_ref().to_path_buf(),
            device,
            learning_rate,
            epochs: 1,
            max_steps: None,
            plateau: None,
            replica: Arc::new(LocalReplica),
            clock: EpochClock::default(),
            interrupter: Interrupter::new(),
            unit: "samples",
        }
    }

    /// Epochs to train for.
    pub fn epochs(self, epochs: usize) -> Self {
        Self { epochs, ..self }
    }

    /// Steps of the optimiser after which training ends, in the middle of an epoch if need be.
    pub fn max_steps(self, max_steps: Option<usize>) -> Self {
        Self { max_steps, ..self }
    }

    /// Divides the learning rate when the validation loss stalls.
    pub fn plateau(self, plateau: Plateau) -> Self {
        Self {
            plateau: Some(plateau),
            ..self
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
    pub fn interrupter(self, interrupter: Interrupter) -> Self {
        Self {
            interrupter,
            ..self
        }
    }

    /// What the progress counts, such as `images`.
    pub fn unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    /// Trains `model`.
    ///
    /// # Errors
    ///
    /// If a loss is not finite, data cannot be read, another replica is lost, or `observer`
    /// fails.
    pub fn launch(
        self,
        model: M,
        optimizer: ModuleOptimizer,
        training: Arc<dyn DataLoader<<M as TrainStep>::Input>>,
        validation: Arc<dyn DataLoader<<M as InferenceStep>::Input>>,
        observer: impl Observer<M> + 'static,
    ) -> Result<Trained<M>, TrainError> {
        let learning_rate = SharedLearningRate::new(self.learning_rate);
        let renderer = match self.replica.is_main() {
            true => ProgressRenderer::new(self.unit),
            false => ProgressRenderer::silent(),
        };
        let mut training_loop = TrainingLoop::new(
            self.device.autodiff(),
            learning_rate.clone(),
            self.replica,
            Box::new(observer),
            self.clock,
        );
        training_loop.plateau = self.plateau;
        training_loop.max_steps = self.max_steps;
        let outcome = training_loop.outcome();

        let checkpoints = self.directory.join("checkpoints");
        let result = SupervisedTraining::new(&self.directory, training, validation)
            .num_epochs(self.epochs)
            .metric_train_numeric(LossMetric::new())
            .metric_valid_numeric(LossMetric::new())
            // The observer writes what is kept; without a logger burn-train writes its own files.
            .with_metric_logger(InMemoryMetricLogger::new())
            .with_application_logger(None)
            .with_interrupter(self.interrupter)
            .with_checkpointing_strategy(KeepLastNCheckpoints::new(2))
            .with_custom_checkpointers(
                FileCheckpointer::new(&checkpoints, "model"),
                FileCheckpointer::new(&checkpoints, "optimizer"),
                FileCheckpointer::new(&checkpoints, "scheduler"),
            )
            .renderer(Box::new(renderer))
            .with_training_strategy(TrainingStrategy::Custom(Arc::new(training_loop)))
            .launch(Learner::new(model.train(), optimizer, learning_rate));

        let outcome = std::mem::take(&mut *outcome.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(error) = outcome.error {
            return Err(error);
        }
        if let Some(error) = result.error {
            return Err(TrainError::Burn(error.to_string()));
        }
        Ok(Trained {
            model: result.model,
            epochs: outcome.epochs,
            stopped: outcome.stopped,
        })
    }
}
