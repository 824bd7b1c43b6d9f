//! The networks against PyTorch, number by number: logits, loss, gradients, running statistics and a
//! course of training, all from the same weights and images.
//!
//! `tests/reference/parity.py` computes the references in float64. A sample of them is in
//! `tests/data/pytorch`; where `CHEXNET_REFERENCE` names a folder with all, all are compared.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod seeded;

use std::collections::BTreeMap;
use std::path::PathBuf;

use burn::module::{ModuleVisitor, Param};
use burn::optim::{AdamConfig, GradientsParams, SgdConfig};
use burn::tensor::{Device, Tensor};
use burn_chexnet::loss::{BinaryCrossEntropy, Reduction};
use burn_chexnet::model::{Architecture, Classifier, DenseNetConfig, ResNetConfig};
use safetensors::SafeTensors;
use safetensors::tensor::Dtype;

/// One of PyTorch's references, by the names of its tensors.
struct Reference(BTreeMap<String, Vec<f64>>);

impl Reference {
    fn open(name: &str) -> Self {
        let committed = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/pytorch");
        let folder = std::env::var_os("CHEXNET_REFERENCE");
        let folder = folder.map_or(PathBuf::from(committed), PathBuf::from);
        let bytes = std::fs::read(folder.join(format!("{name}.safetensors"))).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let tensors = file.tensors().into_iter().map(|(name, tensor)| {
            let values = match tensor.dtype() {
                Dtype::F64 => tensor
                    .data()
                    .chunks_exact(8)
                    .map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap()))
                    .collect(),
                Dtype::F32 => tensor
                    .data()
                    .chunks_exact(4)
                    .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()).into())
                    .collect(),
                other => unreachable!("{name}: {other:?}"),
            };
            (name, values)
        });
        Self(tensors.collect())
    }

    fn get(&self, name: &str) -> &[f64] {
        &self.0[name]
    }

    /// The names behind `prefix`.
    fn behind<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a [f64])> {
        let all = self.0.iter();
        all.filter_map(move |(name, values)| Some((name.strip_prefix(prefix)?, &values[..])))
    }
}

/// The elements of `values` that a reference of `count` holds: all, or an even sample.
fn sampled(values: &[f64], count: usize) -> Vec<f64> {
    let index = |j: usize| j * values.len() / count;
    (0..count).map(|j| values[index(j)]).collect()
}

fn greatest(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, |most, value| {
        assert!(value.is_finite());
        most.max(value.abs())
    })
}

/// max|a − b| / max|b|.
fn relative(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let pairs = found.iter().zip(expected);
    greatest(pairs.map(|(a, b)| a - b)) / greatest(expected.iter().copied())
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    let values = tensor.into_data().try_to_vec::<f32>().unwrap();
    values.into_iter().map(f64::from).collect()
}

fn logits_are_pytorchs<C: Classifier>(model: C, architecture: Architecture) {
    let folder = tempfile::tempdir().unwrap();
    let device = Device::flex();
    let model = seeded::fill(model, 1, folder.path());
    let expected = Reference::open(&format!("logits_{architecture}"));
    let expected = expected.get("logits");
    let images = seeded::images("images", [4, 3, 224, 224], 1, &device);
    let four = values(model.logits(images.clone()));
    let one = values(model.logits(images.narrow(0, 0, 1)));
    // In evaluation an image knows nothing of the others.
    for (batch, found) in [(4, four), (1, one)] {
        let difference = relative(&found, &expected[..found.len()]);
        println!("{architecture}, batch {batch}: max|a−b| / max|b| {difference:.1e}");
        assert!(difference <= 1e-4, "{architecture}: {difference}");
    }
}

#[test]
fn logits_of_densenets_are_pytorchs() {
    for architecture in Architecture::ALL {
        if let Some(config) = architecture.densenet() {
            logits_are_pytorchs(config.init(&Device::flex()), architecture);
        }
    }
}

#[test]
fn logits_of_resnet50_are_pytorchs() {
    let model = ResNetConfig::resnet50().init(&Device::flex());
    logits_are_pytorchs(model, Architecture::ResNet50);
}

