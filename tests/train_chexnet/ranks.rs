//! The example on two processes.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use super::resume::{Unbroken, signal};
use super::{example, fails, pictures, succeeds, text};

/// Batches of two images on each process, and so of four together.
const TWO: [&str; 4] = ["--nproc", "2", "--batch-size", "2"];

fn labels(run: &Path) -> Value {
    let text = fs::read(run.join("results.json")).unwrap();
    let results: Value = serde_json::from_slice(&text).unwrap();
    results["labels"].clone()
}

#[test]
fn two_processes_train_and_measure_together_what_one_measures_alone() {
    let run = Unbroken::with(&TWO);
    let folder = run.path("unbroken");
    let log = fs::read_to_string(folder.join("logs/rank-1.log")).unwrap();
    assert!(
        log.contains("epoch 2/2 train") && log.contains("test"),
        "{log}"
    );
    let together = labels(&folder);
    assert!(together["Mass"]["auroc"].is_f64(), "{together}");
    // The same weights once more, on one process.
    let mut alone = example();
    alone
        .arg("--resume")
        .arg(&folder)
        .args(["--batch-size", "4"]);
    let output = succeeds(&mut alone);
    let message = text(&output.stderr);
    assert!(message.contains("only measured again"), "{message}");
    assert!(
        message.contains("had 2 ranks and goes on with 1"),
        "{message}"
    );
    assert_eq!(labels(&folder), together);
}

/// The losses of the training and the validation side in the first epoch of `run`.
fn losses(run: &Path) -> [f64; 2] {
    let metrics = fs::read_to_string(run.join("metrics.csv")).unwrap();
    let first: Vec<&str> = metrics.lines().nth(1).unwrap().split(',').collect();
    [2, 3].map(|column| first[column].parse().unwrap())
}

fn training_loss(run: &Path) -> f64 {
    losses(run)[0]
}

/// A mean over known labels counts by these, of which a process may have many, few or none in a step.
#[test]
fn losses_over_known_labels_are_those_of_one_process() {
    let folder = tempfile::tempdir().unwrap();
    pictures::write(&folder.path().join("nih"), 24);
    let mut table = "image,patient,A,B,C,D\n".to_string();
    let mut split = "image,split\n".to_string();
    for index in 0..24 {
        let (patient, visit) = (index / 2, index % 2);
        let name = format!("{patient:08}_{visit:03}.png");
        // Of some images all labels are known, of some one, of every fourth none.
        let labels = match index % 4 {
            0 => ",,,".to_string(),
            1 => format!("{visit},,,"),
            _ => format!("{visit},{},{},1", patient % 2, index % 3 % 2),
        };
        table += &format!("{name},p{patient},{labels}\n");
        let side = ["train", "train", "train", "train", "validation", "test"][patient / 2];
        split += &format!("{name},{side}\n");
    }
    let [csv, sides] = ["table.csv", "split.csv"].map(|name| folder.path().join(name));
    fs::write(&csv, table).unwrap();
    fs::write(&sides, split).unwrap();
    let train = |name: &str, options: &[&str]| {
        let output = folder.path().join(name);
        let mut command = example();
        command
            // One step, behind which rounding has not grown yet.
            .args(["--image-size", "64", "--epochs", "1", "--loss", "mean"])
            .args(["--max-steps", "1"])
            .args([
                "--optimizer",
                "sgd",
                "--lr",
                "0.01",
                "--schedule",
                "constant",
            ])
            .args(options)
            .arg("--data")
            .arg(&csv)
            .arg("--split")
            .arg(&sides)
            .arg("--output")
            .arg(&output);
        succeeds(&mut command);
        losses(&output)
    };
    let alone = train("alone", &["--batch-size", "4"]);
    let two = ["--nproc", "2", "--sync-batch-norm", "--uneven", "drop"];
    let together = train("together", &[&two[..], &["--batch-size", "2"]].concat());
    for (alone, together) in alone.iter().zip(together) {
        assert!((together / alone - 1.0).abs() < 1e-4, "{alone}, {together}");
    }
}

#[test]
fn norms_that_see_all_processes_make_them_one_process_with_all_the_images() {
    let folder = tempfile::tempdir().unwrap();
    let train = |name: &str, options: &[&str]| {
        let output = folder.path().join(name);
        let mut command = example();
        command
            .args(["--phantom-images", "60", "--image-size", "64"])
            .args(["--epochs", "1", "--max-steps", "2", "--optimizer", "sgd"])
            .args(["--uneven", "drop", "--output"])
            .arg(&output)
            .args(options);
        succeeds(&mut command);
        output
    };
    let two = ["--nproc", "2", "--batch-size", "4"];
    let alone = training_loss(&train("alone", &["--batch-size", "8"]));
    let apart = training_loss(&train("apart", &two));
    let synchronised = [&two[..], &["--sync-batch-norm"]].concat();
    let run = train("synchronised", &synchronised);
    let of_all = training_loss(&run);
    // The second step shows what the first has done to the weights: 2e-7 were seen, and 2e-3 without.
    assert!((of_all / alone - 1.0).abs() < 1e-5, "{of_all}, {alone}");
    assert!((apart / alone - 1.0).abs() > 1e-4, "{apart}, {alone}");
    // On one process it goes on as it would have on two, and needs no warning.
    let mut resumed = example();
    resumed.arg("--resume").arg(&run);
    let output = succeeds(resumed.args(["--batch-size", "8"]));
    let message = text(&output.stderr);
    assert!(
        message.contains("weights that differ by rounding")
            && !message.contains("warning: the run had"),
        "{message}"
    );
}

