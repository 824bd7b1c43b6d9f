//! Weights through files: torchvision's names, strict loading, metadata.
#![cfg(feature = "weights")]
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::tensor::{Device, Distribution, Tensor};
use burn_chexnet::Preprocessing;
use burn_chexnet::model::{Architecture, Classifier, DenseNet, DenseNetConfig, ResNetConfig};
use burn_chexnet::weights::{self, Metadata, SplitOrigin, WeightsError};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use tempfile::TempDir;

fn metadata() -> Metadata {
    Metadata {
        architecture: Architecture::DenseNet121,
        labels: vec!["Mass".to_string(), "Pleural \"Thickening\"".to_string()],
        preprocessing: Preprocessing::imagenet(224, 3).unwrap(),
        norm_epsilon: 1e-5,
        split: Some(SplitOrigin {
            name: "official".to_string(),
            seed: 7,
            training_images: 400,
        }),
        metrics: BTreeMap::from([("validation_loss".to_string(), 0.15)]),
    }
}

/// A DenseNet small enough for a test; the paths have the same form.
fn small() -> DenseNetConfig {
    DenseNetConfig {
        growth_rate: 4,
        blocks: vec![2, 1],
        initial_channels: 8,
        ..DenseNetConfig::densenet121().with_outputs(2)
    }
}

fn saved(folder: &TempDir) -> (DenseNet, PathBuf) {
    let model = small().init(&Device::flex());
    let path = folder.path().join("model.safetensors");
    weights::save(&model, &metadata(), &path).unwrap();
    (model, path)
}

/// torchvision's state_dict of densenet121 without `num_batches_tracked`, from its definition.
fn torchvision_densenet121() -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    let mut add = |key: String| assert!(keys.insert(key));
    let norm = |name: &str| {
        ["weight", "bias", "running_mean", "running_var"].map(|part| format!("{name}.{part}"))
    };
    add("features.conv0.weight".to_string());
    norm("features.norm0").into_iter().for_each(&mut add);
    for (block, layers) in [(1, 6), (2, 12), (3, 24), (4, 16)] {
        for layer in 1..=layers {
            let name = format!("features.denseblock{block}.denselayer{layer}");
            for part in [1, 2] {
                norm(&format!("{name}.norm{part}"))
                    .into_iter()
                    .for_each(&mut add);
                add(format!("{name}.conv{part}.weight"));
            }
        }
        if block < 4 {
            norm(&format!("features.transition{block}.norm"))
                .into_iter()
                .for_each(&mut add);
            add(format!("features.transition{block}.conv.weight"));
        }
    }
    norm("features.norm5").into_iter().for_each(&mut add);
    add("classifier.weight".to_string());
    add("classifier.bias".to_string());
    keys
}

#[test]
fn keys_and_shapes_are_torchvisions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("densenet121.safetensors");
    let model = DenseNetConfig::densenet121().init(&Device::flex());
    weights::save(&model, &metadata(), &path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let keys: BTreeSet<String> = file.names().into_iter().map(str::to_string).collect();
    assert_eq!(keys, torchvision_densenet121());
    assert_eq!(keys.len(), 606);
    for (key, shape) in [
        ("features.conv0.weight", vec![64, 3, 7, 7]),
        (
            "features.denseblock2.denselayer3.conv1.weight",
            vec![128, 192, 1, 1],
        ),
        (
            "features.denseblock4.denselayer16.conv2.weight",
            vec![32, 128, 3, 3],
        ),
        ("features.transition1.conv.weight", vec![128, 256, 1, 1]),
        ("classifier.weight", vec![14, 1024]),
    ] {
        assert_eq!(file.tensor(key).unwrap().shape(), shape, "{key}");
    }
}

