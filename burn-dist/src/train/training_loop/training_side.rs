//! The training side of an epoch: steps, and the snapshots behind them.

use std::hash::Hasher;
use std::sync::PoisonError;
use std::time::Instant;

use burn::data::dataloader::{DataLoaderIterator, Progress};
use burn::optim::GradientsParams;
use burn::train::{
    EventProcessorTraining, InferenceStep, LearnerEvent, LearnerModel, TrainLoader, TrainStep,
    TrainingItem,
};
use siphasher::sip::SipHasher24;

use super::super::accumulation::{Accumulation, Accumulator};
use super::super::snapshot::{ReplicaState, RunState};
use super::super::{StepInput, StepOutput, TrainError};
use super::{Run, TrainingLoop, event};
use crate::distributed::Vote;
use crate::optimizer::clip_norm;

/// The batches of an epoch.
type Batches<'a, M> = Box<dyn DataLoaderIterator<<M as TrainStep>::Input> + 'a>;

impl<M> TrainingLoop<M>
where
    M: LearnerModel,
    <M as TrainStep>::Input: StepInput,
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
        let mut accumulator = Accumulator::new(accumulation, self.replica.needs_data());
        let mut batches = iterate::<M>(&training, &run.state)?;
        let stop = loop {
            let last = self.micro_batches(run, &mut batches, &mut accumulator, accumulation)?;
            let model = run.learner.model();
            let contribution = match last.is_gated {
                true => None,
                false => Some(accumulator.take(&model)),
            };
            let vote = Vote {
                stop: run.components.interrupter.should_stop(),
                more: last.more,
            };
            let reduced = self.replica.reduce(&model, contribution, vote)?;
            // Replicas whose data is at its end take part until that of all is.
            if reduced.has_data {
                self.step(run, reduced.gradients)?;
            }
            if let Some((output, progress)) = last.output {
                processed(run, output, progress)?;
            }
            if reduced.stop || !reduced.more || self.is_last_step(run.state.steps) {
                break reduced.stop;
            }
            if self.is_due(run.state.steps) {
                run.state.seconds += since.elapsed().as_secs_f64();
                self.save(run)?;
                since = Instant::now();
            }
        };
        drop(batches);
        let events = &mut run.components.event_processor;
        event(events.process_train(LearnerEvent::EndSplit(epoch)))?;
        if !stop && !self.is_last_step(run.state.steps) {
            run.state.items = total;
        }
        run.state.seconds += since.elapsed().as_secs_f64();
        if run.state.steps > 0 {
            self.save(run)?;
        }
        Ok(stop)
    }

    /// The forward and backward passes of a step, as far as there are batches: gradients are in `accumulator`, or,
    /// those of a gated model, on their way.
    fn micro_batches(
        &self,
        run: &mut Run<M>,
        batches: &mut Batches<'_, M>,
        accumulator: &mut Accumulator<M>,
        accumulation: Accumulation,
    ) -> Result<LastBatch<M>, TrainError> {
        let epoch = run.state.epoch;
        self.seed_step(epoch, run.state.steps);
        loop {
            let Some(item) = batches.next() else {
                return Ok(LastBatch {
                    is_gated: false,
                    more: false,
                    output: None,
                });
            };
            let item = item.map_err(|e| TrainError::Data(e.to_string()))?;
            let progress = batches.progress();
            let more = !progress.is_completed();
            let is_last = accumulator.batches() + 1 == accumulation.batches() || !more;
            // Only the last micro-batch of a step meets the other replicas.
            let is_gated = is_last && self.replica.overlaps();
            let (model, weight) = (run.learner.model(), item.weight());
            let batch = run.state.batches + 1;
            if item.samples() == 0 {
                self.pass_over(epoch, batch)?;
                accumulator.add_nothing();
                run.state.items = progress.items_processed;
                if is_last {
                    return Ok(LastBatch {
                        is_gated: false,
                        more,
                        output: None,
                    });
                }
                continue;
            }
            if matches!(
                accumulation,
                Accumulation::Mean(_) | Accumulation::Sum(0 | 1)
            ) {
                self.replica.weigh(weight);
            }
            let output = match is_gated {
                true => {
                    let before = accumulator.before_last(&model, weight);
                    TrainStep::step(&self.replica.gate(&model, before)?, item)
                }
                false => run.learner.train_step(item),
            };
            run.state
                .totals
                .add(&output.item, "training", epoch, batch)?;
            if !is_gated {
                accumulator.add(&model, output.grads, weight);
            }
            run.state.batches = batch;
            run.state.items = progress.items_processed;
            if is_last {
                return Ok(LastBatch {
                    is_gated,
                    more,
                    output: Some((output.item, progress)),
                });
            }
            processed(run, output.item, progress)?;
        }
    }

    /// A batch without samples is nothing to those who wait for none within their passes.
    fn pass_over(&self, epoch: usize, batch: usize) -> Result<(), TrainError> {
        match self.replica.needs_data() {
            false => Ok(()),
            true => Err(TrainError::Empty {
                rank: self.replica.rank(),
                epoch,
                batch,
            }),
        }
    }

    /// Moves the weights by the gradients of a step.
    fn step(&self, run: &mut Run<M>, mut gradients: GradientsParams) -> Result<(), TrainError> {
        if let Some(largest) = self.options.clip_norm {
            let clipped = clip_norm(&run.learner.model(), gradients, largest);
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
        steps > 0 && snapshots.is_some_and(|snapshots| snapshots.is_due(steps))
    }

    /// Writes a snapshot, if there are to be any.
    fn save(&self, run: &mut Run<M>) -> Result<(), TrainError> {
        let Some(snapshots) = &self.options.snapshots else {
            return Ok(());
        };
        // The end of an epoch can lie behind its last step, where the loader leaves out the rest; the
        // snapshot of that step says as much, and must not be away for a moment.
        let path = snapshots.path(run.state.steps);
        // Of a run that goes on all have the path that the main replica has read, and each writes to its own.
        let is_known = run.outcome.snapshot.as_ref() == Some(&path);
        if self.replica.broadcast(vec![u8::from(is_known)])? == [1] {
            return Ok(());
        }
        let model = run.learner.model();
        let own = ReplicaState {
            totals: run.state.totals,
            statistics: self.replica.statistics(&model)?,
        };
        let replicas = self.replica.gather(own.to_bytes())?;
        let state = self.shared_state(run)?;
        // The snapshot's model has the mean; this replica goes on with what it has.
        self.replica.average_statistics(&model)?;
        if self.replica.is_main() {
            let records = run.records.take(&run.learner, &run.components.event_store);
            let (model, optimizer) = records.map_err(TrainError::Burn)?;
            snapshots.write(
                &self.options.settings,
                &state,
                &model,
                &optimizer,
                &replicas,
            )?;
        }
        // Nobody ends before it is written.
        self.replica.agree(false)?;
        self.replica.set_statistics(&model, &own.statistics)?;
        run.outcome.snapshot = Some(path);
        Ok(())
    }

    /// The state of the run, of all replicas together.
    fn shared_state(&self, run: &Run<M>) -> Result<RunState, TrainError> {
        let mut observer = self.observer.lock().unwrap_or_else(PoisonError::into_inner);
        self.share(&mut **observer)?;
        Ok(RunState {
            totals: run.state.totals.of_all(self.replica.as_ref())?,
            replicas: self.replica.count(),
            observer: observer.state(),
            ..run.state.clone()
        })
    }
}

/// The last micro-batch of a step.
struct LastBatch<M: LearnerModel> {
    /// Its gradients were handed over during the backward pass.
    is_gated: bool,
    /// The loader has further batches, as far as it knows.
    more: bool,
    /// What came of it, and where in the epoch it was; `None` if there was no further batch.
    output: Option<(<M as TrainStep>::Output, Progress)>,
}

/// Tells burn-train of a batch.
fn processed<M: LearnerModel>(
    run: &mut Run<M>,
    output: <M as TrainStep>::Output,
    progress: Progress,
) -> Result<(), TrainError> {
    let rate = run.learner.lr_current();
    let item = TrainingItem::new(output, progress, Some(run.state.batches), Some(rate));
    let events = &mut run.components.event_processor;
    event(events.process_train(LearnerEvent::ProcessedItem(item)))
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
