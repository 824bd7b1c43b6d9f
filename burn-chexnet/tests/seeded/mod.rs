//! Values that PyTorch's side makes too, from the name of a tensor alone: `tests/reference/seeded.py`
//! has the same formula, so only what PyTorch computes from them has to be kept.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use burn::tensor::{Device, Tensor, TensorData};
use burn_chexnet::model::Classifier;
use burn_chexnet::{Preprocessing, weights};
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensors, serialize};

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// From 0 to 1: FNV-1a of the name and `seed`, then SplitMix64.
fn uniform(name: &str, seed: u64) -> impl Iterator<Item = f64> {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let start = hash ^ seed.wrapping_mul(GOLDEN);
    (1u64..).map(move |i| {
        let z = start.wrapping_add(i.wrapping_mul(GOLDEN));
        let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 40) as f64 / f64::from(1 << 24)
    })
}

fn between(name: &str, seed: u64, count: usize, low: f64, high: f64) -> Vec<f32> {
    let values = uniform(name, seed).take(count);
    values.map(|u| (low + (high - low) * u) as f32).collect()
}

/// The tensor that torchvision calls `name`.
pub fn tensor(name: &str, shape: &[usize], seed: u64) -> Vec<f32> {
    let is = |end: &str| name.ends_with(end);
    let (low, high) = match shape {
        [_, i, h, w] => {
            let bound = (6.0 / (i * h * w) as f64).sqrt();
            (-bound, bound)
        }
        [_, i] => {
            let bound = 1.0 / (*i as f64).sqrt();
            (-bound, bound)
        }
        _ if is("running_var") || is(".weight") => (0.5, 1.5),
        _ if name == "classifier.bias" || name == "fc.bias" => (-0.1, 0.1),
        _ => (-0.2, 0.2),
    };
    between(name, seed, shape.iter().product(), low, high)
}

/// Images called `name`, from -2 to 2.
pub fn images(name: &str, shape: [usize; 4], seed: u64, device: &Device) -> Tensor<4> {
    let values = between(name, seed, shape.iter().product(), -2.0, 2.0);
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// Targets called `name`: three in ten are 1.
pub fn targets(name: &str, shape: [usize; 2], seed: u64, device: &Device) -> Tensor<2> {
    let values = uniform(name, seed).take(shape[0] * shape[1]);
    let values: Vec<f32> = values.map(|u| f32::from(u8::from(u >= 0.7))).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// Writes the weights of `model` into `folder`.
pub fn save<C: Classifier>(model: &C, folder: &Path) -> PathBuf {
    let path = folder.join("saved.safetensors");
    let metadata = weights::Metadata {
        architecture: Default::default(),
        labels: Vec::new(),
        preprocessing: Preprocessing::imagenet(224, 3).unwrap(),
        norm_epsilon: 1e-5,
        split: None,
        metrics: Default::default(),
    };
    weights::save(model, &metadata, &path).unwrap();
    path
}

/// The names and shapes of the tensors of `model`.
pub fn shapes<C: Classifier>(model: &C, folder: &Path) -> BTreeMap<String, Vec<usize>> {
    let path = save(model, folder);
    let bytes = std::fs::read(&path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let tensors = file.tensors().into_iter();
    tensors
        .map(|(name, tensor)| (name, tensor.shape().to_vec()))
        .collect()
}

/// Writes the tensors of `seed` with these shapes to `path`.
pub fn write(path: &Path, shapes: &BTreeMap<String, Vec<usize>>, seed: u64) {
    let tensors: Vec<(&String, Vec<u8>)> = shapes
        .iter()
        .map(|(name, shape)| {
            let values = tensor(name, shape, seed).into_iter();
            (name, values.flat_map(f32::to_le_bytes).collect())
        })
        .collect();
    let views = tensors.iter().map(|(name, bytes)| {
        let view = TensorView::new(Dtype::F32, shapes[*name].clone(), bytes).unwrap();
        (name.as_str(), view)
    });
    std::fs::write(path, serialize(views, None).unwrap()).unwrap();
}

/// `model` with the tensors of `seed`, by way of a file.
pub fn fill<C: Classifier>(mut model: C, seed: u64, folder: &Path) -> C {
    let path = folder.join("seeded.safetensors");
    write(&path, &shapes(&model, folder), seed);
    weights::load(&mut model, &path).unwrap();
    model
}
