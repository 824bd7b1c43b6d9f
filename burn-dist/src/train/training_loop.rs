//! The strategy that burn-train runs: epochs, steps, validation.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use burn::module::Module;
use burn::optim::GradientsAccumulator;
use burn::tensor::{Device, Tensor};
use burn::train::{
    EventProcessorTraining, InferenceStep, Learner, LearnerEvent, LearnerModel,
    SupervisedLearningStrategy, SupervisedTrainingEventProcessor, TrainLoader, TrainStep,
    TrainingComponents, TrainingItem, ValidLoader,
};

use super::{EpochSummary, Observer, Plateau, Replica, SharedLearningRate, TrainError};

/// What the loop reads from the output of a training or validation step.
pub trait StepOutput {
    /// The mean loss of the batch, `[1]`.
    fn loss(&self) -> Tensor<1>;

    /// Samples in the batch.
    fn samples(&self) -> usize;

    /// The samples by name, for the message when their loss is not finite.
    fn names(&self) -> String;
}

/// The current epoch, set by the loop before it asks a loader for its batches: the order of an
/// epoch then depends on its number, not on how often a loader was asked.
#[derive(Clone, Debug, Default)]
pub struct EpochClock(Arc<AtomicU64>);

impl EpochClock {
    /// The current epoch, from 1.
    pub fn epoch(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, epoch: usize) {
        self.0.store(epoch as u64, Ordering::Relaxed);
    }
}

/// What a run leaves behind besides the model.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) epochs: Vec<EpochSummary>,
    pub(super) stopped: bool,
    pub(super) error: Option<TrainError>,
}

/// The one training loop: a strategy for burn-train's `SupervisedTraining`, for any model.
///
/// [`Training`](super::Training) sets it up; on its own it serves who drives `SupervisedTraining`
/// by hand, with
/// `with_training_strategy(TrainingStrategy::Custom(Arc::new(TrainingLoop::new(..))))`.
pub struct TrainingLoop<M: LearnerModel> {
    device: Device,
    learning_rate: SharedLearningRate,
    replica: Arc<dyn Replica<M>>,
    observer: Mutex<Box<dyn Observer<M>>>,
    clock: EpochClock,
    pub(super) plateau: Option<Plateau>,
    pub(super) max_steps: Option<usize>,
    outcome: Arc<Mutex<Outcome>>,
}

impl<M: LearnerModel> TrainingLoop<M> {
    /// A loop on `device` (with autodiff), for a model in training mode. `learning_rate` must be the scheduler of the learner,
    /// and `clock` the one that the training loader orders its epochs by.
    pub fn new(
        device: Device,
        learning_rate: SharedLearningRate,
        replica: Arc<dyn Replica<M>>,
        observer: Box<dyn Observer<M>>,
        clock: EpochClock,
    ) -> Self {
        Self {
            device,
            learning_rate,
            replica,
            observer: Mutex::new(observer),
            clock,
            plateau: None,
            max_steps: None,
            outcome: Arc::default(),
        }
    }

    pub(super) fn outcome(&self) -> Arc<Mutex<Outcome>> {
        self.outcome.clone()
    }
}

/// What changes during a run.
struct Run<M: LearnerModel> {
    learner: Learner<M>,
    components: TrainingComponents<M>,
    training: TrainLoader<M>,
    validation: ValidLoader<M>,
    plateau: Option<Plateau>,
    best: f64,
    steps: usize,
    outcome: Outcome,
}

/// Sums over the batches of one side of an epoch.
#[derive(Default)]
struct Totals {
    loss: f64,
    samples: f64,
}

impl Totals {
    /// Adds a batch, unless its loss is not finite.
    fn add<O: StepOutput>(
        &mut self,
        output: &O,
        phase: &'static str,
        epoch: usize,
        batch: usize,
    ) -> Result<(), TrainError> {
        let loss = output
            .loss()
            .try_into_scalar::<f64>()
            .map_err(|e| TrainError::Burn(e.to_string()))?;
        if !loss.is_finite() {
            return Err(TrainError::NonFiniteLoss {
                phase,
                loss,
                epoch,
                batch,
                samples: output.names(),
            });
        }
        self.loss += loss * output.samples() as f64;
        self.samples += output.samples() as f64;
        Ok(())
    }

    /// The mean over all replicas and the samples it was taken over.
    fn mean<M: Module>(
        self,
        replica: &dyn Replica<M>,
        phase: &'static str,
    ) -> Result<(f64, usize), TrainError> {
        let mut sums = [self.loss, self.samples];
        replica.sum(&mut sums)?;
        match sums {
            [_, 0.0] => Err(TrainError::NoData { phase }),
            [loss, samples] => Ok((loss / samples, samples as usize)),
        }
    }
}

impl<M> SupervisedLearningStrategy<M> for TrainingLoop<M>
where
    M: LearnerModel,
    <M as TrainStep>::Output: StepOutput,
    <M as InferenceStep>::Output: StepOutput,
{
    fn fit(
        &self,
        components: TrainingComponents<M>,
        mut learner: Learner<M>,
        training: TrainLoader<M>,
        validation: ValidLoader<M>,
        first_epoch: usize,
    ) -> (M, SupervisedTrainingEventProcessor<M>) {
        learner.fork(&self.device);
        let mut run = Run {
            learner,
            training: training.to_device(&self.device),
            validation: validation.to_device(&self.device.clone().inner()),
            components,
            plateau: self.plateau.clone(),
            best: f64::INFINITY,
            steps: 0,
            outcome: Outcome::default(),
        };
        if let Err(error) = self.epochs(&mut run, first_epoch) {
            run.outcome.error = Some(error);
        }
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = run.outcome;
        (run.learner.model(), run.components.event_processor)
    }
}

