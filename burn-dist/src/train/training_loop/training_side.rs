//! The training side of an epoch: steps, and the snapshots behind them.

use std::hash::Hasher;
use std::sync::PoisonError;
use std::time::Instant;

use burn::data::dataloader::DataLoaderIterator;
use burn::optim::GradientsParams;
use burn::train::{
    EventProcessorTraining, InferenceStep, LearnerEvent, LearnerModel, TrainLoader, TrainStep,
    TrainingItem,
};
use siphasher::sip::SipHasher24;

use super::super::accumulation::{Accumulation, Accumulator};
use super::super::snapshot::RunState;
use super::super::{StepOutput, TrainError};
use super::{Run, TrainingLoop, event};
use crate::optimizer::clip_norm;

/// The batches of an epoch.
type Batches<'a, M> = Box<dyn DataLoaderIterator<<M as TrainStep>::Input> + 'a>;

impl<M> TrainingLoop<M>
where
    M: LearnerModel,
    <M as TrainStep>::Output: StepOutput,
    <M as InferenceStep>::Output: StepOutput,
{
    /// The training side of an epoch, from where the state is; whether it was asked to stop. A snapshot
    /// lies behind it.
    pub(super) fn train(&self, run: &mut Run<M>, epoch: usize) -> Result<bool, TrainError> {
        let total = run.training.num_items();
        if run.state.items > 0 && (run.state.items >= total || self.is_last_step(run.state.steps)) {
            // The run stopped between training and the end of validation. A loader of Burn has to
            // move on to the next epoch all the same.
            self.clock.set(epoch, total);
            drop(run.training.iter());
            self.shared_rate.set(self.last_rate(&run.state));
            return Ok(self
                .replica
                .agree(run.components.interrupter.should_stop())?);
        }
        let mut since = Instant::now();
        self.clock.set(epoch, run.state.items);
        self.start_split(run, epoch, true, total)?;
        let accumulation = self.options.accumulation.unwrap_or(Accumulation::Sum(
            run.components.grad_accumulation.unwrap_or(1),
        ));
        let training = run.training.clone();
        let mut accumulator = Accumulator::new(accumulation);
        let mut batches = iterate::<M>(&training, &run.state)?;
        let mut stop = false;
        while let Some(item) = batches.next() {
            let item = item.map_err(|e| TrainError::Data(e.to_string()))?;
            let progress = batches.progress();
            let last = progress.is_completed();
            let (items, batch) = (progress.items_processed, run.state.batches + 1);
            if accumulator.batches() == 0 {
                self.seed_step(epoch, run.state.steps);
            }
            let steps = accumulator.batches() + 1 == accumulation.batches() || last;

            // Only the last micro-batch of a step meets the other replicas.
            let output = match steps {
                true => TrainStep::step(&self.replica.gate(run.learner.model()), item),
                false => run.learner.train_step(item),
            };
            run.state
                .totals
                .add(&output.item, "training", epoch, batch)?;
            accumulator.add(&run.learner.model(), output.grads, output.item.samples());
            run.state.batches = batch;
            run.state.items = items;
            if steps {
                let gradients = accumulator.take(&run.learner.model());
                self.step(run, gradients)?;
            }
            let rate = run.learner.lr_current();
            let item = TrainingItem::new(output.item, progress, Some(batch), Some(rate));
            let events = &mut run.components.event_processor;
            event(events.process_train(LearnerEvent::ProcessedItem(item)))?;
            if !steps {
                continue;
            }
            stop = self
                .replica
                .agree(run.components.interrupter.should_stop())?;
            if stop || self.is_last_step(run.state.steps) {
                break;
            }
            if !last && self.is_due(run.state.steps) {
                run.state.seconds += since.elapsed().as_secs_f64();
                self.save(run)?;
                since = Instant::now();
            }
        }
        if accumulator.batches() > 0 {
            // The loader left out the end of the epoch, so its last step was not known to be one.
            let gradients = accumulator.take(&run.learner.model());
            self.step(run, gradients)?;
        }
        drop(batches);
        let events = &mut run.components.event_processor;
        event(events.process_train(LearnerEvent::EndSplit(epoch)))?;
        if !stop && !self.is_last_step(run.state.steps) {
            run.state.items = total;
        }
        run.state.seconds += since.elapsed().as_secs_f64();
        if run.state.batches > 0 {
            self.save(run)?;
        }
        Ok(stop)
    }

    /// Moves the weights by the gradients of a step.
    fn step(&self, run: &mut Run<M>, gradients: GradientsParams) -> Result<(), TrainError> {
        let model = run.learner.model();
        let mut gradients = self.replica.reduce(&model, gradients)?;
        if let Some(largest) = self.options.clip_norm {
            let clipped = clip_norm(&model, gradients, largest);
            (gradients, _) = clipped.map_err(|e| TrainError::Burn(e.to_string()))?;
        }
        self.shared_rate
            .set(run.state.learning_rate.at(run.state.steps));
        run.learner.lr_step();
        run.learner.optimizer_step(gradients);
        run.state.steps += 1;
        Ok(())
    }

    /// The rate of the step before `state`.
    fn last_rate(&self, state: &RunState) -> f64 {
        state.learning_rate.at(state.steps.saturating_sub(1))
    }

    /// The device's generator is one for the whole process and cannot be saved; so it begins anew
    /// with each step, and a resumed run draws what an unbroken one does.
    fn seed_step(&self, epoch: usize, step: usize) {
        let mut hasher = SipHasher24::new();
        for value in [self.options.seed, epoch as u64, step as u64] {
            hasher.write_u64(value);
        }
        hasher.write_u64(self.replica.rank() as u64);
        self.device.seed(hasher.finish());
    }

    fn is_due(&self, steps: usize) -> bool {
        let snapshots = self.options.snapshots.as_ref();
        snapshots.is_some_and(|snapshots| snapshots.is_due(steps))
    }

    /// Writes a snapshot, if there are to be any.
    fn save(&self, run: &mut Run<M>) -> Result<(), TrainError> {
        let Some(snapshots) = &self.options.snapshots else {
            return Ok(());
        };
        // The end of an epoch can lie behind its last step, where the loader leaves out the rest; the
        // snapshot of that step says as much, and must not be away for a moment.
        let saved = run.outcome.snapshot.as_ref();
        if !self.replica.is_main() || saved == Some(&snapshots.path(run.state.steps)) {
            return Ok(());
        }
        let observer = self.observer.lock().unwrap_or_else(PoisonError::into_inner);
        run.state.observer = observer.state();
        let records = run.records.take(&run.learner, &run.components.event_store);
        let (model, optimizer) = records.map_err(TrainError::Burn)?;
        let path = snapshots.write(&self.options.settings, &run.state, &model, &optimizer)?;
        run.outcome.snapshot = Some(path);
        Ok(())
    }
}

/// The batches of the epoch behind `state`.
fn iterate<'a, M: LearnerModel>(
    training: &'a TrainLoader<M>,
    state: &RunState,
) -> Result<Batches<'a, M>, TrainError> {
    let mut batches = training.iter();
    // A loader that knows the clock has skipped them already, without making them.
    while batches.progress().items_processed < state.items {
        match batches.next() {
            Some(batch) => drop(batch.map_err(|e| TrainError::Data(e.to_string()))?),
            None => break,
        }
    }
    match batches.progress().items_processed {
        found if found == state.items => Ok(batches),
        found => Err(TrainError::Position {
            epoch: state.epoch,
            wanted: state.items,
            found,
        }),
    }
}
