//! Runs that start from weights, and runs with several seeds.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use safetensors::SafeTensors;
use serde_json::Value;

use super::{example, pictures, succeeds, text};

const SMALL: [&str; 6] = [
    "--image-size",
    "32",
    "--batch-size",
    "8",
    "--max-steps",
    "2",
];

fn tensors(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let bytes = fs::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let tensors = file.tensors().into_iter();
    tensors
        .map(|(name, tensor)| (name, tensor.data().to_vec()))
        .collect()
}

/// The names of the tensors that differ.
fn moved(from: &Path, to: &Path) -> Vec<String> {
    let (from, to) = (tensors(from), tensors(to));
    assert!(from.keys().eq(to.keys()));
    let names = from.keys().filter(|name| from[*name] != to[*name]);
    names.cloned().collect()
}

struct Case(tempfile::TempDir);

impl Case {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        pictures::write(&folder.path().join("data"), 24);
        Self(folder)
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    /// Trains into `output`; the weights of the last epoch, and what was said.
    fn train(&self, output: &str, options: &[&str]) -> (std::path::PathBuf, String) {
        let mut command = example();
        let own = options.contains(&"--max-steps");
        command
            .args(if own { &SMALL[..4] } else { &SMALL })
            .args(options);
        command.arg("--data").arg(self.path("data"));
        let done = succeeds(command.arg("--output").arg(self.path(output)));
        (
            self.path(output).join("last.safetensors"),
            text(&done.stderr),
        )
    }
}

#[test]
fn a_frozen_backbone_stays_to_the_last_bit() {
    let case = Case::new();
    let (start, _) = case.train("start", &[]);
    let weights = start.to_str().unwrap();
    let (frozen, said) = case.train("frozen", &["--weights", weights, "--freeze-backbone"]);
    assert!(
        said.contains("606 tensors of") && said.contains("its classifier"),
        "{said}"
    );
    assert_eq!(
        moved(&start, &frozen),
        ["classifier.bias", "classifier.weight"]
    );
    let (free, _) = case.train("free", &["--weights", weights]);
    assert!(moved(&start, &free).len() > 500);
}

/// At a rate of zero the weights of the backbone stay, while its running statistics follow the data.
#[test]
fn the_backbone_learns_at_its_own_rate() {
    let case = Case::new();
    let (start, _) = case.train("start", &[]);
    let weights = start.to_str().unwrap();
    let (end, _) = case.train("end", &["--weights", weights, "--backbone-lr", "0"]);
    let moved = moved(&start, &end);
    let parameters: Vec<&String> = moved
        .iter()
        .filter(|name| !name.contains("running"))
        .collect();
    assert_eq!(parameters, ["classifier.bias", "classifier.weight"]);
    assert!(moved.len() > 2);
}

#[test]
fn other_labels_get_a_new_classifier_on_the_same_backbone() {
    let case = Case::new();
    let (start, _) = case.train("start", &[]);
    let weights = start.to_str().unwrap();
    let options = [
        "--weights",
        weights,
        "--labels",
        "Mass,Effusion",
        "--freeze-backbone",
    ];
    let (end, said) = case.train("end", &options);
    assert!(
        said.contains("604 tensors of") && said.contains("a new classifier"),
        "{said}"
    );
    let (start, end) = (tensors(&start), tensors(&end));
    let backbone = |name: &&String| !name.starts_with("classifier.");
    assert!(
        start
            .keys()
            .filter(backbone)
            .all(|name| start[name] == end[name])
    );
    assert_eq!(end["classifier.bias"].len(), 2 * 4);
}

/// A frozen backbone holds no state of the optimiser, and a resumed run knows it.
#[test]
fn a_fine_tuned_run_is_resumed_without_its_first_weights() {
    let case = Case::new();
    let (start, _) = case.train("start", &[]);
    let moved_away = case.path("weights.safetensors");
    fs::copy(&start, &moved_away).unwrap();
    let weights = moved_away.to_str().unwrap();
    let options = [
        "--weights",
        weights,
        "--freeze-backbone",
        "--max-steps",
        "8",
    ];
    let (unbroken, _) = case.train("unbroken", &[&options[..], &["--epochs", "4"]].concat());
    case.train("resumed", &[&options[..], &["--epochs", "2"]].concat());
    fs::remove_file(&moved_away).unwrap();
    let resumed = case.path("resumed");
    succeeds(
        example()
            .arg("--resume")
            .arg(&resumed)
            .args(["--epochs", "4"]),
    );
    assert!(moved(&unbroken, &resumed.join("last.safetensors")).is_empty());
}

#[test]
fn several_seeds_end_with_mean_and_deviation_and_go_on_where_they_stopped() {
    let case = Case::new();
    let command = |options: &[&str]| {
        let mut command = example();
        command.args(SMALL).args(["--seeds", "3,1"]).args(options);
        command.arg("--data").arg(case.path("data"));
        command.arg("--output").arg(case.path("run"));
        command
    };
    let done = succeeds(&mut command(&[]));
    let json = |name: &str| -> Value {
        serde_json::from_slice(&fs::read(case.path("run").join(name)).unwrap()).unwrap()
    };
    let aurocs = ["seed-1", "seed-3"].map(|seed| {
        json(&format!("{seed}/results.json"))["mean_auroc"]
            .as_f64()
            .unwrap()
    });
    assert_eq!(json("seed-3/config.json")["seed"], 3);
    let all = json("seeds.json");
    let (mean, deviation) = (&all["mean_auroc"]["mean"], &all["mean_auroc"]["deviation"]);
    let expected = (aurocs[0] + aurocs[1]) / 2.0;
    assert!((mean.as_f64().unwrap() - expected).abs() < 1e-12);
    // Of two values the deviation is their distance by √2.
    let expected = (aurocs[0] - aurocs[1]).abs() / 2f64.sqrt();
    assert!((deviation.as_f64().unwrap() - expected).abs() < 1e-12);
    assert!(text(&done.stdout).contains(" ± "), "{}", text(&done.stdout));

    let last = case.path("run/seed-1/last.safetensors");
    let before = fs::metadata(&last).unwrap().modified().unwrap();
    fs::remove_dir_all(case.path("run/seed-3")).unwrap();
    let again = succeeds(&mut command(&["--resume", "auto"]));
    assert_eq!(again.stdout, done.stdout);
    assert!(text(&again.stderr).contains("seed 1: has ended before"));
    assert_eq!(fs::metadata(&last).unwrap().modified().unwrap(), before);
}
