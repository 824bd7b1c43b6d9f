//! Snapshots: which stay, which are passed over, and which are refused.

use std::num::NonZeroUsize;
use std::path::Path;

use burn_dist::optimizer::Sgd;
use burn_dist::train::SnapshotError;
use serde_json::json;

use super::*;
use case::{Case, Journal, names, stopped_after};

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
    let later = state.replace("\"format\": 2", "\"format\": 3");
    assert_ne!(state, later);
    rewrite(&newest, "state.json", later.as_bytes());
    let error = Case::new(folder.path()).snapshots().newest().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("format 3, this version reads 2"), "{text}");
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
