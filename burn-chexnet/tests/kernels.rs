//! The networks with kernels against the same with Burn's operations, in 32 and in 64 bit.
#![allow(clippy::unwrap_used)]

use std::sync::{Mutex, MutexGuard, PoisonError};

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::nn::PaddingConfig2d;
use burn::nn::conv::Conv2dConfig;
use burn::tensor::{DType, Device, Distribution, Gradients, Tensor, TensorData};
use burn_chexnet::kernels::{Pool, plain, release_memory};
use burn_chexnet::model::{Classifier, DenseNet, DenseNetConfig, ResNetConfig};
use burn_chexnet::norm::BatchNorm;

/// A DenseNet with everything in it, and numbers of channels that fill no vector.
fn small(in_channels: usize) -> DenseNetConfig {
    DenseNetConfig {
        growth_rate: 5,
        blocks: vec![2, 3, 1],
        initial_channels: 7,
        bottleneck: 3,
        ..DenseNetConfig::densenet121()
    }
    .with_in_channels(in_channels)
    .with_outputs(3)
}

/// Makes 64 bit of 32, which no kernel takes.
struct Widen;

impl ModuleMapper for Widen {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|tensor| leaf(&tensor, tensor.to_data().convert_dtype(DType::F64)))
    }
}

/// Lets weights be other than at the start: norms with factors around one, shifts around zero.
struct Disturb;

impl ModuleMapper for Disturb {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|tensor| {
            let device = tensor.device().inner();
            let noise =
                Tensor::<D>::random(tensor.shape(), Distribution::Normal(0.0, 0.05), &device);
            let moved = Tensor::<D>::from_data(tensor.to_data(), &device) + noise;
            leaf(&tensor, moved.into_data())
        })
    }
}

/// `data` where `tensor` is, tracked as that.
fn leaf<const D: usize>(tensor: &Tensor<D>, data: TensorData) -> Tensor<D> {
    let dtype = data.dtype();
    let new = Tensor::from_data(data, (&tensor.device(), dtype));
    new.set_require_grad(tensor.is_require_grad())
}

/// The gradients of all weights, by name.
struct Collect<'a> {
    gradients: &'a Gradients,
    path: Vec<String>,
    found: Vec<(String, Vec<f64>)>,
}

impl ModuleVisitor for Collect<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = param.val().grad(self.gradients) {
            self.found.push((self.path.join("."), values(gradient)));
        }
    }

    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

/// Relative distance of vectors.
fn distance(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let apart = norm(&mut found.iter().zip(expected).map(|(f, e)| f - e));
    apart / norm(&mut expected.iter().copied()).max(1e-12)
}

/// Features, and the gradients of the images and of all weights, of one pass.
fn pass<M: Classifier>(model: &M, images: &Tensor<4>) -> Vec<(String, Vec<f64>)> {
    let images = images.clone().detach().require_grad();
    let features = model.features(images.clone());
    // Neither symmetric nor linear, so that no gradient cancels.
    let corner = features.clone().narrow(1, 0, 1).mean();
    let loss = features.clone().powi_scalar(2).mean() + corner;
    let gradients = loss.backward();
    let mut collect = Collect {
        gradients: &gradients,
        path: Vec::new(),
        found: vec![("features".to_string(), values(features))],
    };
    model.visit(&mut collect);
    let of_images = images.grad(&gradients).unwrap();
    collect
        .found
        .push(("images".to_string(), values(of_images)));
    collect.found
}

/// What a network gives with kernels lies as near to 64 bit as what it gives without: networks with batch
/// statistics are ill-conditioned, so no fixed tolerance would tell an error from rounding.
///
/// (Each pass has a model of its own: clones share their running statistics.)
fn assert_near<M: Classifier>(model: impl Fn() -> M, images: &Tensor<4>, what: &str) {
    let wide = images.clone().cast(DType::F64);
    let expected = pass(&model().map(&mut Widen), &wide);
    let found = pass(&model(), images);
    let without = plain(|| pass(&model(), images));
    assert_eq!(found.len(), expected.len(), "{what}");
    for ((found, without), expected) in found.iter().zip(&without).zip(&expected) {
        assert_eq!(found.0, expected.0);
        let [ours, burns] = [found, without].map(|f| distance(&f.1, &expected.1));
        assert!(
            ours < 3.0 * burns + 2e-5,
            "{what}: {} {ours:e} {burns:e}",
            found.0
        );
    }
}

