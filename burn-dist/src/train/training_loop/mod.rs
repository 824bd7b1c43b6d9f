//! The strategy that burn-train runs.
//!
//! | file | what it is |
//! |---|---|
//! | `mod` | [`TrainingLoop`]: epoch after epoch, and what ends a run |
//! | `training_side`, `validation_side` | the two sides of an epoch |
//! | `totals` | sums of losses |

mod totals;
mod training_side;
mod validation_side;

use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::Device;
use burn::train::{
    EventProcessorTraining, InferenceStep, Learner, LearnerEvent, LearnerModel,
    SupervisedLearningStrategy, SupervisedTrainingEventProcessor, TrainLoader, TrainStep,
    TrainingComponents, ValidLoader,
};
use serde_json::Value;

use super::accumulation::Accumulation;
use super::snapshot::{LearnerRecords, RunState, Totals};
use super::{
    Ending, EpochClock, EpochSummary, LearningRate, Observer, Replica, SharedLearningRate,
    Snapshot, Snapshots, StepInput, StepOutput, TrainError,
};

/// What a run leaves behind besides the model.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) epochs: Vec<EpochSummary>,
    pub(super) steps: usize,
    pub(super) ending: Ending,
    pub(super) snapshot: Option<std::path::PathBuf>,
    pub(super) error: Option<TrainError>,
}

/// The one training loop: a strategy for burn-train's `SupervisedTraining`, for any model.
///
/// [`Training`](super::Training) sets it up; on its own it serves who drives `SupervisedTraining`
/// by hand, with
/// `with_training_strategy(TrainingStrategy::Custom(Arc::new(TrainingLoop::new(..))))`.
pub struct TrainingLoop<M: LearnerModel> {
    device: Device,
    shared_rate: SharedLearningRate,
    replica: Arc<dyn Replica<M>>,
    observer: Mutex<Box<dyn Observer<M>>>,
    clock: EpochClock,
    pub(super) options: LoopOptions,
    /// Where a run goes on, if it does.
    pub(super) resume: Mutex<Option<Snapshot>>,
    outcome: Arc<Mutex<Outcome>>,
}

/// What a run can do without.
pub(super) struct LoopOptions {
    pub(super) learning_rate: LearningRate,
    pub(super) max_steps: Option<usize>,
    /// Epochs without a lower validation loss after which training ends.
    pub(super) patience: Option<usize>,
    /// burn-train's setting, when `None`.
    pub(super) accumulation: Option<Accumulation>,
    /// The largest common norm of the gradients of a step.
    pub(super) clip_norm: Option<f64>,
    pub(super) seed: u64,
    pub(super) snapshots: Option<Snapshots>,
    /// What a snapshot has to agree with.
    pub(super) settings: Value,
}

impl<M: LearnerModel> TrainingLoop<M> {
    /// A loop on `device` (with autodiff), for a model in training mode. `learning_rate` must be the
    /// scheduler of the learner, and `clock` the one that the training loader orders its epochs by.
    ///
    /// Before each step the device's generator is seeded from 0, epoch, step and rank.
    pub fn new(
        device: Device,
        learning_rate: SharedLearningRate,
        replica: Arc<dyn Replica<M>>,
        observer: Box<dyn Observer<M>>,
        clock: EpochClock,
    ) -> Self {
        let options = LoopOptions {
            learning_rate: learning_rate.get().into(),
            max_steps: None,
            patience: None,
            accumulation: None,
            clip_norm: None,
            seed: 0,
            snapshots: None,
            settings: Value::Null,
        };
        Self {
            device,
            shared_rate: learning_rate,
            replica,
            observer: Mutex::new(observer),
            clock,
            options,
            resume: Mutex::new(None),
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
    records: LearnerRecords<M>,
    components: TrainingComponents<M>,
    training: TrainLoader<M>,
    validation: ValidLoader<M>,
    state: RunState,
    outcome: Outcome,
}

impl<M> SupervisedLearningStrategy<M> for TrainingLoop<M>
where
    M: LearnerModel,
    <M as TrainStep>::Input: StepInput,
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
        let mut state = RunState::new(self.options.learning_rate.clone());
        state.begin(first_epoch);
        let mut run = Run {
            learner,
            records: LearnerRecords::new(),
            training: training.to_device(&self.device),
            validation: validation.to_device(&self.device.clone().inner()),
            components,
            state,
            outcome: Outcome::default(),
        };
        let result = self.resume(&mut run).and_then(|()| self.epochs(&mut run));
        // Who asks while the last step is taken, or the last epoch ends, is heard as well: by all.
        let asked = || self.replica.agree(run.components.interrupter.should_stop());
        let result = result.and_then(|ending| Ok((ending, asked()?)));
        match result {
            Ok((_, true)) => run.outcome.ending = Ending::Stopped,
            Ok((ending, false)) => run.outcome.ending = ending,
            Err(error) => run.outcome.error = Some(error),
        }
        run.outcome.epochs = run.state.epochs;
        run.outcome.steps = run.state.steps;
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = run.outcome;
        (run.learner.model(), run.components.event_processor)
    }
}

