//! Where the images come from: the phantom, CheXpert's layout, a cache, damaged files.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use super::{example, pictures, succeeds, text};

const SMALL: [&str; 6] = [
    "--image-size",
    "32",
    "--batch-size",
    "4",
    "--max-steps",
    "3",
];

fn results(output: &Path) -> Value {
    serde_json::from_slice(&fs::read(output.join("results.json")).unwrap()).unwrap()
}

/// The weights of a run, which depend on every pixel that it saw.
fn weights(output: &Path) -> Vec<u8> {
    fs::read(output.join("last.safetensors")).unwrap()
}

#[test]
fn without_data_the_phantom_is_written_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let run = || {
        let done = succeeds(
            example()
                .args(SMALL)
                .args(["--phantom-images", "40", "--output"])
                .arg(folder.path()),
        );
        (text(&done.stdout), text(&done.stderr))
    };
    let (table, progress) = run();
    assert!(table.contains("Pleural_Thickening"), "{table}");
    assert!(
        progress.contains("the synthetic phantom was written into"),
        "{progress}"
    );
    let images = &results(folder.path())["images"];
    let sides = ["training", "validation", "test"].map(|side| images[side].as_u64().unwrap());
    assert_eq!(sides.iter().sum::<u64>(), 40);
    // In NIH's layout, for any other program.
    for file in [
        "Data_Entry_2017_v2020.csv",
        "BBox_List_2017.csv",
        "test_list.txt",
    ] {
        assert!(folder.path().join("phantom").join(file).is_file(), "{file}");
    }
    let first = weights(folder.path());
    let (_, progress) = run();
    assert!(
        progress.contains("the synthetic phantom is already in"),
        "{progress}"
    );
    assert!(weights(folder.path()) == first);
}

#[test]
fn a_run_from_the_cache_is_the_run_without_to_the_last_bit() {
    let folder = tempfile::tempdir().unwrap();
    let [data, cache] = ["data", "cache"].map(|name| folder.path().join(name));
    pictures::write(&data, 24);
    let run = |output: &str, cached: bool| {
        let output = folder.path().join(output);
        let mut command = example();
        command
            .args(SMALL)
            .args(["--augment", "flip,rotation=5,brightness=0.1"]);
        command
            .arg("--data")
            .arg(&data)
            .arg("--output")
            .arg(&output);
        if cached {
            command.arg("--cache").arg(&cache);
        }
        let done = succeeds(&mut command);
        (weights(&output), text(&done.stderr))
    };
    let (decoded, _) = run("decoded", false);
    let (built, progress) = run("built", true);
    assert!(progress.contains("chestcache built"), "{progress}");
    let (opened, progress) = run("opened", true);
    assert!(progress.contains("chestcache opened"), "{progress}");
    assert!(decoded == built && built == opened);
}

/// 24 pictures of which those of patient 1, on the training side, are damaged.
fn with_damaged_images() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    pictures::write(&data, 24);
    for image in ["00000001_000.png", "00000001_001.png"] {
        let path = data.join("images_001/images").join(image);
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    }
    folder
}

#[test]
fn skipped_images_are_listed_once_with_file_and_row() {
    let folder = with_damaged_images();
    for cached in [false, true] {
        let output = folder.path().join("run");
        let mut command = example();
        command
            .args(["--image-size", "32", "--batch-size", "4", "--epochs", "2"])
            .args(["--on-bad-image", "skip", "--output"])
            .arg(&output)
            .arg("--data")
            .arg(folder.path().join("data"));
        if cached {
            command.arg("--cache").arg(folder.path().join("cache"));
        }
        let table = text(&succeeds(&mut command).stdout);
        assert!(
            table.contains("cannot be decoded: 2, the first: "),
            "{table}"
        );
        let results = results(&output);
        let skipped = results["skipped"].as_array().unwrap();
        let rows: Vec<u64> = skipped
            .iter()
            .map(|bad| bad["row"].as_u64().unwrap())
            .collect();
        // Patient 1 has the third and the fourth image, below the header.
        assert_eq!(rows, [4, 5]);
        assert_eq!(skipped[0]["image"], "00000001_000.png");
        // What was left out is not counted as used.
        let sides = ["training", "validation", "test"];
        let used = sides.map(|side| results["images"][side].as_u64().unwrap());
        assert_eq!(used.iter().sum::<u64>(), 22, "{used:?}");
        let reason = skipped[0]["reason"].as_str().unwrap();
        assert!(
            reason.contains("images_001/images/00000001_000.png: "),
            "{reason}"
        );
    }
}

