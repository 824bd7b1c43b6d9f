//! The networks against torchvision's published structure.
#![allow(clippy::unwrap_used)]

use burn::tensor::{Device, Distribution, Tensor, Tolerance};
use burn_chexnet::explain::class_activation_maps;
use burn_chexnet::model::{Classifier, DenseNetConfig, ResNetConfig, parameter_count};

/// torchvision's counts with 1000 outputs, its documentation's `num_params`.
#[test]
fn parameter_counts_are_torchvisions() {
    let device = Device::flex();
    for (config, expected) in [
        (DenseNetConfig::densenet121(), 7_978_856),
        (DenseNetConfig::densenet161(), 28_681_000),
        (DenseNetConfig::densenet169(), 14_149_480),
        (DenseNetConfig::densenet201(), 20_013_928),
    ] {
        let model = config.with_outputs(1000).init(&device);
        assert_eq!(parameter_count(&model), expected);
    }
    let resnet = ResNetConfig::resnet50().with_outputs(1000).init(&device);
    assert_eq!(parameter_count(&resnet), 25_557_032);
}

/// TorchXRayVision's DenseNet-121 has one input channel and 18 outputs.
#[test]
fn channels_and_outputs_can_be_chosen() {
    let device = Device::flex();
    let model = DenseNetConfig::densenet121()
        .with_in_channels(1)
        .with_outputs(18)
        .init(&device);
    assert_eq!(parameter_count(&model), 6_966_034);
    let logits = model.logits(Tensor::zeros([2, 1, 32, 32], &device));
    assert_eq!(logits.dims(), [2, 18]);
}

#[test]
fn feature_map_has_stride_32() {
    let device = Device::flex();
    let images = || Tensor::<4>::zeros([1, 3, 96, 64], &device);
    let densenet = DenseNetConfig::densenet121().init(&device);
    assert_eq!(densenet.features(images()).dims(), [1, 1024, 3, 2]);
    let resnet = ResNetConfig::resnet50().init(&device);
    assert_eq!(resnet.features(images()).dims(), [1, 2048, 3, 2]);
    assert_eq!(resnet.classifier_weights().dims(), [14, 2048]);
}

/// The mean of the class activation map plus the bias is the logit: what makes the map an
/// explanation of the logit. The logit comes from the model's own pooling and linear layer.
fn map_explains_logits<C: Classifier>(model: &C, device: &Device) {
    let images = Tensor::<4>::random([2, 3, 64, 64], Distribution::Default, device);
    let maps = class_activation_maps(model, images.clone());
    let bias = model.classifier().bias.as_ref().unwrap().val();
    let means = maps.mean_dim(3).mean_dim(2).reshape([2, 14]) + bias.unsqueeze();
    means.into_data().assert_approx_eq::<f32>(
        &model.logits(images).into_data(),
        Tolerance::rel_abs(1e-4, 1e-5),
    );
}

#[test]
fn class_activation_maps_explain_the_logits() {
    let device = Device::flex();
    map_explains_logits(&DenseNetConfig::densenet121().init(&device), &device);
    map_explains_logits(&ResNetConfig::resnet50().init(&device), &device);
}

/// He et al.: the standard deviation is √(2 / fan), fan in for DenseNet and fan out for ResNet.
/// 64 · 3 · 49 draws estimate it within 5 % with a large margin (its error is 0.7 %).
#[test]
fn first_convolutions_start_as_torchvisions() {
    let device = Device::flex();
    device.seed(1);
    let deviation = |weights: Tensor<4>| -> f64 {
        let values = weights.into_data().try_to_vec::<f32>().unwrap();
        let squares: f64 = values.iter().map(|v| f64::from(*v).powi(2)).sum();
        (squares / values.len() as f64).sqrt()
    };
    let densenet = DenseNetConfig::densenet121().init(&device);
    let expected = (2.0f64 / (3.0 * 49.0)).sqrt();
    let found = deviation(densenet.features.conv0.weight.val());
    assert!((found / expected - 1.0).abs() < 0.05, "{found} {expected}");
    let resnet = ResNetConfig::resnet50().init(&device);
    let expected = (2.0f64 / (64.0 * 49.0)).sqrt();
    let found = deviation(resnet.conv1.weight.val());
    assert!((found / expected - 1.0).abs() < 0.05, "{found} {expected}");

    let linear = densenet.classifier;
    let bound = 1.0 / 1024f32.sqrt();
    let weights = linear.weight.val().into_data().try_to_vec::<f32>().unwrap();
    assert!(weights.iter().all(|w| w.abs() <= bound));
    assert!(weights.iter().any(|w| w.abs() > 0.9 * bound));
    let bias = linear
        .bias
        .unwrap()
        .val()
        .into_data()
        .try_to_vec::<f32>()
        .unwrap();
    assert!(bias.iter().all(|b| *b == 0.0));
}
