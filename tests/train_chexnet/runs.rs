//! Runs that succeed, and what they leave behind.

use std::fs;
use std::path::Path;

use safetensors::SafeTensors;
use serde_json::Value;

use super::{example, pictures, succeeds, text};

const SMALL: [&str; 8] = [
    "--image-size",
    "32",
    "--batch-size",
    "4",
    "--epochs",
    "2",
    "--max-steps",
    "4",
];

fn json(path: impl AsRef<Path>) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_run_ends_with_a_table_and_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let (data, output) = (folder.path().join("data"), folder.path().join("run"));
    pictures::write(&data, 24);
    let done = succeeds(
        example()
            .args(SMALL)
            .arg("--data")
            .arg(&data)
            .arg("--output")
            .arg(&output),
    );
    let table = text(&done.stdout);
    assert!(table.contains("Pleural_Thickening"), "{table}");
    assert!(table.contains("mean"), "{table}");
    assert!(table.contains("13 of 14 undefined"), "{table}");

    for file in [
        "best.safetensors",
        "last.safetensors",
        "metrics.csv",
        "split.csv",
        "figures/curves.svg",
        "figures/roc.svg",
        "checkpoints/step-4/state.json",
    ] {
        assert!(output.join(file).is_file(), "{file}");
    }
    let results = json(output.join("results.json"));
    assert!(results["mean_auroc"].is_f64(), "{results}");
    assert!(results["images_per_second"].as_f64().unwrap() > 0.0);
    let mass = &results["labels"]["Mass"];
    assert!((0.0..=1.0).contains(&mass["auroc"].as_f64().unwrap()));
    for key in ["ci_low", "ci_high", "positives"] {
        assert!(mass.get(key).is_some(), "{key}");
    }
    assert_eq!(results["labels"].as_object().unwrap().len(), 14);
    assert_eq!(results["labels"]["Fibrosis"]["auroc"], Value::Null);
    // Every fourth of 12 patients tests; a tenth of the other 9 (at least one) validates.
    assert_eq!(results["images"]["test"], 6);
    assert_eq!(results["images"]["validation"], 2);
    assert_eq!(results["images"]["training"], 16);

    // What any other program sees of the weights.
    let bytes = fs::read(output.join("best.safetensors")).unwrap();
    assert_eq!(SafeTensors::deserialize(&bytes).unwrap().len(), 606);
    let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
    let entry = &header.metadata().as_ref().unwrap()["chexnet"];
    let metadata: Value = serde_json::from_str(entry).unwrap();
    assert_eq!(metadata["labels"][13], "Hernia");
    assert_eq!(metadata["preprocessing"]["image_size"], 32);
    assert_eq!(metadata["split"]["training_images"], 16);
    assert!(metadata["metrics"]["validation_loss"].is_f64());

    let rows = fs::read_to_string(output.join("metrics.csv")).unwrap();
    assert_eq!(rows.lines().count(), 2, "4 steps are one epoch: {rows}");
    assert!(
        rows.starts_with("epoch,steps,training_loss,validation_loss,"),
        "{rows}"
    );
    let split = fs::read_to_string(output.join("split.csv")).unwrap();
    assert_eq!(split.lines().count(), 25, "{split}");
}

/// Results of an earlier run beside the configuration of a later one would deceive.
#[test]
fn a_run_replaces_what_another_left() {
    let folder = tempfile::tempdir().unwrap();
    let (data, output) = (folder.path().join("data"), folder.path().join("run"));
    pictures::write(&data, 24);
    let run = |options: &[&str]| {
        let mut command = example();
        command.args(["--image-size", "32", "--batch-size", "8"]);
        command
            .arg("--data")
            .arg(&data)
            .arg("--output")
            .arg(&output);
        command.args(options).output().unwrap()
    };
    assert!(run(&["--epochs", "3"]).status.success());
    assert!(output.join("checkpoints/step-6").is_dir());
    let failed = run(&["--epochs", "3", "--lr", "1e38"]);
    assert!(!failed.status.success());
    for file in ["results.json", "best.safetensors", "checkpoints/step-6"] {
        assert!(!output.join(file).exists(), "{file}");
    }
}

