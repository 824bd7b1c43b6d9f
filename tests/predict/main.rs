//! The example `predict` as a user runs it: real weights of a short run, real processes.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../train_chexnet/pictures.rs"]
mod pictures;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use burn::tensor::Device;
use burn_chexnet::Resize;
use burn_chexnet::model::{Classifier, DenseNetConfig, probabilities};
use burn_chexnet::weights::{self, Metadata};
use chest_datasets::GrayImage;
use serde_json::Value;

fn example(name: &str) -> Command {
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(
        path.is_file(),
        "{} is not built: run `cargo build --examples` first",
        path.display()
    );
    Command::new(path)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn succeeds(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    output
}

/// The one line of an error.
fn fails(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let errors = text(&output.stderr);
    assert!(!output.status.success(), "{errors}");
    let last = errors.lines().last().unwrap().to_string();
    assert!(
        last.starts_with("error: ") && !errors.contains("panicked"),
        "{errors}"
    );
    last
}

/// Pictures, and weights of 64 pixels trained on them for two steps.
fn trained() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap().keep();
        pictures::write(&folder.join("data"), 24);
        succeeds(
            example("train_chexnet")
                .args([
                    "--image-size",
                    "64",
                    "--batch-size",
                    "8",
                    "--max-steps",
                    "2",
                ])
                .arg("--data")
                .arg(folder.join("data"))
                .arg("--output")
                .arg(folder.join("run")),
        );
        folder
    })
}

fn predict() -> Command {
    let mut command = example("predict");
    command
        .arg("--weights")
        .arg(trained().join("run/best.safetensors"));
    command
}

fn images() -> PathBuf {
    trained().join("data/images_001/images")
}

/// Probabilities by image and label, of CSV.
fn read_csv(text: &str) -> BTreeMap<String, BTreeMap<String, f32>> {
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    assert_eq!(header[0], "image");
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            let probabilities = header[1..].iter().zip(&fields[1..]);
            let probabilities = probabilities
                .map(|(label, value)| (label.to_string(), value.parse().unwrap()))
                .collect();
            (fields[0].to_string(), probabilities)
        })
        .collect()
}

/// The model by hand, image by image, as the README embeds it.
#[test]
fn probabilities_are_those_of_the_model_in_every_format() {
    let run = |format: &str| {
        let mut command = predict();
        command
            .args(["--batch-size", "7", "--format", format])
            .arg(images());
        text(&succeeds(&mut command).stdout)
    };
    let csv = read_csv(&run("csv"));
    let json: Value = serde_json::from_str(&run("json")).unwrap();
    let table = run("table");
    assert_eq!((csv.len(), json.as_array().unwrap().len()), (24, 24));

    let device = Device::flex();
    let path = trained().join("run/best.safetensors");
    let metadata = Metadata::read(&path).unwrap();
    let mut model = DenseNetConfig::densenet121().init(&device);
    weights::load(&mut model, &path).unwrap();
    for (index, (image, found)) in csv.iter().enumerate() {
        let pixels = GrayImage::open(image).unwrap().resize(64).unwrap();
        let tensor = metadata.preprocessing.tensor(&pixels, &device).unwrap();
        let values = probabilities(model.logits(tensor)).into_data();
        assert_eq!(json[index]["image"], image.as_str());
        assert!(table.contains(&format!("{image}\n")));
        for (label, wanted) in metadata.labels.iter().zip(values.iter::<f32>()) {
            // A batch of seven may be summed in another order than a single image.
            assert!((found[label] - wanted).abs() < 1e-5, "{image} {label}");
            let other = json[index]["probabilities"][label].as_f64().unwrap();
            assert_eq!(other as f32, found[label]);
            assert!(table.contains(&format!("{label:18}  {:.3}\n", found[label])));
        }
    }
}

#[test]
fn files_and_folders_mix_and_others_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let first = images().join("00000000_000.png");
    fs::copy(&first, folder.path().join("a.png")).unwrap();
    fs::copy(&first, folder.path().join("scan without ending")).unwrap();
    fs::write(folder.path().join("notes.txt"), "other").unwrap();
    fs::create_dir(folder.path().join("deep")).unwrap();
    image::open(&first)
        .unwrap()
        .save(folder.path().join("deep/b.JPG"))
        .unwrap();
    let output = succeeds(
        predict()
            .args(["--format", "csv"])
            .arg(folder.path())
            .arg(folder.path().join("scan without ending"))
            .arg(folder.path().join("a.png")),
    );
    let names: Vec<String> = read_csv(&text(&output.stdout)).into_keys().collect();
    let expected = ["a.png", "deep/b.JPG", "scan without ending"];
    assert_eq!(
        names,
        expected.map(|name| folder.path().join(name).display().to_string())
    );
    // The one without an ending is also one of the files in the folder that are none by name.
    let message = text(&output.stderr);
    assert!(
        message.contains("2 files that are no PNG or JPEG are left out"),
        "{message}"
    );
}