#[test]
fn a_side_that_loses_all_its_images_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    pictures::write(&data, 24);
    let test = fs::read_to_string(data.join("test_list.txt")).unwrap();
    for image in test.lines() {
        fs::write(data.join("images_001/images").join(image), "").unwrap();
    }
    let mut command = example();
    command
        .args(SMALL)
        .args(["--on-bad-image", "skip", "--data"]);
    let done = command
        .arg(&data)
        .arg("--output")
        .arg(folder.path().join("run"));
    let done = done.output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    let errors = text(&done.stderr);
    let error = errors.lines().last().unwrap();
    assert!(
        error.contains("none of the 6 test images can be decoded, the first: "),
        "{error}"
    );
}

#[test]
fn a_split_is_checked_without_writing_a_phantom() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("run");
    let check = || {
        let mut command = example();
        command.args(["--check-split", "--phantom-images", "40", "--output"]);
        command.arg(&output).output().unwrap()
    };
    let done = check();
    assert_eq!(done.status.code(), Some(1));
    assert!(
        text(&done.stderr).contains("there is no phantom in"),
        "{}",
        text(&done.stderr)
    );
    assert!(!output.exists());
    let mut run = example();
    run.args(SMALL)
        .args(["--phantom-images", "40", "--output"])
        .arg(&output);
    succeeds(&mut run);
    assert_eq!(check().status.code(), Some(0));
}

#[test]
fn a_damaged_image_stops_by_default_with_and_without_cache() {
    let folder = with_damaged_images();
    for cache in [None, Some(folder.path().join("cache"))] {
        let mut command = example();
        command
            .args(["--image-size", "32", "--epochs", "1", "--output"])
            .arg(folder.path().join("run"))
            .arg("--data")
            .arg(folder.path().join("data"));
        if let Some(cache) = &cache {
            command.arg("--cache").arg(cache);
        }
        let done = command.output().unwrap();
        assert_eq!(done.status.code(), Some(1));
        let errors = text(&done.stderr);
        let error = errors.lines().last().unwrap();
        assert!(error.starts_with("error: "), "{errors}");
        for part in ["0000000", ".png", "Data_Entry_2017_v2020.csv, row "] {
            assert!(error.contains(part), "{error}");
        }
    }
}

/// A folder as Stanford publishes it: uncertain and blank labels, a lateral view.
fn chexpert(folder: &Path) {
    const HEADER: &str = "Path,Sex,Age,Frontal/Lateral,AP/PA,No Finding,Edema,Pleural Effusion\n";
    let write = |table: &str, side: &str, patients: std::ops::Range<u32>| {
        let mut rows = HEADER.to_owned();
        for patient in patients {
            let study = format!("{side}/patient{patient:05}/study1");
            fs::create_dir_all(folder.join(&study)).unwrap();
            for (view, tail) in [("frontal", "Frontal,PA"), ("lateral", "Lateral,")] {
                let edema = ["1.0", "0.0", "-1.0", ""][patient as usize % 4];
                let effusion = ["", "1.0", "0.0"][patient as usize % 3];
                let path = format!("{study}/view1_{view}.jpg");
                rows += &format!("CheXpert-v1.0-small/{path},Male,61,{tail},,{edema},{effusion}\n");
                let image = image::GrayImage::from_fn(40, 36, |x, y| {
                    image::Luma([((x * y + patient * 17) % 251) as u8])
                });
                image.save(folder.join(path)).unwrap();
            }
        }
        fs::write(folder.join(table), rows).unwrap();
    };
    write("train.csv", "train", 1..25);
    write("valid.csv", "valid", 64541..64549);
}

#[test]
fn chexpert_trains_on_frontal_images_under_policies() {
    let folder = tempfile::tempdir().unwrap();
    let [data, output] = ["CheXpert", "run"].map(|name| folder.path().join(name));
    chexpert(&data);
    let done = succeeds(
        example()
            .args(SMALL)
            .args(["--labels", "Edema,Pleural Effusion"])
            .args(["--uncertain", "zeros,Edema=ones", "--blank", "zeros"])
            .arg("--data")
            .arg(&data)
            .arg("--output")
            .arg(&output),
    );
    let images = &results(&output)["images"];
    // 24 patients train and validate, 8 test; laterals are left out.
    assert_eq!(images["test"], 8);
    let rest = ["training", "validation"].map(|side| images[side].as_u64().unwrap());
    assert_eq!(rest.iter().sum::<u64>(), 24);
    let progress = text(&done.stderr);
    assert!(progress.contains("uncertain (-1)"), "{progress}");
    // In the test side the two uncertain cases of eight stay out; blanks count as negative.
    let edema = &results(&output)["labels"]["Edema"];
    assert_eq!(
        (edema["positives"].as_u64(), edema["negatives"].as_u64()),
        (Some(2), Some(4))
    );
}
