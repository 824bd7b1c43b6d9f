//! The training loop on a small model: against burn-train's own loop, and at its edges.
#![allow(clippy::unwrap_used)]

mod case;
mod net;
mod options;
mod resume;
mod snapshots;

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use burn::data::dataloader::batcher::Batcher;
use burn::module::Module;
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::Device;
use burn::train::logger::InMemoryMetricLogger;
use burn::train::metric::LossMetric;
use burn::train::{Learner, SupervisedTraining, TrainingStrategy};
use burn_dist::distributed::{Contribution, DistributedError, Reduced, Vote};
use burn_dist::train::{
    Ending, EpochClock, EpochSummary, LearningRate, LocalReplica, Observer, Plateau, Replica,
    Schedule, SharedLearningRate, Snapshots, StepOutput, Stop, TrainError, Trained, Training,
    TrainingLoop,
};

use net::{Batches, Net, Output, Row, alone, loader, rows};

/// Counts what the loop tells it.
#[derive(Clone, Default)]
struct Notes {
    validated: Arc<AtomicUsize>,
    epochs: Arc<Mutex<Vec<EpochSummary>>>,
    fail_in_epoch: Option<usize>,
}

impl Observer<Net> for Notes {
    fn validated(&mut self, output: &Output) -> Result<(), String> {
        self.validated
            .fetch_add(output.samples(), Ordering::Relaxed);
        Ok(())
    }

    fn epoch_ended(&mut self, summary: &EpochSummary, _model: &Net) -> Result<(), String> {
        self.epochs.lock().unwrap().push(summary.clone());
        match self.fail_in_epoch {
            Some(epoch) if epoch == summary.epoch => Err("the disk is full".to_string()),
            _ => Ok(()),
        }
    }
}

fn state(model: &Net) -> Vec<f32> {
    [
        model.first.weight.val().into_data(),
        model.second.weight.val().into_data(),
        model.norm.running_mean.value().into_data(),
        model.norm.running_var.value().into_data(),
    ]
    .into_iter()
    .flat_map(|data| data.try_to_vec::<f32>().unwrap())
    .collect()
}

fn training(folder: &tempfile::TempDir) -> Training<Net> {
    Training::new(folder.path(), Device::flex())
        .learning_rate(1e-2)
        .epochs(3)
}

fn launch(
    training: Training<Net>,
    observer: Notes,
    rows_of_training: Vec<Row>,
) -> Result<Trained<Net>, TrainError> {
    training.launch(
        Net::new(&Device::flex()),
        AdamConfig::new().init(),
        loader(rows_of_training),
        loader(rows(20)),
        observer,
    )
}

/// burn-train's own single-device loop is the independent reference: same weights and running
/// statistics to the last bit, without and with accumulation.
#[test]
fn equals_burn_trains_own_loop() {
    let _alone = alone();
    for accumulation in [None, Some(3)] {
        let run = |strategy: Option<TrainingLoop<Net>>, rate: SharedLearningRate| {
            let folder = tempfile::tempdir().unwrap();
            let mut training =
                SupervisedTraining::<Net>::new(folder.path(), loader(rows(50)), loader(rows(20)))
                    .metric_train_numeric(LossMetric::new())
                    .metric_valid_numeric(LossMetric::new())
                    .num_epochs(3)
                    .with_metric_logger(InMemoryMetricLogger::new())
                    .with_application_logger(None);
            if let Some(accumulation) = accumulation {
                training = training.grads_accumulation(accumulation);
            }
            if let Some(strategy) = strategy {
                training =
                    training.with_training_strategy(TrainingStrategy::Custom(Arc::new(strategy)));
            }
            let model = Net::new(&Device::flex()).train();
            let learner = Learner::new(model, AdamConfig::new().init(), rate);
            state(&training.launch(learner).model)
        };
        let rate = || SharedLearningRate::new(1e-2);
        let shared = rate();
        let ours = TrainingLoop::new(
            Device::flex().autodiff(),
            shared.clone(),
            Arc::new(LocalReplica),
            Box::new(Notes::default()),
            EpochClock::default(),
        );
        assert_eq!(
            run(Some(ours), shared),
            run(None, rate()),
            "{accumulation:?}"
        );
    }
}

#[test]
fn every_epoch_is_summed_over_all_samples() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let notes = Notes::default();
    let clock = EpochClock::default();
    let trained = launch(
        training(&folder).clock(clock.clone()),
        notes.clone(),
        rows(50),
    )
    .unwrap();
    assert_eq!(trained.epochs, *notes.epochs.lock().unwrap());
    assert_eq!(trained.epochs.len(), 3);
    assert_eq!(clock.epoch(), 3);
    assert_eq!(notes.validated.load(Ordering::Relaxed), 3 * 20);
    let last = trained.epochs.last().unwrap();
    assert_eq!((last.epoch, last.steps, last.samples), (3, 21, 50));
    assert!(last.training_loss < trained.epochs[0].training_loss);
    let mut best = f64::INFINITY;
    for epoch in &trained.epochs {
        assert_eq!(epoch.best, epoch.validation_loss < best);
        best = best.min(epoch.validation_loss);
    }
    assert_eq!((trained.steps, trained.ending), (21, Ending::Complete));
    assert_eq!(trained.snapshot, None);
    // Nobody asked for files.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// The validation loss of the last epoch is that of the model that comes back.