/// Gradients, or what else is behind a parameter, by torchvision's names and in its layout.
struct Named<'a, C> {
    path: Vec<String>,
    gradients: &'a GradientsParams,
    found: BTreeMap<String, Vec<f64>>,
    classifier: std::marker::PhantomData<C>,
}

impl<C: Classifier> ModuleVisitor for Named<'_, C> {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.get::<D>(param.id) {
            let name = C::torchvision_key(&self.path.join("."));
            let gradient = match D {
                // Burn has [inputs, outputs].
                2 => gradient.swap_dims(0, 1),
                _ => gradient,
            };
            self.found.insert(name, values(gradient));
        }
    }
}

fn named<C: Classifier>(model: &C, gradients: &GradientsParams) -> BTreeMap<String, Vec<f64>> {
    let mut visitor = Named::<C> {
        path: Vec::new(),
        gradients,
        found: BTreeMap::new(),
        classifier: std::marker::PhantomData,
    };
    model.visit(&mut visitor);
    visitor.found
}

/// Relative L2 distances from float64: of all gradients, and of the worst tensor.
#[derive(Default)]
struct Distance {
    difference: f64,
    size: f64,
    worst: (f64, String),
}

impl Distance {
    fn add(&mut self, name: &str, found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len(), "{name}");
        let pairs = found.iter().zip(expected);
        let difference: f64 = pairs.map(|(a, b)| (a - b).powi(2)).sum();
        let size: f64 = expected.iter().map(|b| b.powi(2)).sum();
        self.difference += difference;
        self.size += size;
        let own = (difference / size).sqrt();
        if own > self.worst.0 {
            self.worst = (own, name.to_string());
        }
    }

    fn global(&self) -> f64 {
        (self.difference / self.size).sqrt()
    }
}

/// One step from the images and targets of `name`: our distance from float64, and PyTorch's own in
/// float32.
fn gradient_distances<C: Classifier>(
    model: C,
    seed: u64,
    shape: [usize; 4],
    outputs: usize,
    [images, targets]: [&str; 2],
    reference: &Reference,
) -> [Distance; 2] {
    let folder = tempfile::tempdir().unwrap();
    let device = Device::flex().autodiff();
    let model = seeded::fill(model, seed, folder.path());
    let images = seeded::images(images, shape, seed, &device);
    let targets = seeded::targets(targets, [shape[0], outputs], seed, &device);
    let loss = BinaryCrossEntropy::new(Reduction::SumOverLabels);
    let loss = loss.forward(model.logits(images), targets, None);
    let gradients = GradientsParams::from_grads(loss.backward(), &model);
    let difference = relative(&values(loss), reference.get("loss"));
    println!("loss: {difference:.1e} relative");
    assert!(difference <= 1e-6, "{difference}");

    let found = named(&model, &gradients);
    let mut distances = [Distance::default(), Distance::default()];
    let mut tensors = 0;
    for (name, expected) in reference.behind("gradient.") {
        distances[0].add(name, &sampled(&found[name], expected.len()), expected);
        distances[1].add(name, reference.get(&format!("float32.{name}")), expected);
        tensors += 1;
    }
    assert_eq!(tensors, found.len());
    for (distance, who) in distances.iter().zip(["this", "PyTorch in float32"]) {
        println!(
            "{who} from float64 over {tensors} gradients: {:.2e}, worst {:.2e} ({})",
            distance.global(),
            distance.worst.0,
            distance.worst.1
        );
    }
    distances
}

/// With random weights the network is ill-conditioned, so the measure is how far PyTorch itself is
/// from its own float64.
#[test]
fn gradients_of_densenet121_are_as_close_to_float64_as_pytorchs() {
    let reference = Reference::open("training_densenet121");
    let model = DenseNetConfig::densenet121().init(&Device::flex().autodiff());
    let names = ["images", "targets"];
    let [own, pytorch] = gradient_distances(model, 1, [4, 3, 224, 224], 14, names, &reference);
    assert!(own.global() <= 2.5 * pytorch.global());
    assert!(own.worst.0 <= 0.05, "{:?}", own.worst);
}

/// Well-conditioned: here gradients can be held to rounding.
fn small() -> DenseNetConfig {
    DenseNetConfig {
        growth_rate: 8,
        blocks: vec![2, 2],
        initial_channels: 16,
        bottleneck: 2,
        outputs: 3,
        ..DenseNetConfig::densenet121()
    }
}

