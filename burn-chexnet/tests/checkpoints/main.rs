//! Checkpoints in every published style, written by PyTorch, MONAI and TorchXRayVision themselves
//! (`tests/reference/styles.py`), into our networks: every tensor has to arrive, bit for bit.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod refused;
#[path = "../seeded/mod.rs"]
mod seeded;

use std::path::{Path, PathBuf};

use burn::tensor::{Device, Tensor, Tolerance};
use burn_chexnet::model::{Architecture, Classifier, DenseNet, DenseNetConfig, ResNetConfig};
use burn_chexnet::weights::{Checkpoint, Conversion, Format, Head, convert};
use safetensors::SafeTensors;

const SEED: u64 = 3;

fn committed(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/pytorch/styles")
        .join(name)
}

/// The network of the committed files: a few kilobytes in all.
fn tiny() -> DenseNetConfig {
    DenseNetConfig {
        growth_rate: 4,
        blocks: vec![2, 2],
        initial_channels: 8,
        bottleneck: 2,
        ..DenseNetConfig::densenet121()
    }
}

/// Ten convolutions, eleven norms of four tensors, the linear layer of two.
const TINY_TENSORS: usize = (1 + 4 * 2 + 1) + (1 + 4 * 2 + 1 + 1) * 4 + 2;

/// Fails unless `model` has the values of PyTorch's network, but for a share of `tolerance` of each.
fn assert_seeded<C: Classifier>(model: &C, tolerance: f32) {
    let folder = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(seeded::save(model, folder.path())).unwrap();
    for (name, tensor) in SafeTensors::deserialize(&bytes).unwrap().tensors() {
        let expected = seeded::tensor(&name, tensor.shape(), SEED);
        let found = tensor.data().chunks_exact(4);
        let found = found.map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
        // Below 6e-5 half precision has a fixed step of 6e-8.
        let least = if tolerance > 0.0 { 3e-8 } else { 0.0 };
        for (found, expected) in found.zip(expected) {
            assert!(
                (found - expected).abs() <= tolerance * expected.abs() + least,
                "{name}: {found}, {expected}"
            );
        }
    }
}

