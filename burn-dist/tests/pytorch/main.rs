//! Optimisers and schedules against PyTorch's values for 50 steps of a toy problem in float64
//! (`golden.json`, made by `golden.py`).
//!
//! Tolerance 1e-10 on values of order 1: the two round differently in the last bits, and 50 steps of
//! a smooth problem spread 1e-16 to some 1e-14; a constant held in 32 bit would show at 1e-8.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use burn::module::{Module, Param};
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{DType, Device, Tensor, TensorData};
use burn_dist::optimizer::{Adam, Sgd, WeightDecay, clip_norm};
use burn_dist::train::{LearningRate, Plateau, Schedule, WarmUp};
use serde::Deserialize;

const STEPS: usize = 50;
const KEPT: [usize; 4] = [1, 2, 10, STEPS];
const TOLERANCE: f64 = 1e-10;

/// What PyTorch did.
#[derive(Deserialize)]
struct Golden {
    /// After each of [`KEPT`].
    parameters: Vec<Vec<f64>>,
    /// Of every step.
    rates: Vec<f64>,
}

/// Two layers with a tanh between them.
#[derive(Module, Debug)]
struct Toy {
    first: Param<Tensor<2>>,
    second: Param<Tensor<2>>,
}

fn wave(shape: [usize; 2], phase: f64, device: &Device) -> Tensor<2> {
    let values: Vec<f64> = (0..shape[0] * shape[1])
        .map(|index| (index as f64 * 0.7 + phase).sin())
        .collect();
    Tensor::from_data(TensorData::new(values, shape), (device, DType::F64))
}

fn run(
    optimizer: impl Into<ModuleOptimizer>,
    mut rate: LearningRate,
    clip: Option<f64>,
) -> (Vec<Vec<f64>>, Vec<f64>) {
    let mut optimizer = optimizer.into();
    let device = Device::flex().autodiff();
    let (inputs, targets) = (wave([8, 3], 0.1, &device), wave([8, 2], 0.5, &device));
    let mut model = Toy {
        first: Param::from_tensor(wave([3, 4], 0.2, &device)),
        second: Param::from_tensor(wave([4, 2], 0.3, &device)),
    };
    let (mut kept, mut rates) = (Vec::new(), Vec::new());
    for step in 0..STEPS {
        let hidden = inputs.clone().matmul(model.first.val()).tanh();
        let error = hidden.matmul(model.second.val()) - targets.clone();
        let loss = error.square().mean();
        let mut gradients = GradientsParams::from_grads(loss.backward(), &model);
        if let Some(largest) = clip {
            (gradients, _) = clip_norm(&model, gradients, largest).unwrap();
        }
        rates.push(rate.at(step));
        model = optimizer.step(rate.at(step), model, gradients);
        rate.observe(loss.into_scalar::<f64>(), step + 1);
        if KEPT.contains(&(step + 1)) {
            let values = |parameter: &Param<Tensor<2>>| {
                let data = parameter.val().into_data();
                assert_eq!(data.dtype(), DType::F64);
                data.iter::<f64>().collect::<Vec<_>>()
            };
            kept.push([values(&model.first), values(&model.second)].concat());
        }
    }
    (kept, rates)
}

fn largest_difference(ours: &[f64], theirs: &[f64]) -> f64 {
    assert_eq!(ours.len(), theirs.len());
    let differences = ours.iter().zip(theirs).map(|(a, b)| (a - b).abs());
    differences.fold(0.0, |most, d| if d > most || d.is_nan() { d } else { most })
}

#[test]
fn equal_pytorch_in_every_case() {
    let mut golden: BTreeMap<String, Golden> =
        serde_json::from_str(include_str!("golden.json")).unwrap();
    let adam = |weight_decay| {
        ModuleOptimizer::from(Adam {
            weight_decay,
            ..Adam::default()
        })
    };
    let sgd = |momentum, nesterov, weight_decay| {
        ModuleOptimizer::from(Sgd {
            momentum,
            nesterov,
            weight_decay,
        })
    };
    let plain = || sgd(0.0, false, 0.0);
    let constant = || LearningRate::new(0.05);
    let cosine = |steps, minimum| Schedule::Cosine { steps, minimum };
    let warm_up = WarmUp {
        steps: 5,
        start: 0.1,
    };
    let halves = Schedule::Step {
        every: 8,
        factor: 0.5,
    };
    let cases = [
        ("adam", adam(WeightDecay::Gradient(0.0)), constant(), None),
        (
            "adam, decay",
            adam(WeightDecay::Gradient(0.01)),
            constant(),
            None,
        ),
        (
            "adamw",
            adam(WeightDecay::Decoupled(0.01)),
            constant(),
            None,
        ),
        ("sgd", plain(), constant(), None),
        ("sgd, momentum", sgd(0.9, false, 0.0), constant(), None),
        (
            "sgd, nesterov, decay",
            sgd(0.9, true, 0.01),
            constant(),
            None,
        ),
        ("sgd, clipped", sgd(0.9, false, 0.0), constant(), Some(0.1)),
        (
            "cosine",
            plain(),
            constant().schedule(cosine(STEPS, 0.001)),
            None,
        ),
        ("step", plain(), constant().schedule(halves), None),
        (
            "warm-up, cosine",
            plain(),
            constant().warm_up(warm_up).schedule(cosine(45, 0.0)),
            None,
        ),
        (
            "plateau",
            sgd(0.95, false, 0.0),
            LearningRate::new(0.6).schedule(Schedule::Plateau(Plateau::new(0.5, 2))),
            None,
        ),
    ];
    for (name, optimizer, rate, clip) in cases {
        let theirs = golden.remove(name).unwrap();
        let (parameters, rates) = run(optimizer, rate, clip);
        let difference = largest_difference(&rates, &theirs.rates);
        assert!(
            difference < TOLERANCE,
            "{name}: rates differ by {difference}"
        );
        for ((ours, theirs), step) in parameters.iter().zip(&theirs.parameters).zip(KEPT) {
            let difference = largest_difference(ours, theirs);
            assert!(
                difference < TOLERANCE,
                "{name}: parameters differ by {difference} after {step} steps"
            );
        }
    }
    assert!(golden.is_empty(), "untested: {:?}", golden.keys());
}
