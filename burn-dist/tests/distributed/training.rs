//! The training loop on several ranks.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use burn_dist::train::{Ending, Trained, Uneven};
use burn_dist_core::World;

use crate::models::{difference, numbers};
use crate::trainee::{Case, Journal, TRAINING, Trainee, VALIDATION, snapshots};
use crate::worlds::run;

/// What ranks have come to.
#[derive(Clone, Debug, PartialEq)]
struct End {
    numbers: Vec<f64>,
    steps: usize,
    /// Training loss, validation loss and samples of each epoch.
    epochs: Vec<(f64, f64, usize)>,
    ending: Ending,
}

impl From<Trained<Trainee>> for End {
    fn from(trained: Trained<Trainee>) -> Self {
        let epochs = trained.epochs.iter();
        Self {
            numbers: numbers(&trained.model),
            steps: trained.steps,
            epochs: epochs
                .map(|epoch| (epoch.training_loss, epoch.validation_loss, epoch.samples))
                .collect(),
            ending: trained.ending,
        }
    }
}

/// Trains on all `ranks`, from the newest snapshot of rank 0 if they are to.
fn train(ranks: usize, case: &Case, folder: &Path, resume: bool, journal: &Journal) -> Vec<End> {
    run(ranks, |world: Arc<World>| {
        let is_main = world.rank() == 0;
        // Only rank 0 sees the folder.
        let own = match is_main {
            true => folder.to_path_buf(),
            false => folder.join("of-another-host"),
        };
        let found = (resume && is_main).then(|| snapshots(&own).newest().unwrap());
        let trained = case.train(&world, &own, found.flatten(), journal.clone());
        assert!(is_main || !own.exists(), "only rank 0 writes");
        trained.unwrap().into()
    })
}

fn alone(case: &Case) -> End {
    let folder = tempfile::tempdir().unwrap();
    train(1, case, folder.path(), false, &Journal::default()).swap_remove(0)
}

fn together(ranks: usize, case: &Case) -> Vec<End> {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::default();
    let ends = train(ranks, case, folder.path(), false, &journal);
    // The union of what ranks have validated, each row once.
    let all: Vec<usize> = (1_000..1_000 + VALIDATION).collect();
    assert_eq!(*journal.epochs.lock().unwrap(), vec![all; case.epochs]);
    ends
}

/// As many steps and samples, and numbers but for rounding: Adam divides by the root of small ones.
#[track_caller]
fn close(one: &End, other: &End) {
    assert_eq!(one.steps, other.steps);
    let apart = difference(&one.numbers, &other.numbers);
    assert!(apart < 1e-4, "weights: {apart}");
    for (one, other) in one.epochs.iter().zip(&other.epochs) {
        assert_eq!(one.2, other.2);
        let (training, validation) = ((one.0 - other.0).abs(), (one.1 - other.1).abs());
        assert!(training < 1e-5 && validation < 1e-5, "{one:?}, {other:?}");
    }
}

#[test]
fn several_ranks_train_as_one_with_batches_as_large_as_all_of_theirs() {
    for (ranks, accumulation, overlaps) in
        [(2, 1, true), (3, 1, false), (3, 2, true), (2, 2, false)]
    {
        let case = Case {
            accumulation,
            overlaps,
            ..Case::of(4)
        };
        let whole = Case {
            batch_size: 4 * ranks,
            ..case.clone()
        };
        let ends = together(ranks, &case);
        for end in &ends {
            assert_eq!(end, &ends[0]);
        }
        let whole = alone(&whole);
        // 53 rows do not divide evenly: in the last steps some ranks have fewer, or none.
        assert_eq!(whole.epochs[0].2, TRAINING);
        close(&whole, &ends[0]);
    }
}

#[test]
fn what_is_uneven_is_padded_or_dropped_if_it_is_to_be() {
    for (uneven, samples, steps) in [(Uneven::Pad, 56, 7), (Uneven::Drop, 48, 6)] {
        let case = Case {
            uneven,
            ..Case::of(4)
        };
        let ends = together(2, &case);
        assert_eq!(ends[0], ends[1]);
        assert_eq!((ends[0].epochs[0].2, ends[0].steps), (samples, 3 * steps));
    }
}