/// A style: its file, format, what is said of it, and how closely its values are kept.
type Style = (&'static str, Format, &'static [&'static str], f32);

const SAFE: Format = Format::Safetensors;
const ZIP: Format = Format::PyTorchZip;
const PICKLE: Format = Format::PyTorchPickle;
const BEFORE: &str = "before PyTorch 0.4";
const WRAPPED: &str = "`module.densenet121.`";

const STYLES: [Style; 13] = [
    ("torchvision.pth", ZIP, &["num_batches_tracked"], 0.0),
    (
        "arnoweng.pth.tar",
        PICKLE,
        &[
            BEFORE,
            WRAPPED,
            "`classifier.0`",
            "`state_dict`",
            "left out beside it: optimizer",
        ],
        0.0,
    ),
    (
        "zoogzog.pth.tar",
        ZIP,
        &[WRAPPED, "`classifier.0`", "`state_dict`"],
        0.0,
    ),
    ("model_key.pth", PICKLE, &["`model`"], 0.0),
    ("lightning.ckpt", ZIP, &["`state_dict`", "`model.`"], 0.0),
    ("monai.pth", PICKLE, &["MONAI", "`class_layers.out`"], 0.0),
    ("predictions.safetensors", SAFE, &["`predictions`"], 0.0),
    ("fc_head.safetensors", SAFE, &["`fc`"], 0.0),
    // 11, 8 and 53 bits of mantissa.
    (
        "half.safetensors",
        SAFE,
        &["converted from F16"],
        1.0 / 2048.0,
    ),
    ("bfloat16.pth", ZIP, &["converted from BF16"], 1.0 / 256.0),
    ("float64.pth", ZIP, &["converted from F64"], 0.0),
    ("torchvision_old_keys.pth", PICKLE, &[BEFORE], 0.0),
    ("xrv.pth", ZIP, &["TorchXRayVision"], 0.0),
];

/// Loads `path`, whose tensors have to be all of the network; the number of them.
fn load(path: &Path, style: &Style, config: &DenseNetConfig) -> usize {
    let (name, format, said, tolerance) = style;
    let checkpoint = Checkpoint::open(path).unwrap();
    assert_eq!(checkpoint.format(), *format, "{name}");
    let config = config
        .clone()
        .with_in_channels(checkpoint.in_channels().unwrap())
        .with_outputs(checkpoint.outputs().unwrap());
    let mut model = config.init(&Device::flex());
    let report = checkpoint.load_into(&mut model, &Head::Whole).unwrap();
    let text = report.to_string();
    assert!(!text.contains('\n'), "{text}");
    for part in *said {
        assert!(text.contains(part), "{name}: no {part} in {text}");
    }
    assert_seeded(&model, *tolerance);
    report.loaded
}

#[test]
fn every_style_arrives_bit_for_bit() {
    // Twice the size, and of the same reader as the others.
    let styles = STYLES.iter().filter(|style| style.0 != "float64.pth");
    for style in styles {
        let loaded = load(&committed(style.0), style, &tiny());
        assert_eq!(loaded, TINY_TENSORS, "{}", style.0);
    }
}

/// The same at full size, and what is too large to be kept.
#[test]
fn full_size_networks_arrive_bit_for_bit() {
    let Some(folder) = std::env::var_os("CHEXNET_REFERENCE") else {
        println!("skipped: CHEXNET_REFERENCE is not set");
        return;
    };
    let folder = PathBuf::from(folder).join("styles");
    for style in &STYLES {
        let path = folder.join(style.0);
        let loaded = load(&path, style, &DenseNetConfig::densenet121());
        assert_eq!(loaded, 606, "{}", style.0);
        let architecture = Checkpoint::open(&path).unwrap().architecture();
        assert_eq!(architecture, Some(Architecture::DenseNet121));
        println!("{}: 606 tensors", style.0);
    }
    for (name, channels, outputs) in [
        ("resnet50.pth", 3, 14),
        ("resnet50_module_prefix.pth", 3, 14),
        ("xrv_resnet.pth", 1, 18),
    ] {
        let checkpoint = Checkpoint::open(folder.join(name)).unwrap();
        assert_eq!(checkpoint.architecture(), Some(Architecture::ResNet50));
        let config = ResNetConfig::resnet50().with_in_channels(channels);
        let mut model = config.with_outputs(outputs).init(&Device::flex());
        let report = checkpoint.load_into(&mut model, &Head::Whole).unwrap();
        assert_eq!(report.loaded, 53 + 53 * 4 + 2);
        assert_seeded(&model, 0.0);
        println!("{name}: {} tensors", report.loaded);
    }
    for name in refused::MODULES {
        let (_, text) = refused::failure(&folder.join(name));
        assert!(text.contains("a whole pickled module"), "{text}");
    }
}

/// The way back: torchvision has to take these, `tests/reference/check_export.py` sees to it.
#[test]
fn pytorchs_weights_are_written_for_pytorch() {
    let (Some(reference), Some(exports)) = (
        std::env::var_os("CHEXNET_REFERENCE"),
        std::env::var_os("CHEXNET_EXPORTS"),
    ) else {
        println!("skipped: CHEXNET_REFERENCE or CHEXNET_EXPORTS is not set");
        return;
    };
    let (reference, exports) = (PathBuf::from(reference), PathBuf::from(exports));
    std::fs::create_dir_all(&exports).unwrap();
    for architecture in Architecture::ALL {
        let path = reference.join(format!("weights/{architecture}.pth"));
        let checkpoint = Checkpoint::open(path).unwrap();
        assert_eq!(checkpoint.architecture(), Some(architecture));
        let network = checkpoint.network(&Device::flex()).unwrap();
        let path = exports.join(format!("{architecture}.safetensors"));
        network.save(path).unwrap();
    }
}

fn network(name: &str, config: DenseNetConfig, head: &Head) -> (DenseNet, String) {
    let mut model = config.init(&Device::flex());
    let checkpoint = Checkpoint::open(committed(name)).unwrap();
    let report = checkpoint.load_into(&mut model, head).unwrap();
    (model, report.to_string())
}

fn grey() -> Tensor<4> {
    seeded::images("grey", [2, 1, 32, 32], SEED, &Device::flex())
}

/// Grey in three channels is the same to both.
fn assert_same_of_grey(one: &DenseNet, three: &DenseNet) {
    let tolerance = Tolerance::rel_abs(1e-4, 1e-5);
    let expected = one.logits(grey()).into_data();
    let found = three.logits(grey().repeat_dim(1, 3)).into_data();
    found.assert_approx_eq::<f32>(&expected, tolerance);
}

#[test]
fn a_convolution_for_colours_becomes_one_for_grey_and_back() {
    let three = || tiny().with_in_channels(3);
    let one = || tiny().with_in_channels(1);
    let (colours, said) = network("torchvision.pth", three(), &Head::Whole);
    assert!(!said.contains("first convolution"), "{said}");
    let (grey, said) = network("torchvision.pth", one(), &Head::Whole);
    assert!(said.contains("the sum of its weights for 3"), "{said}");
    assert_same_of_grey(&grey, &colours);
    let (grey, _) = network("xrv.pth", one().with_outputs(18), &Head::Whole);
    let (colours, said) = network("xrv.pth", three().with_outputs(18), &Head::Whole);
    assert!(said.contains("repeated and divided by 3"), "{said}");
    assert_same_of_grey(&grey, &colours);
}

#[test]
fn outputs_are_taken_by_name() {
    let one = tiny().with_in_channels(1);
    let (whole, _) = network("xrv.pth", one.clone().with_outputs(18), &Head::Whole);
    let rows = Head::Outputs(vec![7, 0]);
    let (two, _) = network("xrv.pth", one.with_outputs(2), &rows);
    let all = whole.logits(grey());
    let expected = Tensor::cat(
        vec![all.clone().slice([0..2, 7..8]), all.slice([0..2, 0..1])],
        1,
    );
    let tolerance = Tolerance::rel_abs(1e-5, 1e-6);
    let found = two.logits(grey()).into_data();
    found.assert_approx_eq::<f32>(&expected.into_data(), tolerance);
    let labels = Checkpoint::open(committed("xrv.pth")).unwrap().labels();
    assert_eq!(labels.unwrap()[7], "Effusion");
}

#[test]
fn a_new_classifier_is_the_models_own() {
    let config = tiny().with_outputs(5);
    let mut model = config.init(&Device::flex());
    let own = model.classifier.weight.val().into_data();
    let checkpoint = Checkpoint::open(committed("torchvision_old_keys.pth")).unwrap();
    let report = checkpoint.load_into(&mut model, &Head::New).unwrap();
    assert_eq!(report.loaded, TINY_TENSORS - 2);
    assert!(report.to_string().contains("a new classifier"));
    assert_eq!(model.classifier.weight.val().into_data(), own);
}

/// Nothing names the 14 outputs of a state dict, and this network is none of the five.
#[test]
fn what_cannot_be_known_is_asked_for() {
    let device = Device::flex();
    let checkpoint = Checkpoint::open(committed("torchvision.pth")).unwrap();
    assert_eq!(
        (checkpoint.labels(), checkpoint.preprocessing()),
        (None, None)
    );
    let error = convert(&checkpoint, &Conversion::default(), &device);
    let text = error.err().unwrap().to_string();
    assert!(text.contains("of none of densenet121"), "{text}");
}