#[test]
fn gradients_of_a_small_densenet_are_pytorchs() {
    let model = small().init(&Device::flex().autodiff());
    let reference = Reference::open("small");
    let names = ["small", "small_targets"];
    let [own, _] = gradient_distances(model, 2, [8, 3, 32, 32], 3, names, &reference);
    assert!(own.global() <= 1e-4);
    assert!(own.worst.0 <= 1e-3, "{:?}", own.worst);
}

/// Twenty steps of Adam on one batch.
fn course_of_training<C: Classifier>(
    name: &str,
    mut model: C,
    images: Tensor<4>,
    targets: Tensor<2>,
    tolerance: f64,
) {
    let reference = Reference::open(name);
    let loss = BinaryCrossEntropy::new(Reduction::SumOverLabels);
    let rate = reference.get("learning_rate")[0];
    let mut optimizer = AdamConfig::new().with_epsilon(1e-8).init();
    let mut worst = 0.0;
    for (step, expected) in (1..).zip(reference.get("losses")) {
        let loss = loss.forward(model.logits(images.clone()), targets.clone(), None);
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        let difference = (values(loss)[0] / expected - 1.0).abs();
        assert!(difference <= tolerance, "{name}, step {step}: {difference}");
        worst = f64::max(worst, difference);
        model = optimizer.step(rate, model, gradients);
    }
    println!("{name}: losses within {worst:.1e} of PyTorch's in float64");
}

#[test]
fn the_loss_of_densenet121_falls_as_pytorchs() {
    let folder = tempfile::tempdir().unwrap();
    let device = Device::flex().autodiff();
    let model = DenseNetConfig::densenet121().init(&device);
    let model = seeded::fill(model, 1, folder.path());
    let images = seeded::images("curve", [8, 3, 64, 64], 1, &device);
    let targets = seeded::targets("curve_targets", [8, 14], 1, &device);
    course_of_training("curve_densenet121", model, images, targets, 1e-3);
}

#[test]
fn the_loss_of_a_small_densenet_falls_as_pytorchs() {
    let folder = tempfile::tempdir().unwrap();
    let device = Device::flex().autodiff();
    let model = seeded::fill(small().init(&device), 2, folder.path());
    let images = seeded::images("small", [8, 3, 32, 32], 2, &device);
    let targets = seeded::targets("small_targets", [8, 3], 2, &device);
    course_of_training("curve_small", model, images, targets, 1e-5);
}

/// Three steps of gradient descent on three batches.
#[test]
fn running_statistics_after_three_steps_are_pytorchs() {
    let reference = Reference::open("statistics_densenet121");
    let folder = tempfile::tempdir().unwrap();
    let device = Device::flex().autodiff();
    let model = DenseNetConfig::densenet121().init(&device);
    let mut model = seeded::fill(model, 1, folder.path());
    let loss = BinaryCrossEntropy::new(Reduction::SumOverLabels);
    let mut optimizer = SgdConfig::new().init();
    for step in 1..=3 {
        let images = format!("images of step {step}");
        let images = seeded::images(&images, [8, 3, 64, 64], 1, &device);
        let targets = format!("targets of step {step}");
        let targets = seeded::targets(&targets, [8, 14], 1, &device);
        let loss = loss.forward(model.logits(images), targets, None);
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = optimizer.step(reference.get("learning_rate")[0], model, gradients);
    }
    let bytes = std::fs::read(seeded::save(&model, folder.path())).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let mut worst = (0.0, "");
    let mut tensors = 0;
    for (name, expected) in reference.behind("running.") {
        let data = file.tensor(name).unwrap();
        let found = data.data().chunks_exact(4);
        let found: Vec<f64> = found
            .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()).into())
            .collect();
        let difference = relative(&sampled(&found, expected.len()), expected);
        if difference > worst.0 {
            worst = (difference, name);
        }
        tensors += 1;
    }
    println!(
        "{tensors} running statistics: worst {:.1e} ({})",
        worst.0, worst.1
    );
    assert_eq!(tensors, 2 * 121);
    assert!(worst.0 <= 1e-5, "{worst:?}");
}
