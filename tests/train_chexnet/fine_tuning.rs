//! Runs that start from weights, and runs with several seeds.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use burn_chexnet::weights::Metadata;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::Value;

use super::{example, fails, pictures, succeeds, text};

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
fn outputs_are_taken_by_name_unless_a_new_head_is_asked_for() {
    let case = Case::new();
    let (start, _) = case.train("start", &[]);
    let weights = start.to_str().unwrap();
    let options = |new_head: bool| {
        let mut options = vec!["--weights", weights, "--labels", "Mass,Effusion"];
        // At such a rate nothing moves but by less than is looked at.
        options.extend(["--freeze-backbone", "--lr", "1e-12"]);
        options.extend(new_head.then_some("--new-head"));
        options
    };
    let floats = |bytes: &[u8]| -> Vec<f32> {
        let values = bytes.chunks_exact(4);
        values
            .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()))
            .collect()
    };
    let before = tensors(&start);
    let expected: Vec<f32> = [4, 2] // Mass and Effusion among the 14.
        .into_iter()
        .flat_map(|row| floats(&before["classifier.weight"][row * 4096..][..4096]))
        .collect();
    let close = |path: &Path| {
        let found = floats(&tensors(path)["classifier.weight"]);
        assert_eq!(found.len(), expected.len());
        let pairs = found.iter().zip(&expected);
        pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-6)
    };
    let (by_name, said) = case.train("by-name", &options(false));
    assert!(
        said.contains("606 tensors of") && said.contains("taken by name"),
        "{said}"
    );
    assert!(close(&by_name));
    let (anew, said) = case.train("anew", &options(true));
    assert!(
        said.contains("604 tensors of") && said.contains("a new classifier"),
        "{said}"
    );
    assert!(!close(&anew));
    let after = tensors(&anew);
    let backbone = |name: &&String| !name.starts_with("classifier.");
    assert!(
        before
            .keys()
            .filter(backbone)
            .all(|name| before[name] == after[name])
    );

    // What the two have no output for cannot be taken from them.
    let mut command = example();
    command.args(SMALL).arg("--data").arg(case.path("data"));
    command.arg("--output").arg(case.path("refused"));
    let error = fails(command.arg("--weights").arg(&anew));
    assert!(
        error.contains("none for Atelectasis, only for Mass, Effusion")
            && error.contains("give --new-head for a new classifier"),
        "{error}"
    );
}

/// A published checkpoint in place of a run's weights: PyTorch's file in TorchXRayVision's style, made
/// here of a run's.
#[test]
fn weights_of_others_bring_their_normalisation_and_epsilon() {
    let case = Case::new();
    let (start, _) = case.train("start", &["--in-channels", "1"]);
    let bytes = fs::read(&start).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let rows = |bytes: &[u8], width: usize| bytes.repeat(2)[..18 * width].to_vec();
    let wide: BTreeMap<String, (Vec<usize>, Vec<u8>)> = file
        .tensors()
        .into_iter()
        .map(|(name, tensor)| match name.as_str() {
            "classifier.weight" => (name, (vec![18, 1024], rows(tensor.data(), 4096))),
            "classifier.bias" => (name, (vec![18], rows(tensor.data(), 4))),
            _ => (name, (tensor.shape().to_vec(), tensor.data().to_vec())),
        })
        .map(|(name, tensor)| (format!("module.{name}"), tensor))
        .collect();
    let views = wide.iter().map(|(name, (shape, data))| {
        let view = TensorView::new(Dtype::F32, shape.clone(), data).unwrap();
        (name.as_str(), view)
    });
    let epsilon = [("norm_epsilon".to_string(), "1.001e-05".to_string())];
    let path = case.path("xrv.safetensors");
    fs::write(
        &path,
        safetensors::serialize(views, Some(epsilon.into())).unwrap(),
    )
    .unwrap();

    let weights = path.to_str().unwrap();
    let (end, said) = case.train("end", &["--weights", weights, "--labels", "Effusion,Edema"]);
    for part in [
        "TorchXRayVision",
        "`module.`",
        "taken by name",
        "divided by 3",
    ] {
        assert!(said.contains(part), "no {part} in {said}");
    }
    let metadata = Metadata::read(end).unwrap();
    assert_eq!(metadata.norm_epsilon, 1.001e-5);
    assert_eq!(metadata.preprocessing.mean, [0.5; 3]);
    assert_eq!(metadata.preprocessing.deviation, [1.0 / 2048.0; 3]);
    // What the weights have decided is part of the configuration, so that the run can be repeated.
    let config: Value =
        serde_json::from_slice(&fs::read(case.path("end/config.json")).unwrap()).unwrap();
    assert_eq!(config["normalisation"], "torchxrayvision");
    assert_eq!(config["norm_epsilon"], 1.001e-5);

    // The same configuration with other weights: they bring their own.
    let mut command = example();
    command.arg("--config").arg(case.path("end/config.json"));
    command.arg("--weights").arg(&start);
    succeeds(command.arg("--output").arg(case.path("other")));
    let metadata = Metadata::read(case.path("other")).unwrap();
    assert_eq!(metadata.norm_epsilon, 1e-5);
    assert!(metadata.preprocessing.mean[0] < 0.49);
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
