//! Runs that are killed, stopped and resumed, as real processes.
#![allow(clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{example, pictures, succeeds, text};

/// Two epochs of four steps, a snapshot after every other step.
const OPTIONS: [&str; 8] = [
    "--epochs",
    "2",
    "--checkpoint-steps",
    "2",
    "--augment",
    "flip,brightness=0.1",
    "--optimizer",
    "adamw",
];

/// Pictures, and a run on them that nothing has stopped.
pub struct Unbroken {
    folder: tempfile::TempDir,
    seconds: f64,
    size: &'static str,
    /// Options besides the usual.
    others: Vec<&'static str>,
}

impl Unbroken {
    fn new() -> Self {
        Self::with(&["--batch-size", "4"])
    }

    pub fn with(others: &[&'static str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        pictures::write(&folder.path().join("data"), 24);
        Self::on(folder, "32", others)
    }

    /// With pictures of which every third cannot be read, in steps of single images.
    pub fn with_bad_images(others: &[&'static str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        pictures::write(&folder.path().join("data"), 24);
        for index in (1..24).step_by(3) {
            let name = format!("{:08}_{:03}.png", index / 2, index % 2);
            let path = folder.path().join("data/images_001/images").join(name);
            fs::write(path, "").unwrap();
        }
        // A norm needs more than one number of each channel.
        Self::on(folder, "64", others)
    }

    fn on(folder: tempfile::TempDir, size: &'static str, others: &[&'static str]) -> Self {
        let unbroken = Self {
            folder,
            seconds: 0.0,
            size,
            others: others.to_vec(),
        };
        let began = Instant::now();
        succeeds(&mut unbroken.command("unbroken"));
        Self {
            seconds: began.elapsed().as_secs_f64(),
            ..unbroken
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, output: &str) -> Command {
        let mut command = example();
        command.args(OPTIONS).args(["--image-size", self.size]);
        command.args(&self.others);
        command.arg("--data").arg(self.path("data"));
        command.arg("--output").arg(self.path(output));
        command
    }

    pub fn start(&self, output: &str) -> Child {
        let mut command = self.command(output);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Resumes the run in `output` and compares what it ends with.
    pub fn ends_alike(&self, output: &str) {
        let mut command = example();
        command.arg("--resume").arg(self.path(output));
        succeeds(command.args(&self.others));
        self.is_alike(output);
    }

    /// Compares what a run has ended with.
    pub fn is_alike(&self, output: &str) {
        for file in ["last.safetensors", "best.safetensors", "split.csv"] {
            let read = |run: &str| fs::read(self.path(run).join(file)).unwrap();
            assert!(read("unbroken") == read(output), "{output}: {file} differs");
        }
        assert_eq!(self.figures("unbroken"), self.figures(output), "{output}");
        let labels = |run: &str| {
            let text = fs::read(self.path(run).join("results.json")).unwrap();
            let results: serde_json::Value = serde_json::from_slice(&text).unwrap();
            results["labels"].clone()
        };
        assert_eq!(labels("unbroken"), labels(output));
    }

    /// `metrics.csv` without the columns of time.
    fn figures(&self, run: &str) -> Vec<Vec<String>> {
        let table = fs::read_to_string(self.path(run).join("metrics.csv")).unwrap();
        let row = |line: &str| {
            let values = line.split(',').map(str::to_string).enumerate();
            let kept = values.filter(|(column, _)| ![6, 7].contains(column));
            kept.map(|(_, value)| value).collect()
        };
        table.lines().map(row).collect()
    }

    /// The names in the folder of snapshots.
    fn snapshots(&self, run: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(run).join("checkpoints")) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    /// Starts a run and kills it as soon as `moment` has come, until what it left is `wanted`: on a
    /// busy machine the kill may come late.
    fn killed_when(
        &self,
        output: &str,
        moment: impl Fn(&Path) -> bool,
        wanted: impl Fn(&[String]) -> bool,
    ) {
        let checkpoints = self.path(output).join("checkpoints");
        let mut left = Vec::new();
        for _ in 0..5 {
            let mut child = self.start(output);
            while !moment(&checkpoints) {
                assert!(child.try_wait().unwrap().is_none(), "the run ended before");
            }
            child.kill().unwrap();
            child.wait().unwrap();
            left = self.snapshots(output);
            if wanted(&left) {
                return;
            }
            fs::remove_dir_all(self.path(output)).unwrap();
        }
        panic!("{output}: five runs could not be killed in time, the last left {left:?}");
    }
}

pub fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    succeeds(Command::new("kill").args(["-s", name, &id]));
}

/// SIGKILL in a step, in the writing of a snapshot and around its rename: the rest of the run is
/// bit for bit that of an unbroken one.
#[test]
fn a_killed_run_ends_as_an_unbroken_one() {
    let run = Unbroken::new();

    // In the middle of the step behind the first snapshot.
    let in_step = |checkpoints: &Path| {
        let ready = checkpoints.join("step-2").exists();
        if ready {
            sleep(Duration::from_millis(80));
        }
        ready
    };
    run.killed_when("step", in_step, |left| left == ["step-2"]);
    run.ends_alike("step");

    // While the second snapshot is written.
    let in_snapshot = |checkpoints: &Path| checkpoints.join("step-4.tmp").exists();
    run.killed_when("snapshot", in_snapshot, |left| {
        let last = run.path("snapshot/checkpoints/step-4.tmp/checksums");
        left == ["step-2", "step-4.tmp"] && !last.exists()
    });
    run.ends_alike("snapshot");

    // Between the last file and the end of the rename, as near as another process can come.
    let in_rename = |checkpoints: &Path| {
        checkpoints.join("step-4.tmp/checksums").exists() || checkpoints.join("step-4").exists()
    };
    run.killed_when("rename", in_rename, |left| {
        left.iter().any(|name| name.starts_with("step-4"))
    });
    run.ends_alike("rename");
}

/// As many kills at random moments as `CHEXNET_KILLS` says, each of a run that is resumed until it
/// ends: the full check.
#[test]
fn runs_killed_at_random_moments_end_as_an_unbroken_one() {
    let Some(kills) = std::env::var("CHEXNET_KILLS").ok() else {
        println!("skipped: CHEXNET_KILLS is not set (scripts/full-check sets it)");
        return;
    };
    let run = Unbroken::new();
    let kills: u32 = kills.parse().unwrap();
    for kill in 0..kills {
        // Evenly over the run, with a golden-ratio step: no two near each other.
        let share = f64::from(kill + 1) * 0.618_034 % 1.0;
        let output = format!("kill-{kill}");
        let mut child = run.start(&output);
        sleep(Duration::from_secs_f64(share * run.seconds));
        child.kill().unwrap();
        child.wait().unwrap();
        println!(
            "killed at {share:.2} of the run: {:?}",
            run.snapshots(&output)
        );
        match run.path(&output).join("config.json").exists() {
            true => run.ends_alike(&output),
            // Killed before it began: the same command again is all there is to do.
            false => {
                succeeds(&mut run.command(&output));
            }
        }
        fs::remove_dir_all(run.path(&output)).unwrap();
    }
}

/// Ctrl-C and SIGTERM finish the step, save, print the command that resumes and exit with their
/// codes.
#[test]
fn a_signal_leaves_a_snapshot_and_the_command_that_resumes() {
    let run = Unbroken::new();
    for (name, code) in [("INT", 130), ("TERM", 143)] {
        let child = run.start(name);
        while !run.path(name).join("checkpoints/step-2").exists() {
            sleep(Duration::from_millis(5));
        }
        signal(&child, name);
        let output = child.wait_with_output().unwrap();
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{message}");
        let mut lines = message.lines().rev();
        let command = lines.next().unwrap().strip_prefix("go on with: ").unwrap();
        let stopped = lines.next().unwrap();
        let saved = stopped.rsplit_once("saved in ").unwrap().1;
        assert!(Path::new(saved).join("checksums").exists(), "{stopped}");
        assert!(!run.path(name).join("results.json").exists());
        // As a user would: paste it.
        succeeds(Command::new("sh").args(["-c", command]));
        run.ends_alike(name);
    }
}

/// In a step that takes seconds: the first signal alone would end with 130, and with a snapshot.
#[test]
fn a_second_signal_ends_at_once() {
    let folder = tempfile::tempdir().unwrap();
    pictures::write(&folder.path().join("data"), 24);
    let run = folder.path().join("run");
    let mut command = example();
    command.args(["--image-size", "320", "--batch-size", "16", "--data"]);
    command
        .arg(folder.path().join("data"))
        .arg("--output")
        .arg(&run);
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    while !run.join("split.csv").exists() {
        sleep(Duration::from_millis(5));
    }
    sleep(Duration::from_millis(300));
    signal(&child, "INT");
    sleep(Duration::from_millis(50));
    signal(&child, "TERM");
    let output = child.wait_with_output().unwrap();
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(143), "{message}");
    assert!(
        message.contains("finishing the step and saving"),
        "{message}"
    );
    assert!(
        message.contains("stopped by SIGTERM\ngo on with: "),
        "{message}"
    );
    assert_eq!(fs::read_dir(run.join("checkpoints")).unwrap().count(), 0);
}

/// What a script that starts the same command again and again relies on.
#[test]
fn resume_auto_begins_goes_on_and_ends() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    pictures::write(&data, 24);
    let command = |epochs: &str| {
        let mut command = example();
        command.args(["--image-size", "32", "--batch-size", "4"]);
        command.args(["--resume", "auto", "--epochs", epochs]);
        command.arg("--data").arg(&data);
        command.arg("--output").arg(folder.path().join("run"));
        command
    };
    let first = succeeds(&mut command("1"));
    assert!(text(&first.stderr).contains("beginning from the start"));
    let second = succeeds(&mut command("2"));
    assert!(text(&second.stderr).contains("going on after step 4, in epoch 1"));
    let third = succeeds(&mut command("2"));
    assert!(text(&third.stderr).contains("going on after step 8, in epoch 2"));
    assert_eq!(second.stdout, third.stdout);
}

/// A run that meets a damaged image goes on without it, as one that left it out from the start.
#[test]
fn a_run_that_stopped_at_a_bad_image_goes_on_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    pictures::write(&data, 24);
    // Every patient but each fourth trains or validates; this one does.
    let picture = data.join("images_001/images/00000007_001.png");
    fs::write(&picture, "").unwrap();
    let command = |output: &str, bad: &str| {
        let mut command = example();
        command.args(["--image-size", "32", "--batch-size", "2", "--epochs", "1"]);
        command.args(["--checkpoint-steps", "1", "--on-bad-image", bad]);
        command.args(["--resume", "auto", "--data"]).arg(&data);
        command.arg("--output").arg(folder.path().join(output));
        command
    };
    let stopped = command("run", "stop").output().unwrap();
    let error = text(&stopped.stderr);
    assert!(error.contains("00000007_001.png"), "{error}");
    succeeds(&mut command("run", "skip"));
    succeeds(&mut command("unbroken", "skip"));
    let read = |run: &str| fs::read(folder.path().join(run).join("last.safetensors")).unwrap();
    assert!(read("run") == read("unbroken"));
}