/// A reader that goes away, or a full disk behind standard output, is no reason to panic.
#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    pictures::write(folder.path(), 24);
    for options in [&["--check-split"][..], &["--help"]] {
        let full = fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let done = example()
            .args(options)
            .arg("--data")
            .arg(folder.path())
            .stdout(full)
            .output()
            .unwrap();
        assert_eq!(done.status.code(), Some(1));
        let error = text(&done.stderr);
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(error.starts_with("error: standard output: "), "{error}");
    }
}

/// The run's own config.json and split.csv give the same run again, to the last bit.
#[test]
fn a_run_repeats_from_its_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    pictures::write(&data, 24);
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    succeeds(
        example()
            .args(SMALL)
            .args(["--seed", "5", "--split", "random", "--weighted-loss"])
            .arg("--data")
            .arg(&data)
            .arg("--output")
            .arg(&first),
    );
    succeeds(
        example()
            .arg("--config")
            .arg(first.join("config.json"))
            .arg("--output")
            .arg(&second),
    );
    for file in ["last.safetensors", "best.safetensors", "split.csv"] {
        let read = |run: &Path| fs::read(run.join(file)).unwrap();
        assert!(read(&first) == read(&second), "{file} differs");
    }
    let third = folder.path().join("third");
    succeeds(
        example()
            .arg("--config")
            .arg(first.join("config.json"))
            .arg("--split")
            .arg(first.join("split.csv"))
            .arg("--output")
            .arg(&third),
    );
    let labels = |run: &Path| json(run.join("results.json"))["labels"].clone();
    assert_eq!(labels(&first), labels(&third));
}

#[test]
fn any_table_with_chosen_labels_trains() {
    let folder = tempfile::tempdir().unwrap();
    let images = folder.path().join("nih");
    pictures::write(&images, 12);
    let mut table = "image,patient,Cough,Mass,Fever\n".to_string();
    for index in 0..12 {
        let (patient, visit) = (index / 2, index % 2);
        let fever = ["", "-1", "0", "1"][index % 4];
        table += &format!("{patient:08}_{visit:03}.png,p{patient},0,{visit},{fever}\n");
    }
    let csv = folder.path().join("table.csv");
    fs::write(&csv, table).unwrap();
    let output = folder.path().join("run");
    succeeds(
        example()
            .args(SMALL)
            .args([
                "--labels",
                "Fever,Mass",
                "--split",
                "random",
                "--model",
                "resnet50",
            ])
            .args(["--in-channels", "1"])
            .arg("--data")
            .arg(&csv)
            .arg("--output")
            .arg(&output),
    );
    let results = json(output.join("results.json"));
    let labels: Vec<&String> = results["labels"].as_object().unwrap().keys().collect();
    assert_eq!(labels, ["Fever", "Mass"]);
    let unknown = results["labels"]["Fever"]["positives"].as_u64().unwrap()
        + results["labels"]["Fever"]["negatives"].as_u64().unwrap();
    assert!(unknown < results["images"]["test"].as_u64().unwrap());
}

#[test]
fn a_disjoint_split_is_reported_without_images() {
    let folder = tempfile::tempdir().unwrap();
    pictures::write(folder.path(), 24);
    fs::remove_dir_all(folder.path().join("images_001")).unwrap();
    let done = succeeds(
        example()
            .arg("--check-split")
            .arg("--data")
            .arg(folder.path()),
    );
    assert!(
        text(&done.stdout).contains("disjoint"),
        "{}",
        text(&done.stdout)
    );
}

#[test]
fn an_overlapping_split_is_counted_and_fails() {
    let folder = tempfile::tempdir().unwrap();
    pictures::write(folder.path(), 24);
    let list = folder.path().join("test_list.txt");
    let mut names = fs::read_to_string(&list).unwrap();
    names += "00000001_001.png\n";
    fs::write(&list, names).unwrap();
    let done = example()
        .args(["--check-split", "--data"])
        .arg(folder.path())
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(1));
    let report = text(&done.stdout);
    let verdict = report.lines().last().unwrap();
    // Patient 1 has two images; one of them was put on the test list as well.
    assert!(verdict.starts_with("OVERLAP: 1 patients"), "{report}");
    assert!(
        verdict.contains("00000001") || verdict.contains("\"1\""),
        "{report}"
    );
    assert!(verdict.contains("1 images"), "{report}");
    let refused = example().arg("--data").arg(folder.path()).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(
        text(&refused.stderr).lines().count(),
        1,
        "{}",
        text(&refused.stderr)
    );
}