/// There is one generator in a process, and tests run side by side.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn images(shape: [usize; 4], device: &Device) -> Tensor<4> {
    let _alone = alone();
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), device)
}

/// The same model each time. (Weights are drawn when they are first looked at: `map` looks at all.)
fn alike<M: Module>(device: &Device, build: impl Fn() -> M) -> M {
    let _alone = alone();
    device.seed(7);
    build().map(&mut Disturb)
}

fn disturbed(config: &DenseNetConfig, device: &Device) -> DenseNet {
    alike(device, || config.init(device))
}

#[test]
fn densenets_are_burns_at_all_sizes() {
    let devices = [
        ("", Device::flex().autodiff()),
        (
            "checkpointing",
            Device::flex().autodiff().gradient_checkpointing(),
        ),
    ];
    for (name, device) in devices {
        for (channels, shape) in [
            (1, [1, 1, 32, 32]),
            (3, [2, 3, 33, 47]),
            (3, [5, 3, 64, 32]),
            (1, [3, 1, 57, 71]),
        ] {
            let model = || disturbed(&small(channels), &device);
            let images = images(shape, &device);
            assert_near(model, &images, &format!("{name} {shape:?}"));
        }
    }
}

#[test]
fn frozen_norms_use_what_they_learnt() {
    let device = Device::flex().autodiff();
    let images = images([2, 3, 40, 33], &device);
    let some = || {
        let mut model = disturbed(&small(3), &device);
        let layer = &mut model.features.denseblocks[1].layers[1];
        layer.norm1 = layer.norm1.clone().freeze();
        let layer = &mut model.features.denseblocks[0].layers[0];
        layer.norm2 = layer.norm2.clone().freeze();
        model.features.norm0 = model.features.norm0.clone().freeze();
        model
    };
    assert_near(some, &images, "some");
    let whole = || disturbed(&small(3), &device).freeze();
    assert_near(whole, &images, "all");
    let found = pass(&whole(), &images);
    assert_eq!(found.len(), 2, "frozen weights have no gradients");
}

#[test]
fn evaluation_is_burns() {
    let device = Device::flex();
    for config in [small(3), DenseNetConfig::densenet121()] {
        let [model, wide] = [(), ()].map(|()| disturbed(&config, &device));
        let wide = wide.map(&mut Widen);
        for shape in [[1, 3, 64, 64], [3, 3, 50, 77]] {
            let images = images(shape, &device);
            let expected = values(wide.logits(images.clone().cast(DType::F64)));
            let apart = distance(&values(model.logits(images)), &expected);
            assert!(apart < 1e-5, "{shape:?}: {apart:e}");
        }
    }
}

/// Kernels keep weights in another order for inference: not longer than they are those of the model.
#[test]
fn inference_follows_weights_that_change() {
    struct Double;
    impl ModuleMapper for Double {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            param.map(|weights| weights.mul_scalar(2.0))
        }
    }
    let device = Device::flex();
    let images = images([1, 3, 40, 33], &device);
    let mut model = disturbed(&small(3), &device);
    for times in 0..3 {
        let found = values(model.logits(images.clone()));
        let again = values(model.clone().logits(images.clone()));
        assert_eq!(found, again, "doubled {times} times");
        let expected = values(plain(|| model.logits(images.clone())));
        let apart = distance(&found, &expected);
        assert!(apart < 1e-5, "doubled {times} times: {apart:e}");
        if times == 1 {
            release_memory();
        }
        model = model.map(&mut Double);
    }
}

#[test]
fn resnets_are_burns() {
    let device = Device::flex().autodiff();
    let config = ResNetConfig {
        stages: [1, 2, 1, 1],
        ..ResNetConfig::resnet50()
    };
    let model = || alike(&device, || config.init(&device));
    assert_near(model, &images([2, 3, 64, 37], &device), "training");
}

