//! The example `weights` as a user runs it, on checkpoints that PyTorch, MONAI and TorchXRayVision have
//! written and on weights of full size made here.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use burn::tensor::{Device, Distribution, Tensor};
use burn_chexnet::model::{Architecture, Classifier, DenseNet, DenseNetConfig};
use burn_chexnet::weights::{Metadata, Network, save};
use burn_chexnet::{Preprocessing, Resize};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

fn example(arguments: &[&str]) -> Output {
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join("examples/weights");
    assert!(path.is_file(), "{} is not built", path.display());
    Command::new(path).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn succeeds(arguments: &[&str]) -> String {
    let output = example(arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// The one line of the error.
fn fails(arguments: &[&str]) -> String {
    let output = example(arguments);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let errors = text(&output.stderr);
    assert_eq!(errors.lines().count(), 1, "{errors}");
    errors
}

fn names(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "no {part} in {said}");
    }
}

/// A checkpoint of a tiny network, of burn-chexnet's tests.
fn committed(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = folder.join("burn-chexnet/tests/data/pytorch/styles");
    folder.join(name).to_str().unwrap().to_string()
}

/// DenseNet-121 for one channel and 18 outputs in a file of PyTorch's kind: tensors and nothing else.
struct Case {
    folder: tempfile::TempDir,
    network: DenseNet,
}

impl Case {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = DenseNetConfig::densenet121().with_in_channels(1);
        let network = config.with_outputs(18).init(&Device::flex());
        let case = Self { folder, network };
        let metadata = Metadata {
            architecture: Architecture::DenseNet121,
            labels: Vec::new(),
            preprocessing: Preprocessing::imagenet(224, 1).unwrap(),
            norm_epsilon: 1e-5,
            split: None,
            metrics: Default::default(),
        };
        save(&case.network, &metadata, case.path("own")).unwrap();
        let bytes = std::fs::read(case.path("own")).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let plain = safetensors::serialize(file.tensors(), None).unwrap();
        std::fs::write(case.path("plain.safetensors"), plain).unwrap();
        case
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn name(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_string()
    }

    /// Two images and what the network makes of them, but for `error`, as another program would
    /// write it.
    fn reference(&self, name: &str, error: f32) {
        let device = Device::flex();
        let images = Tensor::<4>::random([2, 1, 64, 64], Distribution::Default, &device);
        let logits = self.network.logits(images.clone()) + error;
        let bytes = |tensor: Vec<f32>| -> Vec<u8> {
            tensor.into_iter().flat_map(f32::to_le_bytes).collect()
        };
        let images = bytes(images.into_data().try_to_vec().unwrap());
        let logits = bytes(logits.into_data().try_to_vec().unwrap());
        let tensors = HashMap::from([
            (
                "images",
                TensorView::new(Dtype::F32, vec![2, 1, 64, 64], &images).unwrap(),
            ),
            (
                "logits",
                TensorView::new(Dtype::F32, vec![2, 18], &logits).unwrap(),
            ),
        ]);
        std::fs::write(
            self.path(name),
            safetensors::serialize(tensors, None).unwrap(),
        )
        .unwrap();
    }
}

#[test]
fn inspect_says_what_is_in_a_file_and_whether_it_is_whole() {
    let case = Case::new();
    let said = succeeds(&["inspect", &case.name("plain.safetensors")]);
    names(
        &said,
        &[
            "densenet121, 1 input channels, 18 outputs",
            "Atelectasis, Consolidation",
            "224×224, the centre of a shorter side of 224, pixels from -1024 to 1024",
            "606 loaded, none missing, none left over",
        ],
    );
    let said = succeeds(&["inspect", "--tensors", &case.name("plain.safetensors")]);
    names(&said, &["features.conv0.weight  [64, 1, 7, 7]"]);

    let output = example(&["inspect", &committed("arnoweng.pth.tar")]);
    assert_eq!(output.status.code(), Some(1));
    names(
        &text(&output.stdout),
        &[
            "PyTorch, pickle of before 1.6",
            "unknown, 3 input channels, 14 outputs",
            "not named",
            "`state_dict`",
            "left out beside it: optimizer",
            "`module.densenet121.`",
            "its layers are of none of densenet121",
        ],
    );
}

#[test]
fn inspect_lists_what_is_missing_and_left_over() {
    let case = Case::new();
    let bytes = std::fs::read(case.path("plain.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let renamed = file
        .tensors()
        .into_iter()
        .map(|(name, tensor)| (name.replace("norm5.bias", "norm5.beta"), tensor));
    let path = case.path("renamed.safetensors");
    std::fs::write(&path, safetensors::serialize(renamed, None).unwrap()).unwrap();
    let output = example(&["inspect", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    names(
        &text(&output.stdout),
        &[
            "605 fit",
            "missing     features.norm5.bias",
            "unexpected  features.norm5.beta",
        ],
    );
}

#[test]
fn convert_gives_labels_and_preprocessing() {
    let case = Case::new();
    let (from, to) = (
        case.name("plain.safetensors"),
        case.name("kept.safetensors"),
    );
    let said = succeeds(&["convert", &from, &to, "--keep", "Effusion,Edema"]);
    names(&said, &["606 tensors of", "written to"]);
    let network = Network::open(&to, &Device::flex()).unwrap();
    assert_eq!(network.metadata().labels, ["Effusion", "Edema"]);
    let input = &network.metadata().preprocessing;
    assert_eq!((input.image_size, input.channels()), (224, 1));
    assert_eq!(input.resize, Resize::CentreCrop { short_side: 224 });
    names(
        &fails(&["convert", &from, &to]),
        &["is there already: name another file"],
    );

    let named: Vec<String> = (1..=18).map(|n| format!("finding {n}")).collect();
    let named = named.join(",");
    let other = case.name("named.safetensors");
    let options = [
        "--normalisation",
        "torchxrayvision",
        "--labels",
        &named,
        "--in-channels",
        "3",
        "--short-side",
        "256",
    ];
    succeeds(&[&["convert", &from, &other], &options[..]].concat());
    let metadata = Metadata::read(&other).unwrap();
    assert_eq!(metadata.labels[17], "finding 18");
    let input = metadata.preprocessing;
    assert_eq!((input.image_size, input.mean), (224, vec![0.5; 3]));
    assert_eq!(input.resize, Resize::CentreCrop { short_side: 256 });
}

#[test]
fn convert_asks_for_what_it_cannot_know() {
    let case = Case::new();
    let (from, to) = (case.name("plain.safetensors"), case.name("to.safetensors"));
    let convert = |options: &[&str]| fails(&[&["convert", &from, &to], options].concat());
    names(
        &convert(&["--labels", "nih"]),
        &["--normalisation: say what the pixels were normalised for"],
    );
    names(
        &convert(&["--keep", "Effusion,Gout"]),
        &["there is no \"Gout\" among Atelectasis"],
    );
    names(
        &convert(&["--keep", "Edema,Edema"]),
        &["a label is empty, not on one line or there twice"],
    );
    names(&convert(&["--short-side", "100"]), &["shorter side of 100"]);
    assert!(!case.path("to.safetensors").exists());
    names(
        &fails(&["convert", "nowhere.pth", &to]),
        &["cannot read weights nowhere.pth", "No such file"],
    );
}

/// Names that are there stay, or a finding would change its place in silence.
#[test]
fn convert_renames_no_outputs() {
    let case = Case::new();
    let (from, to) = (case.name("plain.safetensors"), case.name("two.safetensors"));
    succeeds(&["convert", &from, &to, "--keep", "Effusion,Edema"]);
    let other = case.name("other.safetensors");
    names(
        &fails(&[
            "convert",
            &to,
            &other,
            "--labels",
            "Edema,Effusion",
            "--normalisation",
            "imagenet",
        ]),
        &["they have names already, Effusion, Edema"],
    );
    succeeds(&["convert", &to, &other, "--keep", "Edema,Effusion"]);
    assert_eq!(
        Metadata::read(&other).unwrap().labels,
        ["Edema", "Effusion"]
    );
}

#[test]
fn verify_compares_logits() {
    let case = Case::new();
    case.reference("same.safetensors", 0.0);
    case.reference("other.safetensors", 0.01);
    let file = case.name("plain.safetensors");
    let verify = |reference: &str| ["verify", &file, "--reference", reference].map(str::to_string);
    let said = verify(&case.name("same.safetensors"));
    let said = succeeds(&said.each_ref().map(String::as_str));
    names(&said, &["2 images × 18 logits", "606 tensors of"]);
    let other = verify(&case.name("other.safetensors"));
    names(
        &fails(&other.each_ref().map(String::as_str)),
        &["the logits differ by more than 0.0001"],
    );
    let none = verify(&file);
    names(
        &fails(&none.each_ref().map(String::as_str)),
        &["as a reference of images and logits: it has no `images`"],
    );
}