#[test]
fn resnet_keys_are_torchvisions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("resnet50.safetensors");
    let model = ResNetConfig::resnet50().init(&Device::flex());
    weights::save(&model, &metadata(), &path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    // torchvision: 53 convolutions, 53 norms of 4 tensors, the linear layer of 2.
    assert_eq!(file.len(), 53 + 53 * 4 + 2);
    for key in [
        "conv1.weight",
        "bn1.running_var",
        "layer1.0.downsample.0.weight",
        "layer1.0.downsample.1.running_mean",
        "layer3.5.conv2.weight",
        "fc.bias",
    ] {
        assert!(file.tensor(key).is_ok(), "{key}");
    }
    assert_eq!(file.tensor("fc.weight").unwrap().shape(), [14, 2048]);
}

#[test]
fn what_is_saved_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let training = Device::flex().autodiff();
    let model = small().init(&training);
    let images = Tensor::<4>::random([4, 3, 32, 32], Distribution::Default, &training);
    // A forward pass in training moves the running statistics from their start.
    model.logits(images.clone());
    let path = folder.path().join("model.safetensors");
    weights::save(&model, &metadata(), &path).unwrap();

    let device = Device::flex();
    let mut other = small().init(&device);
    let images = images.inner();
    let expected = model.valid().logits(images.clone());
    assert_ne!(
        other.logits(images.clone()).into_data(),
        expected.clone().into_data()
    );
    // 1 + 3 layers · 2 + 1 transition convolutions, 1 + 3 · 2 + 1 + 1 norms of 4, 2 linear.
    assert_eq!(
        weights::load(&mut other, &path).unwrap().loaded,
        8 + 9 * 4 + 2
    );
    assert_eq!(other.logits(images).into_data(), expected.into_data());
    assert_eq!(Metadata::read(&path).unwrap(), metadata());
}

/// Rewrites the file with other tensors.
fn rewrite(path: &Path, change: impl Fn(&str) -> Option<String>) {
    let bytes = std::fs::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let tensors = file
        .tensors()
        .into_iter()
        .filter_map(|(key, tensor)| Some((change(&key)?, tensor)));
    let bytes = safetensors::serialize(tensors, None).unwrap();
    std::fs::write(path, bytes).unwrap();
}

fn failure(path: &Path) -> (WeightsError, String) {
    let error = weights::load(&mut small().init(&Device::flex()), path).unwrap_err();
    let text = error.to_string();
    assert!(!text.contains('\n'), "{text}");
    assert!(text.contains(path.to_str().unwrap()), "{text}");
    (error, text)
}

#[test]
fn a_missing_tensor_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let (_, path) = saved(&folder);
    rewrite(&path, |key| {
        (key != "features.norm5.running_var").then(|| key.to_string())
    });
    let (_, text) = failure(&path);
    assert!(
        text.contains("1 missing (first: features.norm5.running_var)"),
        "{text}"
    );
}

#[test]
fn an_unexpected_tensor_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let (_, path) = saved(&folder);
    rewrite(&path, |key| Some(key.replace("classifier.", "head.")));
    let (error, text) = failure(&path);
    assert!(text.contains("2 unexpected (first: head.bias)"), "{text}");
    let WeightsError::Mismatch { missing, .. } = error else {
        unreachable!("{text}")
    };
    assert_eq!(missing, ["classifier.bias", "classifier.weight"]);
}

#[test]
fn another_shape_is_refused_with_both() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let model = small().with_outputs(3).init(&Device::flex());
    weights::save(&model, &metadata(), &path).unwrap();
    let (_, text) = failure(&path);
    assert!(text.contains("2 that do not fit"), "{text}");
    assert!(text.contains("classifier."), "{text}");
}

/// The file at `path` with other bytes for the bias of the classifier.
fn with_bias(path: &Path, dtype: Dtype, bias: &[u8]) {
    let bytes = std::fs::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let tensors = file.tensors().into_iter().map(|(key, tensor)| {
        if key == "classifier.bias" {
            let bias = TensorView::new(dtype, vec![2], bias).unwrap();
            (key, bias)
        } else {
            (key, tensor)
        }
    });
    std::fs::write(path, safetensors::serialize(tensors, None).unwrap()).unwrap();
}

#[test]
fn integers_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let (_, path) = saved(&folder);
    with_bias(&path, Dtype::I32, &[0; 8]);
    let (_, text) = failure(&path);
    assert!(
        text.contains("classifier.bias: I32 in the file, which is no type of weights"),
        "{text}"
    );
}