impl<M> TrainingLoop<M>
where
    M: LearnerModel,
    <M as TrainStep>::Input: StepInput,
    <M as TrainStep>::Output: StepOutput,
    <M as InferenceStep>::Output: StepOutput,
{
    /// Takes up the snapshot that the run goes on from, if there is one.
    fn resume(&self, run: &mut Run<M>) -> Result<(), TrainError> {
        // Taken, so that its memory does not stay for the whole run.
        let mut taken = self
            .resume
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let replica = &self.replica;
        if replica.count() > 1 {
            // The folder of the main replica may not be there for the others.
            let own = taken.filter(|_| replica.is_main());
            let bytes = replica.broadcast(own.map_or_else(Vec::new, |own| own.to_bytes()))?;
            taken = Snapshot::from_bytes(&bytes)?;
        }
        if let Some(snapshot) = &taken {
            run.records
                .restore(snapshot, &mut run.learner, &run.components.event_store)?;
        }
        if replica.count() > 1 {
            let model = replica.join(run.learner.model())?;
            run.learner.load_model(model.into_record());
        }
        let Some(snapshot) = taken else {
            return Ok(());
        };
        run.outcome.snapshot = Some(snapshot.path().to_path_buf());
        let own = snapshot.replica(replica.rank(), replica.count())?;
        run.state = snapshot.state;
        match own {
            Some(own) => {
                run.state.totals = own.totals;
                replica.set_statistics(&run.learner.model(), &own.statistics)?;
            }
            // Of another number of replicas: sums go on in one of them.
            None if replica.is_main() => {}
            None => run.state.totals = Totals::default(),
        }
        let mut observer = self.observer.lock().unwrap_or_else(PoisonError::into_inner);
        observer
            .resume(&run.state.observer, run.state.best)
            .map_err(TrainError::Observer)?;
        // A loader of Burn draws the order of an epoch from a generator of its own, which moves on
        // with each epoch.
        for epoch in 1..run.state.epoch {
            self.clock.set(epoch, 0);
            drop(run.training.iter());
        }
        Ok(())
    }

    fn epochs(&self, run: &mut Run<M>) -> Result<Ending, TrainError> {
        for epoch in run.state.epoch..=run.components.num_epochs {
            let interrupted = self.train(run, epoch)?;
            if interrupted {
                return Ok(Ending::Stopped);
            }
            let (training_loss, samples) =
                run.state.totals.mean(self.replica.as_ref(), "training")?;
            let Some((validation_loss, _)) = self.validate(run, epoch)? else {
                return Ok(Ending::Stopped);
            };
            let summary = EpochSummary {
                epoch,
                steps: run.state.steps,
                training_loss,
                validation_loss,
                learning_rate: self.shared_rate.get(),
                samples,
                seconds: run.state.seconds,
                best: run.state.best.is_none_or(|best| validation_loss < best),
            };
            run.state.best = match summary.best {
                true => Some(validation_loss),
                false => run.state.best,
            };
            run.state
                .learning_rate
                .observe(validation_loss, run.state.steps);
            let early_stop = self.end_epoch(run, summary)?;
            if early_stop {
                return Ok(Ending::Early);
            }
            if self.is_last_step(run.state.steps) {
                return Ok(Ending::Complete);
            }
            run.state.begin(epoch + 1);
        }
        Ok(Ending::Complete)
    }

    /// Tells the observer of the main replica what those of the others have.
    fn share(&self, observer: &mut dyn Observer<M>) -> Result<(), TrainError> {
        if self.replica.count() == 1 {
            return Ok(());
        }
        let own = observer.share().map_err(TrainError::Observer)?;
        let all = self.replica.gather(own)?;
        match self.replica.is_main() {
            true => observer.merge(all).map_err(TrainError::Observer),
            false => Ok(()),
        }
    }

    fn is_last_step(&self, steps: usize) -> bool {
        self.options.max_steps.is_some_and(|max| steps >= max)
    }

    /// Keeps what the epoch leaves behind; whether training ends before its last epoch.
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
        run.state.epochs.push(summary);
        let epochs = run.state.epochs.iter().rev();
        let stalled = epochs.take_while(|epoch| !epoch.best).count();
        let patience = self.options.patience;
        let stop = patience.is_some_and(|patience| stalled >= patience)
            | match &mut components.early_stopping {
                Some(early_stopping) => early_stopping.should_stop(epoch, &components.event_store),
                None => false,
            };
        Ok(self.replica.agree(stop)?)
    }

    fn start_split(
        &self,
        run: &mut Run<M>,
        epoch: usize,
        training: bool,
        total_items: usize,
    ) -> Result<(), TrainError> {
        let events = &mut run.components.event_processor;
        event(match training {
            true => events.process_train(LearnerEvent::StartSplit {
                epoch_number: epoch,
                total_items,
            }),
            false => events.process_valid(LearnerEvent::StartSplit {
                epoch_number: epoch,
                total_items,
            }),
        })
    }
}

fn event<E: std::fmt::Display>(result: Result<(), E>) -> Result<(), TrainError> {
    result.map_err(|error| TrainError::Burn(error.to_string()))
}