#[test]
fn validation_loss_is_the_models() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let trained = launch(training(&folder), Notes::default(), rows(50)).unwrap();
    let batch = Batches.batch(rows(20), &Device::flex());
    let loss: f64 = trained.model.run(batch).loss.into_scalar::<f32>().into();
    let reported = trained.epochs.last().unwrap().validation_loss;
    // A mean of batches of 8, 8 and 4, weighted by their size, in f32.
    assert!((loss - reported).abs() < 1e-6, "{loss} {reported}");
}

#[test]
fn max_steps_end_training_in_the_middle_of_an_epoch() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let trained = launch(
        training(&folder).max_steps(Some(9)),
        Notes::default(),
        rows(50),
    )
    .unwrap();
    let steps: Vec<usize> = trained.epochs.iter().map(|epoch| epoch.steps).collect();
    assert_eq!(steps, [7, 9]);
    assert_eq!(trained.epochs[1].samples, 16);
}

#[test]
fn a_stalled_validation_loss_divides_the_learning_rate() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    // An improvement has to be by all of the best value: every epoch after the first stalls.
    let mut plateau = Plateau::new(0.1, 0);
    plateau.threshold = 1.0;
    let trained = launch(
        training(&folder)
            .learning_rate(LearningRate::new(1e-2).schedule(Schedule::Plateau(plateau))),
        Notes::default(),
        rows(50),
    )
    .unwrap();
    let rates: Vec<f64> = trained
        .epochs
        .iter()
        .map(|epoch| epoch.learning_rate)
        .collect();
    assert_eq!(rates[..2], [1e-2, 1e-2]);
    assert!((rates[2] - 1e-3).abs() < 1e-12);
}

#[test]
fn a_loss_that_is_no_number_names_batch_and_samples() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let mut rows = rows(50);
    rows[12].values[4] = f32::NAN;
    let notes = Notes::default();
    let error = launch(training(&folder), notes.clone(), rows).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("the training loss is NaN in epoch 1, batch 2 (row-8, "),
        "{text}"
    );
    assert!(text.contains("row-12"), "{text}");
    assert!(notes.epochs.lock().unwrap().is_empty());
}

#[test]
fn an_observer_that_fails_ends_the_run_with_its_reason() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let notes = Notes {
        fail_in_epoch: Some(2),
        ..Notes::default()
    };
    let error = launch(training(&folder), notes.clone(), rows(50)).unwrap_err();
    assert_eq!(error.to_string(), "the disk is full");
    assert_eq!(notes.epochs.lock().unwrap().len(), 2);
}

#[test]
fn no_data_is_an_error() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let error = launch(training(&folder), Notes::default(), Vec::new()).unwrap_err();
    assert!(
        matches!(error, TrainError::NoData { phase: "training" }),
        "{error}"
    );
}

#[test]
fn a_stop_that_was_asked_for_ends_after_the_step() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let stop = Stop::new();
    stop.request();
    let notes = Notes::default();
    let trained = launch(training(&folder).stop(stop), notes.clone(), rows(50));
    let trained = trained.unwrap();
    assert_eq!((trained.ending, trained.steps), (Ending::Stopped, 1));
    assert!(trained.epochs.is_empty());
    assert_eq!(notes.validated.load(Ordering::Relaxed), 0);
}

/// A second replica in the same place: doubles sums, counts calls, wants to stop after two steps.
#[derive(Default)]
struct Pair {
    gates: AtomicUsize,
    reductions: AtomicUsize,
}

impl Replica<Net> for Pair {
    fn rank(&self) -> usize {
        1
    }

    fn overlaps(&self) -> bool {
        true
    }

    fn gate(&self, model: &Net, _: Contribution) -> Result<Net, DistributedError> {
        self.gates.fetch_add(1, Ordering::Relaxed);
        Ok(model.clone())
    }

    fn reduce(
        &self,
        _: &Net,
        contribution: Option<Contribution>,
        vote: Vote,
    ) -> Result<Reduced, DistributedError> {
        assert!(contribution.is_none());
        let steps = self.reductions.fetch_add(1, Ordering::Relaxed) + 1;
        let stop = vote.stop || steps == 9;
        // As if the pass of the gated model had brought some.
        Ok(Contribution::gradients(GradientsParams::new(), 1).alone(Vote { stop, ..vote }))
    }

    fn sum(&self, values: &mut [f64]) -> Result<(), DistributedError> {
        values.iter_mut().for_each(|value| *value *= 2.0);
        Ok(())
    }
}

#[test]
fn a_replica_takes_part_in_every_step() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let pair = Arc::new(Pair::default());
    let notes = Notes::default();
    let trained = launch(
        training(&folder)
            .replica(pair.clone())
            .snapshots(Snapshots::new(folder.path())),
        notes.clone(),
        rows(50),
    );
    let trained = trained.unwrap();
    assert_eq!(trained.ending, Ending::Stopped);
    assert_eq!(pair.gates.load(Ordering::Relaxed), 9);
    assert_eq!(pair.reductions.load(Ordering::Relaxed), 9);
    assert_eq!(trained.epochs.len(), 1);
    assert_eq!(trained.epochs[0].samples, 100);
    // Only the main replica writes.
    assert!(notes.epochs.lock().unwrap().is_empty());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

struct LostPeer;

impl Replica<Net> for LostPeer {
    fn reduce(
        &self,
        _: &Net,
        _: Option<Contribution>,
        _: Vote,
    ) -> Result<Reduced, DistributedError> {
        Err(DistributedError::Option("rank 3 has gone".to_string()))
    }
}

#[test]
fn a_lost_replica_ends_the_run_and_is_named() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let result = launch(
        training(&folder).replica(Arc::new(LostPeer)),
        Notes::default(),
        rows(50),
    );
    assert_eq!(result.unwrap_err().to_string(), "rank 3 has gone");
}
