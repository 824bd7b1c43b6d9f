//! A run that is stopped and resumed ends as one that never was.

use std::num::NonZeroUsize;
use std::path::Path;

use burn::data::dataloader::{DataLoader, DataLoaderIterator, Progress};
use burn::data::dataset::DatasetError;
use burn::optim::ModuleOptimizer;
use burn_dist::optimizer::{Adam, Sgd};
use burn_dist::train::{SnapshotError, Snapshots};
use serde_json::{Value, json};

use super::*;
use net::Rows;

/// Asks to stop after a number of steps, as another process or a signal would.
struct StopAfter(usize, AtomicUsize);

impl Replica<Net> for StopAfter {
    fn agree(&self, stop: bool) -> Result<bool, ReplicaError> {
        Ok(stop || self.1.load(Ordering::Relaxed) == self.0)
    }

    fn reduce(&self, _: &Net, gradients: GradientsParams) -> Result<GradientsParams, ReplicaError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Ok(gradients)
    }
}

/// Keeps what it has seen in snapshots.
#[derive(Clone, Default)]
struct Journal {
    epochs: Arc<Mutex<Vec<usize>>>,
    /// Snapshots taken.
    snapshots: Arc<AtomicUsize>,
    fail: bool,
}

impl Observer<Net> for Journal {
    fn validated(&mut self, _: &Output) -> Result<(), String> {
        Ok(())
    }

    fn epoch_ended(&mut self, summary: &EpochSummary, _: &Net) -> Result<(), String> {
        self.epochs.lock().unwrap().push(summary.epoch);
        Ok(())
    }

    fn state(&self) -> Value {
        self.snapshots.fetch_add(1, Ordering::Relaxed);
        json!(*self.epochs.lock().unwrap())
    }

    fn resume(&mut self, state: &Value, best: Option<f64>) -> Result<(), String> {
        let epochs: Vec<usize> = serde_json::from_value(state.clone()).unwrap();
        assert_eq!(best.is_some(), !epochs.is_empty());
        *self.epochs.lock().unwrap() = epochs;
        match self.fail {
            true => Err("best.safetensors is gone".to_string()),
            false => Ok(()),
        }
    }
}

struct Case<'a> {
    folder: &'a Path,
    model: Net,
    optimizer: ModuleOptimizer,
    training: Arc<dyn DataLoader<Rows>>,
    rate: f64,
}

impl<'a> Case<'a> {
    /// Everything that holds a state: dropout, a shuffling loader, momenta, running statistics,
    /// plateau, accumulation, and an epoch that ends with a short step.
    fn new(folder: &'a Path) -> Self {
        Self {
            folder,
            model: Net::with_dropout(0.3, &Device::flex()),
            optimizer: Adam::default().into(),
            training: net::loader_of(rows(50), 4, Some(5)),
            rate: 1e-2,
        }
    }

    fn snapshots(&self) -> Snapshots {
        Snapshots::new(self.folder).configuration(json!({"rows": 50}))
    }

    fn setup(&self) -> Training<Net> {
        let mut plateau = Plateau::new(0.5, 0);
        plateau.threshold = 0.9;
        let rate = LearningRate::new(self.rate).schedule(Schedule::Plateau(plateau));
        Training::new(self.folder, Device::flex())
            .epochs(4)
            .learning_rate(rate)
            .accumulation(2)
            .seed(3)
            .snapshots(self.snapshots())
    }

    fn launch(
        self,
        change: impl FnOnce(Training<Net>) -> Training<Net>,
        journal: &Journal,
    ) -> Result<Trained<Net>, TrainError> {
        let training = change(self.setup());
        training.launch(
            self.model,
            self.optimizer,
            self.training,
            loader(rows(20)),
            journal.clone(),
        )
    }

    /// Goes on from the newest snapshot.
    fn resume(self, journal: &Journal) -> Result<Trained<Net>, TrainError> {
        let snapshot = self.snapshots().newest()?;
        assert!(snapshot.is_some());
        self.launch(|training| training.resume(snapshot), journal)
    }
}

/// The figures of the epochs but for the time they took.
fn figures(trained: &Trained<Net>) -> Vec<EpochSummary> {
    let mut epochs = trained.epochs.clone();
    epochs.iter_mut().for_each(|epoch| epoch.seconds = 0.0);
    epochs
}

