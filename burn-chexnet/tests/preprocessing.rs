//! The input of a network, from the file of a real X-ray, against Pillow and torchvision
//! (`tests/reference/preprocessing.py`).
#![cfg(feature = "images")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;

use burn::tensor::Device;
use burn_chexnet::{GrayImage, Preprocessing};
use safetensors::SafeTensors;

#[test]
fn the_input_is_torchvisions() {
    let variable = |name: &str| match std::env::var_os(name) {
        Some(folder) => Some(PathBuf::from(folder)),
        None => {
            println!("skipped: {name} is not set");
            None
        }
    };
    let (Some(data), Some(reference)) =
        (variable("CHEXNET_TEST_DATA"), variable("CHEXNET_REFERENCE"))
    else {
        return;
    };
    let bytes = std::fs::read(reference.join("preprocessing.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let preprocessing = Preprocessing::imagenet(224, 3).unwrap();
    let (mut greatest, mut worst_mean, mut images) = (0.0f32, 0.0f64, 0);
    for (name, expected) in file.tensors() {
        let image = GrayImage::open(data.join("nih-originals").join(&name)).unwrap();
        let pixels = preprocessing.resized(&image).unwrap();
        let input = preprocessing.tensor(&pixels, &Device::flex()).unwrap();
        let found = input.into_data().try_to_vec::<f32>().unwrap();
        let expected = expected.data().chunks_exact(4);
        let expected = expected.map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
        assert_eq!(found.len(), expected.len());
        let differences: Vec<f32> = found
            .iter()
            .zip(expected)
            .map(|(a, b)| (a - b).abs())
            .collect();
        let sum: f64 = differences.iter().copied().map(f64::from).sum();
        worst_mean = worst_mean.max(sum / differences.len() as f64);
        greatest = differences
            .iter()
            .fold(greatest, |most, next| most.max(*next));
        images += 1;
    }
    println!("{images} X-rays: difference {greatest:.4} at most, {worst_mean:.1e} on average");
    assert!(images > 0);
    assert!(greatest <= 0.02, "{greatest}");
    assert!(worst_mean <= 0.002, "{worst_mean}");
}