/// The process of a rank that `launcher` has started.
fn process_of(launcher: &Child, rank: usize) -> Option<u32> {
    let name = format!("BURN_DIST_RANK={rank}");
    let processes = fs::read_dir("/proc").unwrap();
    let ids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_rank = |id: &u32| {
        let read = |file: &str| fs::read_to_string(format!("/proc/{id}/{file}")).ok();
        let parent = read("stat").and_then(|stat| {
            let rest = stat.rsplit_once(") ")?.1.to_owned();
            rest.split(' ').nth(1)?.parse().ok()
        });
        let variables = read("environ").unwrap_or_default();
        parent == Some(launcher.id()) && variables.split('\0').any(|variable| variable == name)
    };
    let mut ids = ids;
    ids.find(is_rank)
}

#[test]
fn a_run_whose_rank_is_killed_ends_and_goes_on_to_the_end_of_an_unbroken_one() {
    let run = Unbroken::with(&TWO);
    for rank in [0, 1] {
        let output = format!("killed-{rank}");
        let launcher = run.start(&output);
        while !run.path(&output).join("checkpoints/step-2").exists() {
            sleep(Duration::from_millis(5));
        }
        let process = process_of(&launcher, rank).unwrap().to_string();
        succeeds(Command::new("kill").args(["-s", "KILL", &process]));
        let ended = launcher.wait_with_output().unwrap();
        let message = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(137), "{message}");
        let last = message.lines().last().unwrap();
        assert!(
            last.contains(&format!("rank {rank} was the first to fail")),
            "{message}"
        );
        // What is left of rank 0 says how to go on.
        assert!(rank == 0 || message.contains("go on with: "), "{message}");
        run.ends_alike(&output);
    }
}

/// Steps in which one process has nothing to read, and some in which both have not: none drifts from the others.
#[test]
fn batches_that_cannot_be_read_keep_their_place_when_a_run_goes_on() {
    const SINGLE: [&str; 6] = [
        "--nproc",
        "2",
        "--batch-size",
        "1",
        "--on-bad-image",
        "skip",
    ];
    let run = Unbroken::with_bad_images(&SINGLE);
    let launcher = run.start("killed");
    while !run.path("killed").join("checkpoints/step-2").exists() {
        sleep(Duration::from_millis(5));
    }
    let process = process_of(&launcher, 1).unwrap().to_string();
    succeeds(Command::new("kill").args(["-s", "KILL", &process]));
    launcher.wait_with_output().unwrap();
    run.ends_alike("killed");
    // With sums over the norms of all there is no step without images.
    let output = run.path("synchronised");
    let mut command = example();
    command
        .args(SINGLE)
        .args(["--image-size", "64", "--epochs", "1"]);
    command.args(["--sync-batch-norm", "--uneven", "pad"]);
    command.arg("--data").arg(run.path("data"));
    let error = fails(command.arg("--output").arg(output));
    assert!(error.contains("was the first to fail"), "{error}");
}

/// The last batch of an epoch is filled up with its first images, which a run that goes on has behind it.
#[test]
fn a_padded_run_goes_on_with_the_images_of_an_unbroken_one() {
    let run = Unbroken::with(&["--nproc", "2", "--batch-size", "3", "--uneven", "pad"]);
    let launcher = run.start("killed");
    while !run.path("killed").join("checkpoints/step-2").exists() {
        sleep(Duration::from_millis(5));
    }
    let process = process_of(&launcher, 0).unwrap().to_string();
    succeeds(Command::new("kill").args(["-s", "KILL", &process]));
    launcher.wait_with_output().unwrap();
    run.ends_alike("killed");
}

#[test]
fn ctrl_c_leaves_a_snapshot_and_the_command_that_resumes_on_as_many_processes() {
    let run = Unbroken::with(&TWO);
    let launcher = run.start("stopped");
    while !run.path("stopped").join("checkpoints/step-2").exists() {
        sleep(Duration::from_millis(5));
    }
    signal(&launcher, "INT");
    let output = launcher.wait_with_output().unwrap();
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{message}");
    let command = message
        .lines()
        .find_map(|line| line.split_once("go on with: "));
    let command = command.map_or("", |(_, command)| command);
    assert!(command.contains("--nproc=2"), "{message}");
    succeeds(Command::new("sh").args(["-c", command]));
    run.is_alike("stopped");
}

#[test]
fn what_does_not_fit_several_processes_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("run");
    let with = |options: &[&str]| {
        let mut command = example();
        command.args(options).arg("--output").arg(&output);
        command
    };
    let none = fails(&mut with(&["--nproc", "0"]));
    assert_eq!(none, "error: --nproc: 0 is too small: give at least 1");
    let nested = fails(with(&["--nproc", "2"]).envs([
        ("BURN_DIST_RANK", "0"),
        ("BURN_DIST_WORLD_SIZE", "2"),
        ("BURN_DIST_RDZV", "tcp://127.0.0.1:1"),
    ]));
    assert!(
        nested.contains("one of several already, started by BURN_DIST"),
        "{nested}"
    );
    // An error of one process is told once, last, and by its rank.
    let missing = fails(&mut with(&["--nproc", "2", "--data", "/nowhere"]));
    assert!(
        missing.contains("rank 0 was the first to fail"),
        "{missing}"
    );

    // Snapshots of four images a step are not for steps of two.
    pictures::write(&folder.path().join("data"), 24);
    let data = folder.path().join("data");
    let small = [
        "--image-size",
        "32",
        "--batch-size",
        "4",
        "--max-steps",
        "2",
    ];
    succeeds(with(&small).arg("--data").arg(&data));
    let other = fails(
        example()
            .arg("--resume")
            .arg(&output)
            .args(["--batch-size", "2"]),
    );
    assert!(
        other.contains("another global_batch_size (4 there, 2 here)"),
        "{other}"
    );
    succeeds(example().arg("--resume").arg(&output).args(TWO));
}