fn stopped_after(folder: &Path, steps: usize) -> Trained<Net> {
    let replica = Arc::new(StopAfter(steps, AtomicUsize::new(0)));
    let trained = Case::new(folder)
        .launch(|training| training.replica(replica), &Journal::default())
        .unwrap();
    assert_eq!((trained.steps, trained.ending), (steps, Ending::Stopped));
    trained
}

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

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn the_last_snapshots_stay() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let case = Case::new(folder.path());
    let three = NonZeroUsize::new(3).unwrap();
    let snapshots = case.snapshots().every(NonZeroUsize::new(2)).keep(three);
    case.launch(
        |training| training.snapshots(snapshots),
        &Journal::default(),
    )
    .unwrap();
    assert_eq!(names(folder.path()), ["step-24", "step-26", "step-28"]);
}

#[test]
fn a_damaged_snapshot_is_passed_over() {
    let _alone = alone();
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 6] = [
        ("model.bpk is gone", |path| {
            fs::remove_file(path.join("model.bpk")).unwrap()
        }),
        ("optimizer.bpk was cut short", |path| {
            let file = fs::OpenOptions::new()
                .write(true)
                .open(path.join("optimizer.bpk"))
                .unwrap();
            file.set_len(100).unwrap();
        }),
        ("a bit of the model flipped", |path| {
            let mut bytes = fs::read(path.join("model.bpk")).unwrap();
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            fs::write(path.join("model.bpk"), bytes).unwrap();
        }),
        ("a digit of the state changed", |path| {
            let text = fs::read_to_string(path.join("state.json")).unwrap();
            let changed = text.replace("\"batches\": 6", "\"batches\": 5");
            assert_ne!(text, changed);
            fs::write(path.join("state.json"), changed).unwrap();
        }),
        ("checksums are empty", |path| {
            fs::write(path.join("checksums"), "").unwrap()
        }),
        ("checksums of another file", |path| {
            fs::write(path.join("checksums"), [0xff; 40]).unwrap()
        }),
    ];
    let folder = tempfile::tempdir().unwrap();
    let unbroken = Case::new(folder.path())
        .launch(|training| training, &Journal::default())
        .unwrap();
    for (name, damage) in damages {
        let folder = tempfile::tempdir().unwrap();
        stopped_after(folder.path(), 10);
        let newest = folder.path().join("step-10");
        damage(&newest);
        let found = Case::new(folder.path()).snapshots().newest().unwrap();
        assert_eq!(found.unwrap().steps(), 7, "{name}");
        let resumed = Case::new(folder.path())
            .resume(&Journal::default())
            .unwrap();
        assert_eq!(state(&resumed.model), state(&unbroken.model), "{name}");
        assert_eq!(names(folder.path()), ["step-21", "step-28"], "{name}");
    }
}

/// A snapshot of a later version is whole: it must not be passed over and replaced.
#[test]
fn a_snapshot_of_another_version_is_an_error() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    stopped_after(folder.path(), 10);
    let newest = folder.path().join("step-10");
    let state = fs::read_to_string(newest.join("state.json")).unwrap();
    let later = state.replace("\"format\": 1", "\"format\": 2");
    assert_ne!(state, later);
    rewrite(&newest, "state.json", later.as_bytes());
    let error = Case::new(folder.path()).snapshots().newest().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("format 2, this version reads 1"), "{text}");
}

/// A folder under another name is not what it says.
#[test]
fn a_snapshot_under_another_name_is_passed_over() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    stopped_after(folder.path(), 10);
    for name in ["step-99", "step-007", "step-+8"] {
        let to = folder.path().join(name);
        fs::create_dir(&to).unwrap();
        for file in names(&folder.path().join("step-7")) {
            fs::copy(folder.path().join("step-7").join(&file), to.join(&file)).unwrap();
        }
    }
    let found = Case::new(folder.path()).snapshots().newest().unwrap();
    assert_eq!(found.unwrap().steps(), 10);
}

/// Replaces a file of a snapshot and its line in the checksums.
fn rewrite(snapshot: &Path, name: &str, bytes: &[u8]) {
    let hash = |bytes: &[u8]| {
        let hash = siphasher::sip128::SipHasher24::new().hash(bytes);
        format!("{:016x}{:016x}", hash.h1, hash.h2)
    };
    fs::write(snapshot.join(name), bytes).unwrap();
    let sums = fs::read_to_string(snapshot.join("checksums")).unwrap();
    let lines = sums.lines().filter(|line| line.contains(' '));
    let lines: String = lines
        .map(|line| match line.ends_with(name) {
            true => format!("{} {} {name}\n", hash(bytes), bytes.len()),
            false => format!("{line}\n"),
        })
        .collect();
    let last = hash(lines.as_bytes());
    fs::write(snapshot.join("checksums"), format!("{lines}{last}\n")).unwrap();
}