#[test]
fn images_may_lie_in_any_order() {
    let device = Device::flex();
    let model = disturbed(&small(3), &device);
    let images = images([2, 3, 40, 32], &device);
    let expected = values(model.logits(images.clone()));
    let turned = images.clone().swap_dims(2, 3).into_data();
    let turned = Tensor::<4>::from_data(turned, &device).swap_dims(2, 3);
    let last = images.permute([0, 2, 3, 1]).into_data();
    let last = Tensor::<4>::from_data(last, &device).permute([0, 3, 1, 2]);
    for same in [turned, last] {
        assert_eq!(values(model.logits(same)), expected);
    }
}

#[test]
fn running_statistics_are_burns() {
    let device = Device::flex().autodiff();
    let [with, without] = [(), ()].map(|()| disturbed(&small(3), &device));
    let images = images([2, 3, 40, 32], &device);
    with.features(images.clone());
    plain(|| without.features(images));
    let statistics = |model: &DenseNet| {
        let norms = model.features.denseblocks.iter().flat_map(|block| {
            block
                .layers
                .iter()
                .flat_map(|layer| [&layer.norm1, &layer.norm2])
        });
        let all = norms.chain([&model.features.norm0, &model.features.norm5]);
        let of = |norm: &BatchNorm| {
            let states = [&norm.running_mean, &norm.running_var];
            states.map(|state| values(state.value_sync())).concat()
        };
        all.flat_map(of).collect::<Vec<_>>()
    };
    let apart = distance(&statistics(&with), &statistics(&without));
    assert!(apart < 1e-6, "{apart:e}");
}

#[test]
fn a_norm_alone_is_burns_with_each_pool() {
    for device in [Device::flex(), Device::flex().autodiff()] {
        let norm = alike(&device, || BatchNorm::new(5, &device));
        let input = images([3, 5, 7, 6], &device);
        for pool in [Pool::None, Pool::Mean, Pool::Maximum] {
            let found = values(norm.forward_relu(input.clone(), pool));
            let expected = values(plain(|| norm.forward_relu(input.clone(), pool)));
            assert!(distance(&found, &expected) < 1e-5, "{pool:?}");
        }
        let expected = values(plain(|| norm.forward(input.clone())));
        assert!(distance(&values(norm.forward(input)), &expected) < 1e-5);
    }
}

/// The fields of the layers are public: what is put there is computed as it is.
#[test]
fn layers_that_the_kernels_do_not_know_are_burns() {
    let device = Device::flex().autodiff();
    let images = images([2, 3, 40, 33], &device);
    let convolution = |channels: [usize; 2], kernel: usize, bias: bool| {
        let border = kernel / 2;
        Conv2dConfig::new(channels, [kernel; 2])
            .with_padding(PaddingConfig2d::Explicit(border, border, border, border))
            .with_bias(bias)
            .init(&device)
    };
    for (is_second, channels, kernel, bias) in [
        (false, [7, 15], 1, true),
        (false, [7, 15], 3, false),
        (true, [15, 5], 5, false),
        (true, [15, 5], 3, true),
    ] {
        let model = || {
            alike(&device, || {
                let mut model = small(3).init(&device);
                let layer = &mut model.features.denseblocks[0].layers[0];
                let replaced = if is_second {
                    &mut layer.conv2
                } else {
                    &mut layer.conv1
                };
                *replaced = convolution(channels, kernel, bias);
                model
            })
        };
        assert_near(model, &images, &format!("{channels:?} {kernel} {bias}"));
    }
}

#[test]
#[should_panic(expected = "other channels")]
fn a_norm_over_other_channels_panics() {
    let device = Device::flex();
    BatchNorm::new(4, &device).forward(images([1, 5, 2, 2], &device));
}

/// The same configuration gives the same weights on any machine with these instructions.
#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let device = Device::flex().autodiff();
    let images = images([3, 3, 64, 48], &device);
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let model = disturbed(&small(3), &device);
        pool.build().unwrap().install(|| pass(&model, &images))
    };
    let one = with(1);
    for threads in [2, 3, 8] {
        assert!(with(threads) == one, "{threads} threads");
    }
}