impl<M> TrainingLoop<M>
where
    M: LearnerModel,
    <M as TrainStep>::Output: StepOutput,
    <M as InferenceStep>::Output: StepOutput,
{
    fn epochs(&self, run: &mut Run<M>, first_epoch: usize) -> Result<(), TrainError> {
        for epoch in first_epoch..=run.components.num_epochs {
            self.clock.set(epoch);
            let learning_rate = self.learning_rate.get();
            let started = Instant::now();
            let (training_loss, samples) = self.train(run, epoch)?;
            let seconds = started.elapsed().as_secs_f64();
            if run.outcome.stopped {
                return Ok(());
            }
            let (validation_loss, _) = self.validate(run, epoch)?;
            let summary = EpochSummary {
                epoch,
                steps: run.steps,
                training_loss,
                validation_loss,
                learning_rate,
                samples,
                seconds,
                best: validation_loss < run.best,
            };
            run.best = run.best.min(validation_loss);
            if let Some(plateau) = &mut run.plateau {
                self.learning_rate
                    .set(plateau.observe(validation_loss, learning_rate));
            }
            let early_stop = self.end_epoch(run, summary)?;
            if early_stop || self.is_last_step(run.steps) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn is_last_step(&self, steps: usize) -> bool {
        self.max_steps.is_some_and(|max| steps >= max)
    }

    /// The training side of an epoch: mean loss by sample, and samples.
    fn train(&self, run: &mut Run<M>, epoch: usize) -> Result<(f64, usize), TrainError> {
        let events = &mut run.components.event_processor;
        event(events.process_train(LearnerEvent::StartSplit {
            epoch_number: epoch,
            total_items: run.training.num_items(),
        }))?;
        let mut totals = Totals::default();
        let mut batches = run.training.iter();
        let mut accumulator = GradientsAccumulator::<M>::new();
        let accumulate = run.components.grad_accumulation.unwrap_or(1).max(1);
        let mut accumulated = 0;
        let mut batch = 0;
        while let Some(item) = batches.next() {
            let item = item.map_err(|e| TrainError::Data(e.to_string()))?;
            batch += 1;
            accumulated += 1;
            let progress = batches.progress();
            let steps = accumulated == accumulate || progress.is_completed();

            // Only the last micro-batch of a step meets the other replicas.
            let output = match steps {
                true => TrainStep::step(&self.replica.gate(run.learner.model()), item),
                false => run.learner.train_step(item),
            };
            totals.add(&output.item, "training", epoch, batch)?;
            accumulator.accumulate(&run.learner.model(), output.grads);
            if steps {
                let gradients = accumulator.grads();
                let gradients = self.replica.reduce(&run.learner.model(), gradients)?;
                run.learner.lr_step();
                run.learner.optimizer_step(gradients);
            }
            let learning_rate = run.learner.lr_current();
            let item = TrainingItem::new(output.item, progress, Some(batch), Some(learning_rate));
            event(events.process_train(LearnerEvent::ProcessedItem(item)))?;
            if !steps {
                continue;
            }
            accumulated = 0;
            run.steps += 1;
            let stop = run.components.interrupter.should_stop();
            run.outcome.stopped = self.replica.agree(stop)?;
            if run.outcome.stopped || self.is_last_step(run.steps) {
                break;
            }
        }
        drop(batches);
        event(events.process_train(LearnerEvent::EndSplit(epoch)))?;
        totals.mean(self.replica.as_ref(), "training")
    }

    /// The validation side of an epoch: mean loss by sample, and samples.
    fn validate(&self, run: &mut Run<M>, epoch: usize) -> Result<(f64, usize), TrainError> {
        let events = &mut run.components.event_processor;
        event(events.process_valid(LearnerEvent::StartSplit {
            epoch_number: epoch,
            total_items: run.validation.num_items(),
        }))?;
        let model = run.learner.model().valid();
        let mut observer = self.observer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut totals = Totals::default();
        let mut batches = run.validation.iter();
        let mut batch = 0;
        while let Some(item) = batches.next() {
            let item = item.map_err(|e| TrainError::Data(e.to_string()))?;
            batch += 1;
            let progress = batches.progress();
            let output = InferenceStep::step(&model, item);
            totals.add(&output, "validation", epoch, batch)?;
            observer.validated(&output).map_err(TrainError::Observer)?;
            let item = TrainingItem::new(output, progress, Some(batch), None);
            event(events.process_valid(LearnerEvent::ProcessedItem(item)))?;
        }
        drop(batches);
        event(events.process_valid(LearnerEvent::EndSplit(epoch)))?;
        totals.mean(self.replica.as_ref(), "validation")
    }

    /// Keeps what the epoch leaves behind; whether burn-train's early stopping ends the run.
    fn end_epoch(&self, run: &mut Run<M>, summary: EpochSummary) -> Result<bool, TrainError> {
        let components = &mut run.components;
        let epoch = summary.epoch;
        event(
            components
                .event_processor
                .process_train(LearnerEvent::EndEpoch(epoch)),
        )?;
        event(components.event_processor.flush())?;
        if self.replica.is_main() {
            self.observer
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .epoch_ended(&summary, &run.learner.model())
                .map_err(TrainError::Observer)?;
            if let Some(checkpointer) = &mut components.checkpointer {
                checkpointer.checkpoint(&run.learner, epoch, &components.event_store);
            }
        }
        run.outcome.epochs.push(summary);
        let stop = match &mut components.early_stopping {
            Some(early_stopping) => early_stopping.should_stop(epoch, &components.event_store),
            None => false,
        };
        Ok(self.replica.agree(stop)?)
    }
}

fn event<E: std::fmt::Display>(result: Result<(), E>) -> Result<(), TrainError> {
    result.map_err(|error| TrainError::Burn(error.to_string()))
}