#[test]
fn only_damaged_snapshots_are_an_error_and_not_a_new_start() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    stopped_after(folder.path(), 3);
    fs::write(folder.path().join("step-3/state.json"), "{}").unwrap();
    let error = Case::new(folder.path()).snapshots().newest().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("none of the 1 snapshots"), "{text}");
    assert!(
        text.contains("state.json is not as it was written"),
        "{text}"
    );
}

/// A run that is killed before its first snapshot must not find another's.
#[test]
fn a_new_run_begins_without_snapshots() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    stopped_after(folder.path(), 10);
    assert_eq!(names(folder.path()), ["step-10", "step-7"]);
    stopped_after(folder.path(), 3);
    assert_eq!(names(folder.path()), ["step-3"]);
}

/// What a killed process leaves behind is neither read nor in the way.
#[test]
fn an_unfinished_snapshot_does_not_count() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    stopped_after(folder.path(), 10);
    fs::rename(
        folder.path().join("step-10"),
        folder.path().join("step-10.tmp"),
    )
    .unwrap();
    fs::create_dir(folder.path().join("step-14.tmp")).unwrap();
    fs::write(folder.path().join("notes.txt"), "mine").unwrap();
    let found = Case::new(folder.path()).snapshots().newest().unwrap();
    assert_eq!(found.unwrap().steps(), 7);
    Case::new(folder.path())
        .resume(&Journal::default())
        .unwrap();
    assert_eq!(names(folder.path()), ["notes.txt", "step-21", "step-28"]);
    Case::new(folder.path()).snapshots().clear().unwrap();
    assert_eq!(names(folder.path()), ["notes.txt"]);
}

#[test]
fn a_run_of_other_options_is_refused_and_they_are_named() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    stopped_after(folder.path(), 3);
    let case = Case {
        rate: 0.5,
        ..Case::new(folder.path())
    };
    let snapshot = case.snapshots().newest().unwrap();
    let other = case.snapshots().configuration(json!({"rows": 51}));
    let change = |training: Training<Net>| training.snapshots(other).resume(snapshot).seed(4);
    let error = case.launch(change, &Journal::default()).unwrap_err();
    let text = error.to_string();
    for difference in [
        "another rows (50 there, 51 here)",
        "another learning_rate.base (0.01 there, 0.5 here)",
        "another seed (3 there, 4 here)",
    ] {
        assert!(text.contains(difference), "{text}");
    }
    assert!(!text.contains('\n'), "{text}");
}

#[test]
fn another_model_or_optimiser_is_refused() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    stopped_after(folder.path(), 3);
    let mut wide = Net::new(&Device::flex());
    wide.second = burn::nn::LinearConfig::new(16, 2).init(&Device::flex());
    let mut bare = Net::new(&Device::flex());
    bare.second.bias = None;
    let sgd = Sgd {
        momentum: 0.9,
        ..Sgd::default()
    };
    let cases = [
        (
            Case {
                model: wide,
                ..Case::new(folder.path())
            },
            "second.bias",
        ),
        (
            Case {
                model: bare,
                ..Case::new(folder.path())
            },
            "second.bias: [1] of F32 there, nothing here",
        ),
        (
            Case {
                optimizer: sgd.into(),
                ..Case::new(folder.path())
            },
            "its optimiser has",
        ),
    ];
    for (case, part) in cases {
        let error = case.resume(&Journal::default()).unwrap_err();
        assert!(
            matches!(error, TrainError::Snapshot(SnapshotError::Mismatch { .. })),
            "{error}"
        );
        let text = error.to_string();
        assert!(text.contains(part), "{text}");
        assert!(!text.contains('\n'), "{text}");
    }
}

#[test]
fn other_batches_are_refused() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    stopped_after(folder.path(), 3);
    let case = Case {
        training: net::loader_of(rows(50), 7, Some(5)),
        ..Case::new(folder.path())
    };
    let text = case.resume(&Journal::default()).unwrap_err().to_string();
    assert!(
        text.contains("after 24 items of epoch 1") && text.contains("end at 28"),
        "{text}"
    );
}

#[test]
fn an_observer_that_cannot_go_on_says_so() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    stopped_after(folder.path(), 3);
    let journal = Journal {
        fail: true,
        ..Journal::default()
    };
    let error = Case::new(folder.path()).resume(&journal).unwrap_err();
    assert_eq!(error.to_string(), "best.safetensors is gone");
}

#[test]
fn a_folder_of_snapshots_that_is_none_is_named() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let text = Case::new(&file)
        .launch(|training| training, &Journal::default())
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("file: the snapshots cannot be read"),
        "{text}"
    );
}