#[test]
fn heat_maps_have_the_originals_in_them() {
    let folder = tempfile::tempdir().unwrap();
    let cam = folder.path().join("new/cam");
    let output = succeeds(
        predict()
            .args(["--cam-labels", "Mass,Hernia", "--cam"])
            .arg(&cam)
            .arg(images().join("00000001_001.png")),
    );
    let message = text(&output.stderr);
    assert!(message.contains("2 heat maps in"), "{message}");
    for label in ["Mass", "Hernia"] {
        let map = image::open(cam.join(format!("00000001_001-{label}.png"))).unwrap();
        // 40×48 pixels, enlarged, with a caption and a bar.
        assert!(
            map.width() > 480 && map.height() > 512,
            "{}×{}",
            map.width(),
            map.height()
        );
        let colours: std::collections::HashSet<_> = map.to_rgb8().pixels().copied().collect();
        assert!(colours.len() > 1000, "{} colours", colours.len());
    }
    assert_eq!(fs::read_dir(&cam).unwrap().count(), 2);

    let count = |labels: &str| {
        let folder = tempfile::tempdir().unwrap();
        let mut command = predict();
        command
            .args(["--cam-labels", labels, "--cam"])
            .arg(folder.path());
        succeeds(command.arg(images().join("00000001_001.png")));
        fs::read_dir(folder.path()).unwrap().count()
    };
    assert_eq!((count("highest"), count("all")), (1, 14));
}

/// Weights that were trained on a centre crop are fed one, and their heat map covers it.
#[test]
fn a_centre_crop_of_the_weights_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let device = Device::flex();
    let path = trained().join("run/best.safetensors");
    let mut metadata = Metadata::read(&path).unwrap();
    let mut model = DenseNetConfig::densenet121().init(&device);
    weights::load(&mut model, &path).unwrap();
    metadata.preprocessing.resize = Resize::CentreCrop { short_side: 80 };
    let cropped = folder.path().join("cropped.safetensors");
    weights::save(&model, &metadata, &cropped).unwrap();

    let image = images().join("00000002_000.png");
    let cam = folder.path().join("cam");
    let mut command = example("predict");
    command.args(["--format", "csv", "--cam-labels", "Mass"]);
    command
        .arg("--weights")
        .arg(&cropped)
        .arg("--cam")
        .arg(&cam);
    let found = read_csv(&text(&succeeds(command.arg(&image)).stdout));
    let pixels = GrayImage::open(&image)
        .unwrap()
        .resize_and_crop(80, 64)
        .unwrap();
    let tensor = metadata.preprocessing.tensor(&pixels, &device).unwrap();
    let values = probabilities(model.logits(tensor)).into_data();
    let found = &found[image.to_str().unwrap()];
    for (label, wanted) in metadata.labels.iter().zip(values.iter::<f32>()) {
        assert!((found[label] - wanted).abs() < 1e-6, "{label}");
    }
    // 40×48 pixels, of which the network saw 32×32 in the middle, at a scale that a side says.
    let map = image::open(cam.join("00000002_000-Mass.png"))
        .unwrap()
        .to_rgb8();
    let coloured = |x: u32, y: u32| {
        let image::Rgb([r, g, b]) = *map.get_pixel(x, y);
        r != g || g != b
    };
    let columns = (0..440)
        .filter(|&x| (100..400).any(|y| coloured(x, y)))
        .count();
    // Eleven-fold: 48 pixels become at least 512. The outline takes some of the rim.
    assert!((300..=32 * 11).contains(&columns), "{columns}");
}

