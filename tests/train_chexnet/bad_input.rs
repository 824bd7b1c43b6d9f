//! Bad input: one clear line on standard error, a non-zero exit, no back-trace, no hang.

use std::fs;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use tempfile::TempDir;

use super::{example, pictures, succeeds, text};

/// A folder of data and the options that use it.
pub struct Case {
    pub folder: TempDir,
}

impl Case {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        pictures::write(&folder.path().join("data"), 24);
        Self { folder }
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub fn table(&self) -> PathBuf {
        self.data().join("Data_Entry_2017_v2020.csv")
    }

    /// A run of one step into the folder `name`.
    pub fn trained(&self, name: &str, options: &[&str]) -> PathBuf {
        let run = self.folder.path().join(name);
        let mut command = example();
        command.args(["--image-size", "32", "--max-steps", "1"]);
        command.args(options).arg("--data").arg(self.data());
        succeeds(command.arg("--output").arg(&run));
        run
    }

    /// The one line of the error, behind what progress the run may have made.
    pub fn fails(&self, options: &[&str]) -> String {
        let small = self.folder.path().join("small.json");
        fs::write(&small, r#"{"image_size": 32, "max_steps": 1}"#).unwrap();
        let mut command = example();
        if !options.contains(&"--config") {
            command.arg("--config").arg(small);
        }
        let done = command
            .arg("--output")
            .arg(self.folder.path().join("run"))
            .arg("--data")
            .arg(self.data())
            .args(options)
            .output()
            .unwrap();
        let errors = text(&done.stderr);
        assert!(!done.status.success(), "{errors}");
        assert!(!errors.contains("panicked"), "{errors}");
        let lines: Vec<&str> = errors
            .lines()
            .filter(|l| l.starts_with("error: "))
            .collect();
        assert_eq!(lines.len(), 1, "{errors}");
        assert_eq!(errors.lines().last(), Some(lines[0]), "{errors}");
        lines[0].to_string()
    }
}

pub fn edit(path: &Path, change: impl Fn(String) -> String) {
    let text = fs::read_to_string(path).unwrap();
    fs::write(path, change(text)).unwrap();
}

#[track_caller]
pub fn names(error: &str, parts: &[&str]) {
    for part in parts {
        assert!(error.contains(part), "`{part}` is not in: {error}");
    }
}

#[test]
fn missing_folder() {
    let case = Case::new();
    fs::rename(case.data(), case.folder.path().join("elsewhere")).unwrap();
    names(&case.fails(&[]), &["--data: ", "data does not exist"]);
}

#[test]
fn folder_without_tables() {
    let case = Case::new();
    fs::remove_file(case.table()).unwrap();
    names(&case.fails(&[]), &["Data_Entry_2017"]);
}

#[test]
fn missing_column() {
    let case = Case::new();
    edit(&case.table(), |table| {
        table.replace("Patient ID", "Patient")
    });
    names(
        &case.fails(&[]),
        &["Data_Entry_2017_v2020.csv", "Patient ID"],
    );
}

#[test]
fn unknown_label_in_the_table() {
    let case = Case::new();
    edit(&case.table(), |table| table.replacen("Hernia", "Hernai", 1));
    names(
        &case.fails(&[]),
        &["Data_Entry_2017_v2020.csv", "row 5", "Hernai"],
    );
}

#[test]
fn unknown_label_in_the_options() {
    let case = Case::new();
    names(&case.fails(&["--labels", "Mass,Cough"]), &["Cough"]);
}

#[test]
fn listed_but_absent_image() {
    let case = Case::new();
    let image = "00000003_001.png";
    fs::remove_file(case.data().join("images_001/images").join(image)).unwrap();
    names(&case.fails(&[]), &[image, "row 9", "data"]);
}

#[test]
fn listed_image_that_the_table_lacks() {
    let case = Case::new();
    edit(&case.data().join("test_list.txt"), |list| {
        list + "99999999_000.png\n"
    });
    names(&case.fails(&[]), &["test_list.txt", "99999999_000.png"]);
}

#[test]
fn truncated_png() {
    let case = Case::new();
    let images = case.data().join("images_001/images");
    for image in fs::read_dir(images).unwrap() {
        let path = image.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    }
    names(&case.fails(&[]), &[".png", "row "]);
}

#[test]
fn zero_byte_image() {
    let case = Case::new();
    let images = case.data().join("images_001/images");
    for image in fs::read_dir(images).unwrap() {
        fs::write(image.unwrap().path(), "").unwrap();
    }
    names(&case.fails(&[]), &[".png", "row ", "empty"]);
}

#[test]
fn policy_for_a_label_that_is_not_there() {
    let case = Case::new();
    names(
        &case.fails(&["--uncertain", "zeros,Oedema=ones"]),
        &["Oedema", "Edema"],
    );
}

#[test]
fn cache_in_a_file() {
    let case = Case::new();
    let file = case.folder.path().join("cache");
    fs::write(&file, "").unwrap();
    names(
        &case.fails(&["--cache", file.to_str().unwrap()]),
        &["cache"],
    );
}

#[test]
fn zero_byte_table() {
    let case = Case::new();
    fs::write(case.table(), "").unwrap();
    names(&case.fails(&[]), &["Data_Entry_2017_v2020.csv", "empty"]);
}

#[test]
fn image_size_zero() {
    let case = Case::new();
    names(&case.fails(&["--image-size", "0"]), &["--image-size", "32"]);
}

#[test]
fn image_sizes_beyond_any_network() {
    let case = Case::new();
    for size in ["4097", "4294967296", "18446744073709551615"] {
        names(
            &case.fails(&["--image-size", size]),
            &["--image-size", size, "4096"],
        );
    }
}

/// A loss over no label is 0 and would choose the first epoch.
#[test]
fn a_side_without_any_known_label() {
    for side in ["training", "validation", "test"] {
        let folder = tempfile::tempdir().unwrap();
        let [table, split] = ["table.csv", "split.csv"].map(|name| folder.path().join(name));
        let [mut rows, mut sides] = ["image,patient,Mass\n", "image,split\n"].map(String::from);
        for (name, count) in [("training", 6), ("validation", 2), ("test", 4)] {
            for index in 0..count {
                let label = match name == side {
                    true => ["", "-1"][index % 2],
                    false => ["0", "1"][index % 2],
                };
                rows += &format!("{name}{index}.png,{name}{index},{label}\n");
                sides += &format!("{name}{index}.png,{}\n", name.replace("training", "train"));
            }
        }
        fs::write(&table, rows).unwrap();
        fs::write(&split, sides).unwrap();
        let mut command = example();
        command.arg("--data").arg(table).arg("--split").arg(split);
        let done = command.arg("--output").arg(folder.path()).output().unwrap();
        assert_eq!(done.status.code(), Some(1));
        names(
            &text(&done.stderr),
            &["table.csv", &format!("no label of any {side} image")],
        );
    }
}

#[test]
fn unknown_option_values() {
    let case = Case::new();
    for (option, value, expected) in [
        ("--split", "patients", "official"),
        ("--model", "vgg16", "densenet121"),
        ("--device", "cuda", "cpu"),
        ("--loss", "focal", "sum-over-labels"),
        ("--epochs", "many", "invalid digit"),
        ("--lr", "fast", "float"),
        ("--augment", "spin=3", "flip=0.5"),
        ("--augment", "rotation=90", "45"),
        ("--uncertain", "maybe", "ignore"),
        ("--blank", "Mass=0", "zeros"),
        ("--on-bad-image", "ignore", "skip"),
    ] {
        names(&case.fails(&[option, value]), &[option, value, expected]);
    }
    names(&case.fails(&["--learning-rate", "1"]), &["--learning-rate"]);
    names(&case.fails(&["--epochs", "0"]), &["--epochs"]);
    names(
        &case.fails(&["--phantom-images", "9"]),
        &["--phantom-images", "--data"],
    );
}

#[test]
fn official_split_without_lists() {
    let case = Case::new();
    for list in ["train_val_list.txt", "test_list.txt"] {
        fs::remove_file(case.data().join(list)).unwrap();
    }
    names(
        &case.fails(&["--split", "official"]),
        &["--split", "train_val_list.txt", "random"],
    );
}

#[test]
fn output_that_is_a_file() {
    let case = Case::new();
    fs::write(case.folder.path().join("run"), "").unwrap();
    names(&case.fails(&[]), &["output folder", "run"]);
}

#[test]
fn configuration_that_is_not_there_or_wrong() {
    let case = Case::new();
    let path = case.folder.path().join("config.json");
    let option = path.to_str().unwrap();
    names(&case.fails(&["--config", option]), &["config.json"]);
    fs::write(&path, r#"{"epochs": "three"}"#).unwrap();
    names(
        &case.fails(&["--config", option]),
        &["config.json", "three"],
    );
}

/// A learning rate that makes the weights explode ends the run with the batch and its images.
#[test]
fn loss_that_is_no_number() {
    let case = Case::new();
    let error = case.fails(&[
        "--lr",
        "1e38",
        "--max-steps",
        "50",
        "--epochs",
        "9",
        "--batch-size",
        "4",
    ]);
    names(&error, &["loss is", "epoch", "batch", ".png"]);
}

#[test]
fn weights_of_another_network_or_none_at_all() {
    let case = Case::new();
    let run = case.trained("resnet", &["--model", "resnet50"]);
    let weights = run.join("best.safetensors");
    let path = weights.to_str().unwrap();
    names(
        &case.fails(&["--weights", path]),
        &[
            "--weights: ",
            "weights of resnet50, not of densenet121",
            "give --model resnet50",
        ],
    );
    names(
        &case.fails(&["--weights", "missing.safetensors"]),
        &["cannot read weights missing.safetensors", "No such file"],
    );
    names(
        &case.fails(&["--weights", case.table().to_str().unwrap()]),
        &[
            "as a PyTorch checkpoint",
            "neither that nor a safetensors file",
        ],
    );
    // A state dict names no outputs.
    let bytes = fs::read(&weights).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let plain = case.folder.path().join("plain.safetensors");
    fs::write(
        &plain,
        safetensors::serialize(file.tensors(), None).unwrap(),
    )
    .unwrap();
    names(
        &case.fails(&["--model", "resnet50", "--weights", plain.to_str().unwrap()]),
        &[
            "nothing says which labels the 14 are of",
            "weights -- convert",
            "give --new-head for a new classifier",
        ],
    );
    // A run would replace the weights that it starts from.
    let inside = case.folder.path().join("run/best.safetensors");
    fs::create_dir_all(inside.parent().unwrap()).unwrap();
    fs::copy(&weights, &inside).unwrap();
    names(
        &case.fails(&["--model", "resnet50", "--weights", inside.to_str().unwrap()]),
        &["--weights: ", "lies in the folder of the results"],
    );
    assert!(inside.exists());
    names(
        &case.fails(&["--new-head"]),
        &["--new-head: ", "give --weights, or leave it out"],
    );
}

#[test]
fn schedules_and_optimisers_that_make_no_sense() {
    let case = Case::new();
    for (options, parts) in [
        (
            ["--optimizer", "rmsprop"],
            ["optimizer `rmsprop`", "expected adam, adamw or sgd"],
        ),
        (
            ["--schedule", "step,factor=2"],
            ["schedule `step,factor=2`", "factor is `2`"],
        ),
        (["--warm-up", "99"], ["--warm-up: 99", "from 0 to 10"]),
        (["--seeds", "1,1"], ["--seeds: ", "1 is given twice"]),
        (
            ["--warm-up-start", "0.5"],
            ["--warm-up-start: ", "give --warm-up"],
        ),
    ] {
        names(&case.fails(&options), &parts);
    }
}