/// Ranks have running statistics of their own, and of the epoch so far sums.
#[test]
fn a_run_that_one_rank_has_stopped_goes_on_to_the_end_of_an_unbroken_one() {
    let case = Case {
        normed: true,
        ..Case::of(4)
    };
    let unbroken = together(2, &case);
    assert_eq!(unbroken[0], unbroken[1]);
    let folder = tempfile::tempdir().unwrap();
    // The validation of the second epoch on whichever rank comes to it first.
    let journal = Journal::stopping(4);
    let stopped = train(2, &case, folder.path(), false, &journal);
    assert!(stopped.iter().all(|end| end.ending == Ending::Stopped));
    assert_eq!(stopped[0].epochs, unbroken[0].epochs[..1]);
    let resumed = train(2, &case, folder.path(), true, &Journal::default());
    assert_eq!(resumed, unbroken);

    // In the middle of an epoch, as after a kill.
    for step in fs::read_dir(folder.path().join("snapshots")).unwrap() {
        let step = step.unwrap().path();
        if step.ends_with("step-21") {
            fs::remove_dir_all(step).unwrap();
        }
    }
    let newest = snapshots(folder.path()).newest().unwrap().unwrap();
    assert_eq!((newest.steps(), newest.replicas()), (20, 2));
    let resumed = train(2, &case, folder.path(), true, &Journal::default());
    assert_eq!(resumed, unbroken);
}

#[test]
fn another_number_of_ranks_goes_on_with_the_same_batches() {
    let (case, whole) = (Case::of(4), Case::of(8));
    let unbroken = alone(&whole);
    for (from, to) in [(2, 1), (1, 2)] {
        let of = |ranks: usize| if ranks == 1 { &whole } else { &case };
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::stopping(4);
        train(from, of(from), folder.path(), false, &journal);
        fs::remove_dir_all(folder.path().join("snapshots/step-14")).unwrap();
        let resumed = train(to, of(to), folder.path(), true, &Journal::default());
        close(&unbroken, &resumed[0]);
    }
}

/// The rows that a rank validates are easier or harder than those of another: by its own loss each would stop and slow
/// down elsewhere.
#[test]
fn ranks_stop_early_and_slow_down_together_where_one_with_all_the_rows_does() {
    let case = Case {
        epochs: 60,
        patience: Some(3),
        learning_rate: 0.1,
        ..Case::of(4)
    };
    let whole = Case {
        batch_size: 8,
        ..case.clone()
    };
    let train = |ranks: usize, case: &Case| {
        let folder = tempfile::tempdir().unwrap();
        run(ranks, |world: Arc<World>| {
            let own = folder.path().join(world.rank().to_string());
            let trained = case.train(&world, &own, None, Journal::default()).unwrap();
            let epochs = trained.epochs.iter();
            let course: Vec<(f64, bool)> = epochs
                .map(|epoch| (epoch.learning_rate, epoch.best))
                .collect();
            (trained.ending, course)
        })
    };
    let alone = train(1, &whole).swap_remove(0);
    let (ending, course) = &alone;
    assert_eq!(*ending, Ending::Early);
    assert!(course.len() < 60);
    let rates = course.windows(2).filter(|pair| pair[1].0 < pair[0].0);
    assert!(rates.count() > 1, "{course:?}");
    assert_eq!(train(2, &case), [alone.clone(), alone]);
}

#[test]
fn a_rank_whose_loss_is_not_finite_ends_the_run_on_all_and_the_others_name_it() {
    let case = Case {
        bad: Some(17),
        ..Case::of(4)
    };
    let folder = tempfile::tempdir().unwrap();
    let errors = run(3, |world| {
        let trained = case.train(&world, folder.path(), None, Journal::default());
        trained.unwrap_err().to_string()
    });
    let cause = |error: &String| error.contains("training loss is NaN") && error.contains("17");
    let bad = errors.iter().position(cause).unwrap();
    for (rank, error) in errors.iter().enumerate().filter(|(rank, _)| *rank != bad) {
        assert!(
            error.contains(&format!("rank {bad}")),
            "rank {rank}: {error}"
        );
    }
}