#[test]
fn values_that_are_not_finite_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let (_, path) = saved(&folder);
    let bias = [1.0f32, f32::NAN].map(f32::to_le_bytes).concat();
    with_bias(&path, Dtype::F32, &bias);
    let (_, text) = failure(&path);
    assert!(
        text.contains("classifier.bias: it holds values that are not finite"),
        "{text}"
    );
}

/// All or nothing: what does not fit leaves the model as it was.
#[test]
fn a_model_that_refuses_weights_keeps_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let (_, path) = saved(&folder);
    rewrite(&path, |key| {
        (key != "features.norm5.running_var").then(|| key.to_string())
    });
    let mut other = small().init(&Device::flex());
    let values = |model: &DenseNet| model.features.conv0.weight.val().into_data();
    let before = values(&other);
    weights::load(&mut other, &path).unwrap_err();
    assert_eq!(values(&other), before);
}

#[cfg(unix)]
#[test]
fn others_may_read_the_weights() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (_, path) = saved(&folder);
    let beside = folder.path().join("beside");
    std::fs::write(&beside, "").unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&path), mode(&beside));
}

#[test]
fn pytorchs_batch_counters_are_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let (model, path) = saved(&folder);
    let bytes = std::fs::read(&path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let mut tensors = file.tensors();
    let counter = file.tensor("features.norm0.weight").unwrap();
    tensors.push(("features.norm0.num_batches_tracked".to_string(), counter));
    std::fs::write(&path, safetensors::serialize(tensors, None).unwrap()).unwrap();
    let mut other = small().init(&Device::flex());
    weights::load(&mut other, &path).unwrap();
    let weight = |model: &DenseNet| model.classifier.weight.val().into_data();
    assert_eq!(weight(&other), weight(&model));
}

#[test]
fn what_is_no_safetensors_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (_, whole) = saved(&folder);
    let bytes = std::fs::read(&whole).unwrap();
    let path = folder.path().join("broken.safetensors");
    let mut huge = bytes.clone();
    huge[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    for (content, part) in [
        (&b""[..], "it is empty"),
        (b"PK\x03\x04", "no header"),
        (b"not a safetensors file at all", "header claims"),
        (&huge, "header claims"),
        (&bytes[..bytes.len() / 2], "as safetensors"),
        (&bytes[..100], "header claims"),
    ] {
        std::fs::write(&path, content).unwrap();
        let (_, text) = failure(&path);
        assert!(text.contains(part), "{text}");
    }
    let (_, text) = failure(&folder.path().join("nowhere.safetensors"));
    assert!(text.contains("cannot read weights"), "{text}");
    let (_, text) = failure(folder.path());
    assert!(
        text.contains("cannot read weights") || text.contains("no header"),
        "{text}"
    );
}

#[test]
fn metadata_that_is_not_there_or_makes_no_sense_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (_, path) = saved(&folder);
    let mut broken = metadata();
    broken.preprocessing.deviation.clear();
    weights::save(&small().init(&Device::flex()), &broken, &path).unwrap();
    let text = Metadata::read(&path).unwrap_err().to_string();
    assert!(text.contains("mean and deviation"), "{text}");
    rewrite(&path, |key| Some(key.to_string()));
    let text = Metadata::read(&path).unwrap_err().to_string();
    assert!(text.contains("it has none"), "{text}");
}

#[test]
fn the_same_weights_give_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (model, path) = saved(&folder);
    let first = std::fs::read(&path).unwrap();
    weights::save(&model, &metadata(), &path).unwrap();
    assert!(first == std::fs::read(&path).unwrap());
}

#[test]
fn weights_that_cannot_be_written_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("no/such/folder/model.safetensors");
    let model = small().init(&Device::flex());
    let text = weights::save(&model, &metadata(), &path)
        .unwrap_err()
        .to_string();
    assert!(text.contains("cannot write weights"), "{text}");
    assert!(!text.contains('\n'), "{text}");
}