#[test]
fn bad_images_stop_or_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let good = fs::read(images().join("00000000_000.png")).unwrap();
    fs::write(folder.path().join("a.png"), &good).unwrap();
    fs::write(folder.path().join("b.png"), &good[..good.len() / 2]).unwrap();
    fs::write(folder.path().join("c.png"), "").unwrap();
    let error = fails(predict().arg(folder.path()));
    assert!(error.contains("b.png: the PNG file is damaged"), "{error}");
    assert!(error.contains("--on-bad-image skip"), "{error}");
    let output = succeeds(
        predict()
            .args([
                "--on-bad-image",
                "skip",
                "--batch-size",
                "1",
                "--format",
                "csv",
            ])
            .arg(folder.path()),
    );
    assert_eq!(read_csv(&text(&output.stdout)).len(), 1);
    let message = text(&output.stderr);
    assert_eq!(message.matches("left out: ").count(), 2, "{message}");
    fs::remove_file(folder.path().join("a.png")).unwrap();
    let error = fails(
        predict()
            .args(["--on-bad-image", "skip"])
            .arg(folder.path()),
    );
    assert!(
        error.contains("none of the 2 images can be decoded"),
        "{error}"
    );
}

#[test]
fn what_cannot_be_used_is_named_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let image = images().join("00000000_000.png");
    let with_weights = |weights: PathBuf| {
        let mut command = example("predict");
        fails(command.arg("--weights").arg(weights).arg(&image))
    };
    let error = with_weights(path("missing.safetensors"));
    assert!(
        error.contains("missing.safetensors") && error.contains("No such file"),
        "{error}"
    );
    let bytes = fs::read(trained().join("run/best.safetensors")).unwrap();
    fs::write(path("short.safetensors"), &bytes[..bytes.len() / 2]).unwrap();
    let error = with_weights(path("short.safetensors"));
    assert!(
        error.contains("short.safetensors as safetensors: "),
        "{error}"
    );
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let foreign = safetensors::serialize(file.tensors(), None);
    fs::write(path("foreign.safetensors"), foreign.unwrap()).unwrap();
    let error = with_weights(path("foreign.safetensors"));
    assert!(
        error.contains("this project has not written it") && error.contains("weights -- convert"),
        "{error}"
    );

    fs::create_dir(path("empty")).unwrap();
    fs::write(path("file"), "").unwrap();
    fs::create_dir(path("twins")).unwrap();
    fs::copy(&image, path("twins/a.png")).unwrap();
    fs::copy(&image, path("twins/a.jpg")).unwrap();
    for (options, parts) in [
        (vec![path("empty")], ["no PNG or JPEG in", "empty"]),
        (vec![path("nowhere.png")], ["nowhere.png", "No such file"]),
        (
            vec!["--cam".into(), path("file"), image.clone()],
            ["cannot use the folder", "file"],
        ),
        (
            vec!["--cam".into(), path("cam"), path("twins")],
            ["would both be a-*.png", "two calls"],
        ),
        (
            vec![
                "--cam".into(),
                path("cam"),
                "--cam-labels".into(),
                "Cough".into(),
                image.clone(),
            ],
            ["no label \"Cough\"", "Atelectasis"],
        ),
        (
            vec!["--output".into(), path("none/p.csv"), image.clone()],
            ["--output", "none/p.csv"],
        ),
        (
            vec!["--format".into(), "xml".into(), image.clone()],
            ["unknown format `xml`", "csv"],
        ),
        (
            vec!["--batch-size".into(), "0".into(), image.clone()],
            ["--batch-size", "0"],
        ),
        (
            vec![],
            ["required arguments were not provided", "<FILE|DIR>"],
        ),
    ] {
        let error = fails(predict().args(&options));
        assert!(
            parts.iter().all(|part| error.contains(part)),
            "{options:?}: {error}"
        );
    }
}

/// A prediction that fails leaves the earlier table where it was; heat maps replace no X-ray.
#[test]
fn output_is_replaced_when_it_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table.csv");
    fs::write(&table, "earlier").unwrap();
    let broken = folder.path().join("broken.png");
    fs::write(&broken, "").unwrap();
    fails(predict().arg("--output").arg(&table).arg(&broken));
    assert_eq!(fs::read_to_string(&table).unwrap(), "earlier");
    let image = images().join("00000000_000.png");
    succeeds(predict().arg("--output").arg(&table).arg(&image));
    assert!(fs::read_to_string(&table).unwrap().contains("Hernia"));
    let error = fails(predict().arg("--output").arg(&broken).arg(&broken));
    assert!(error.contains("is read as input"), "{error}");
    let error = fails(predict().arg("--cam").arg(folder.path()).arg(&broken));
    assert!(error.contains("broken.png in it is predicted"), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

/// A reader that goes away is no reason to panic.
#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_one_line() {
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let error = fails(predict().arg(images()).stdout(full));
    assert!(
        error.contains("cannot write the predictions: No space left"),
        "{error}"
    );
}
