//! A run that is stopped and resumed ends as one that never was.

use std::num::NonZeroUsize;
use std::path::Path;

use burn::data::dataloader::{DataLoader, DataLoaderIterator, Progress};
use burn::data::dataset::DatasetError;

use super::*;
use case::{Case, Journal, StopAfter, figures, stopped_after};
use net::Rows;

/// Seven steps an epoch, stopped after each of the 28, in the middle of epochs and at their ends.
#[test]
fn a_resumed_run_ends_as_an_unbroken_one_to_the_last_bit() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let unbroken = Case::new(folder.path())
        .launch(|training| training, &Journal::default())
        .unwrap();
    assert_eq!(unbroken.steps, 28);
    let rates: Vec<f64> = unbroken
        .epochs
        .iter()
        .map(|epoch| epoch.learning_rate)
        .collect();
    assert!(rates[3] < rates[0], "the plateau never came: {rates:?}");
    for steps in 1..=28 {
        let folder = tempfile::tempdir().unwrap();
        let first = stopped_after(folder.path(), steps);
        assert_eq!(
            first.snapshot,
            Some(folder.path().join(format!("step-{steps}")))
        );
        let journal = Journal::default();
        let resumed = Case::new(folder.path()).resume(&journal).unwrap();
        assert_eq!(
            state(&resumed.model),
            state(&unbroken.model),
            "step {steps}"
        );
        assert_eq!(figures(&resumed), figures(&unbroken), "step {steps}");
        assert_eq!(*journal.epochs.lock().unwrap(), [1, 2, 3, 4]);
    }
}

/// Without the seeds of each step this would fail: dropout would go on from another place.
#[test]
fn dropout_takes_part() {
    let _alone = alone();
    let run = |seed| {
        let folder = tempfile::tempdir().unwrap();
        let case = Case::new(folder.path());
        let trained = case.launch(|training| training.seed(seed), &Journal::default());
        state(&trained.unwrap().model)
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}

/// `max_steps` is where the run ends, not where it pauses.
#[test]
fn a_finished_run_has_nothing_left_to_do_and_more_epochs_go_on() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let launch = |epochs: usize, resume: bool| {
        let case = Case::new(folder.path());
        let snapshot = match resume {
            true => case.snapshots().newest().unwrap(),
            false => None,
        };
        let change = |training: Training<Net>| training.epochs(epochs).resume(snapshot);
        case.launch(change, &Journal::default()).unwrap()
    };
    let two = launch(2, false);
    let again = launch(2, true);
    assert_eq!(state(&again.model), state(&two.model));
    assert_eq!(figures(&again), figures(&two));
    let four = launch(4, true);
    let other = tempfile::tempdir().unwrap();
    let unbroken = Case::new(other.path())
        .launch(|training| training, &Journal::default())
        .unwrap();
    assert_eq!(state(&four.model), state(&unbroken.model));
}

/// A loader that leaves out the end of its items, as one that skips bad images may.
struct Short(Arc<dyn DataLoader<Rows>>);

const LEFT_OUT: usize = 3;

impl DataLoader<Rows> for Short {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<Rows> + 'a> {
        Box::new(ShortIterator(self.0.iter()))
    }

    fn num_items(&self) -> usize {
        self.0.num_items() + LEFT_OUT
    }

    fn to_device(&self, device: &Device) -> Arc<dyn DataLoader<Rows>> {
        Arc::new(Self(self.0.to_device(device)))
    }

    fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<Rows>> {
        Arc::new(Self(self.0.slice(start, end)))
    }
}

struct ShortIterator<'a>(Box<dyn DataLoaderIterator<Rows> + 'a>);

impl Iterator for ShortIterator<'_> {
    type Item = Result<Rows, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}

impl DataLoaderIterator<Rows> for ShortIterator<'_> {
    fn progress(&self) -> Progress {
        let inner = self.0.progress();
        Progress::new(inner.items_processed, inner.items_total + LEFT_OUT, None)
    }
}

/// Nobody knows that a step is the last of its epoch: what was accumulated is still used, and no step
/// is saved twice, since for a moment its snapshot would be away.
#[test]
fn an_epoch_whose_end_is_left_out_is_saved_once_and_resumed() {
    let _alone = alone();
    fn case(folder: &Path) -> Case<'_> {
        Case {
            training: Arc::new(Short(net::loader_of(rows(50), 4, Some(5)))),
            ..Case::new(folder)
        }
    }
    let run = |accumulation, stop: Option<usize>| {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::default();
        let change = |training: Training<Net>, resume| {
            let snapshots = case(folder.path()).snapshots().every(NonZeroUsize::new(1));
            training
                .accumulation(accumulation)
                .snapshots(snapshots)
                .resume(resume)
        };
        if let Some(steps) = stop {
            let replica = Arc::new(StopAfter(steps, AtomicUsize::new(0)));
            case(folder.path())
                .launch(|training| change(training, None).replica(replica), &journal)
                .unwrap();
        }
        let snapshot = case(folder.path()).snapshots().newest().unwrap();
        let trained = case(folder.path())
            .launch(|training| change(training, snapshot), &journal)
            .unwrap();
        assert_eq!(journal.snapshots.load(Ordering::Relaxed), trained.steps);
        trained
    };
    // 13 batches an epoch.
    let (single, pairs) = (run(1, None), run(2, None));
    assert_eq!((single.steps, pairs.steps), (4 * 13, 4 * 7));
    for steps in [13, 14, 25, 26] {
        let resumed = run(1, Some(steps));
        assert_eq!(state(&resumed.model), state(&single.model), "step {steps}");
    }
}
