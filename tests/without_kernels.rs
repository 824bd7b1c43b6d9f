//! A backend that has no kernels takes Burn's operations, and computes the same.
#![allow(missing_docs, clippy::unwrap_used)]

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, Distribution, Tensor};
use burn_chexnet::model::{Classifier, DenseNet, DenseNetConfig};

/// The mean of squares of the features, and its gradient for each value of the images.
fn pass(model: &DenseNet, images: Tensor<4>) -> Vec<f64> {
    let images = images.require_grad();
    let loss = model.features(images.clone()).powi_scalar(2).mean();
    let gradients = loss.backward();
    let of_images = images.grad(&gradients).unwrap().into_data();
    let loss = loss.into_data();
    loss.iter::<f64>().chain(of_images.iter::<f64>()).collect()
}

/// Draws the weights now: else they are drawn when they are first looked at, in whatever order.
struct Draw;

impl ModuleMapper for Draw {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|tensor| tensor)
    }
}

#[test]
fn ndarray_computes_what_the_kernels_do() {
    let flex = Device::flex().autodiff();
    #[allow(deprecated)]
    let ndarray = Device::ndarray().autodiff();
    let config = DenseNetConfig {
        growth_rate: 5,
        blocks: vec![2, 3, 1],
        initial_channels: 7,
        bottleneck: 3,
        ..DenseNetConfig::densenet121()
    };
    // Two of them, since clones share their running statistics.
    let [model, other] = [(); 2].map(|()| {
        flex.seed(5);
        config.init(&flex).map(&mut Draw)
    });
    let moved = other.fork(&ndarray);
    let images = Tensor::<4>::random([2, 3, 32, 40], Distribution::Default, &flex);
    let data = images.to_data();
    let expected = pass(&model, images);
    let found = pass(&moved, Tensor::from_data(data, &ndarray));
    let norm = |values: &[f64]| values.iter().map(|v| v * v).sum::<f64>().sqrt();
    let apart: Vec<f64> = found.iter().zip(&expected).map(|(f, e)| f - e).collect();
    assert!(
        (found[0] - expected[0]).abs() < 1e-5 * expected[0],
        "{found:?}"
    );
    // Batch statistics make gradients ill-conditioned: what is wrong shows, rounding does not.
    let apart = norm(&apart[1..]) / norm(&expected[1..]);
    assert!(apart < 1e-2, "{apart:e}");
}
