//! N ranks with a part of each batch against one rank with all of it.

use std::sync::Arc;

use burn::optim::{GradientsParams, SgdConfig};
use burn::tensor::{DType, Device};
use burn_dist::distributed::{
    Contribution, DataParallel, DataParallelConfig, Vote, Weighting, Wire,
};
use burn_dist_core::World;

use crate::models::{Net, Normed, difference, gradients, numbers, rows};
use crate::worlds::run;

const STEPS: usize = 20;
const BATCH: usize = 12;
const RATE: f64 = 0.05;

fn device() -> Device {
    Device::flex().autodiff()
}

/// One rank, whose batches have `batch` rows.
fn alone(batch: usize, dtype: DType) -> Vec<f64> {
    let device = device();
    let mut model = Net::new(0, &device, dtype);
    let mut optimizer = SgdConfig::new().init();
    for step in 0..STEPS {
        let loss = model.loss(rows(step * batch, batch, &device, dtype), step % 3 == 0);
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = optimizer.step(RATE, model, gradients);
    }
    numbers(&model)
}

/// One of several ranks, with its part of the same batches.
fn together(world: &Arc<World>, config: DataParallelConfig, dtype: DType) -> Vec<f64> {
    together_on(&device(), world, config, dtype)
}

fn together_on(
    device: &Device,
    world: &Arc<World>,
    config: DataParallelConfig,
    dtype: DType,
) -> Vec<f64> {
    // Ranks begin with other numbers: those of rank 0 count.
    let model = Net::new(world.rank(), device, dtype);
    let (parallel, mut model) = DataParallel::new(world, model, config).unwrap();
    let mut optimizer = SgdConfig::new().init();
    let own = BATCH / world.size();
    for step in 0..STEPS {
        let rows = rows(step * BATCH + world.rank() * own, own, device, dtype);
        let reduced = match parallel.overlaps() {
            true => {
                let gated = parallel.gate(&model, Contribution::batch(own)).unwrap();
                let left = gated.loss(rows, step % 3 == 0).backward();
                assert!(GradientsParams::from_grads(left, &model).is_empty());
                parallel.reduce(&model, None, Vote::default())
            }
            false => {
                let loss = model.loss(rows, step % 3 == 0);
                let gradients = GradientsParams::from_grads(loss.backward(), &model);
                parallel.reduce(
                    &model,
                    Some(Contribution::gradients(gradients, own)),
                    Vote::default(),
                )
            }
        };
        let reduced = reduced.unwrap();
        assert!(reduced.has_data && !reduced.stop);
        model = optimizer.step(RATE, model, reduced.gradients);
    }
    numbers(&model)
}

/// The gradients of one process without any others, of `count` rows from `start` on.
fn of_one(start: usize, count: usize, seldom: bool) -> Vec<Option<Vec<f64>>> {
    let device = device();
    let model = Net::new(0, &device, DType::F64);
    let loss = model.loss(rows(start, count, &device, DType::F64), seldom);
    let own = GradientsParams::from_grads(loss.backward(), &model);
    gradients(&model, &own)
}

/// Small buckets, so that there are several.
fn config() -> DataParallelConfig {
    DataParallelConfig::new().bucket_bytes(4_000)
}

#[test]
fn ranks_together_are_one_rank_with_all_their_data() {
    // SGD sums gradients in another order: rounding, and nothing else.
    for (dtype, tolerance) in [(DType::F64, 1e-10), (DType::F32, 1e-5)] {
        let alone = alone(BATCH, dtype);
        for ranks in [2, 3, 4] {
            let hooked = run(ranks, |world| together(&world, config(), dtype));
            let plain = run(ranks, |world| {
                together(&world, config().overlaps(false), dtype)
            });
            for rank in 0..ranks {
                let apart = difference(&alone, &hooked[rank]);
                assert!(apart < tolerance, "{ranks} ranks, {dtype:?}: {apart}");
                // To the last bit, between ranks and with gradients on their way during backward or after it.
                assert_eq!(hooked[rank], hooked[0], "{ranks} ranks, {dtype:?}");
                assert_eq!(hooked[rank], plain[rank], "{ranks} ranks, {dtype:?}");
            }
        }
    }
}

/// A backend without hooks takes its gradients after the pass, and hooked ranks with it.
#[test]
// Burn is going to do without NdArray; until then it is the one other backend that needs no GPU.
#[allow(deprecated)]
fn ranks_may_have_another_backend() {
    let alone = alone(BATCH, DType::F64);
    let together = run(2, |world| {
        let device = match world.rank() {
            0 => Device::ndarray(),
            _ => Device::flex(),
        };
        together_on(&device.autodiff(), &world, config(), DType::F64)
    });
    for rank in together {
        let apart = difference(&alone, &rank);
        assert!(apart < 1e-10, "{apart}");
    }
    let errors = run(2, |world| {
        let model = Net::new(0, &Device::ndarray().autodiff(), DType::F32);
        let (config, _) = config().sums_over_ranks(&world);
        let made = DataParallel::new(&world, model, config);
        made.err().unwrap().to_string()
    });
    for error in errors {
        assert!(
            error.contains("leave synchronised batch normalisation out"),
            "{error}"
        );
    }
}

#[test]
fn half_the_bytes_cost_a_few_bits() {
    let exact = run(3, |world| together(&world, config(), DType::F32));
    for (wire, least, most) in [(Wire::F16, 1e-7, 1e-3), (Wire::Bf16, 1e-5, 1e-2)] {
        let half = run(3, |world| together(&world, config().wire(wire), DType::F32));
        assert_eq!(half[0], half[2]);
        let apart = difference(&exact[0], &half[0]);
        assert!((least..most).contains(&apart), "{wire:?}: {apart}");
    }
}

/// Sums over samples and ranks would be infinite in 16 bits, though each gradient and their mean are not.
#[test]
fn means_that_fit_in_half_the_bytes_are_not_lost_on_the_way() {
    const SAMPLES: [usize; 2] = [4_000, 12_000];
    let device = device();
    for (wire, dtype) in [(Wire::F16, DType::F32), (Wire::Exact, DType::F16)] {
        let found = run(2, |world| {
            let model = Net::new(0, &device, dtype);
            let config = config().wire(wire);
            let (parallel, model) = DataParallel::new(&world, model, config).unwrap();
            let samples = SAMPLES[world.rank()];
            let loss = |model: &Net| {
                // A gradient of about 30 for the bias of the last layer.
                let rows = rows(world.rank() * 4, 4, &device, dtype);
                model.forward(rows, false).mean() * 30.0
            };
            let mut all = Vec::new();
            for gated in [true, false] {
                let contribution = match gated {
                    true => {
                        let own = Contribution::batch(samples);
                        loss(&parallel.gate(&model, own).unwrap()).backward();
                        None
                    }
                    false => {
                        let own = GradientsParams::from_grads(loss(&model).backward(), &model);
                        Some(Contribution::gradients(own, samples))
                    }
                };
                let reduced = parallel.reduce(&model, contribution, Vote::default());
                all.push(gradients(&model, &reduced.unwrap().gradients));
            }
            all
        });
        for gradients in found.iter().flatten() {
            // The last layer comes first.
            let bias = gradients[1].as_ref().unwrap();
            assert!(
                (bias[0] - 30.0).abs() < 0.1,
                "{wire:?}, {dtype:?}: {bias:?}"
            );
            let finite = gradients.iter().flatten().flatten().all(|g| g.is_finite());
            assert!(finite, "{wire:?}, {dtype:?}");
        }
        assert_eq!(found[0], found[1]);
    }
}

#[test]
fn ranks_with_more_samples_count_more_if_they_are_to() {
    let device = device();
    let of = |world: &Arc<World>, weighting| {
        let model = Net::new(0, &device, DType::F64);
        let config = config().weighting(weighting);
        let (parallel, model) = DataParallel::new(world, model, config).unwrap();
        // Two rows for rank 0, six for rank 1.
        let (start, count) = [(0, 2), (2, 6)][world.rank()];
        let gated = parallel.gate(&model, Contribution::batch(count)).unwrap();
        gated
            .loss(rows(start, count, &device, DType::F64), true)
            .backward();
        let reduced = parallel.reduce(&model, None, Vote::default()).unwrap();
        gradients(&model, &reduced.gradients)
    };
    let whole = of_one(0, 8, true);
    let (first, second) = (of_one(0, 2, true), of_one(2, 6, true));
    let by_samples = run(2, |world| of(&world, Weighting::Samples));
    let by_ranks = run(2, |world| of(&world, Weighting::Ranks));
    for index in 0..whole.len() {
        let Some(whole) = &whole[index] else {
            assert!(by_samples[0][index].is_none() && by_ranks[1][index].is_none());
            continue;
        };
        let halves = first[index]
            .as_ref()
            .unwrap()
            .iter()
            .zip(second[index].as_ref().unwrap());
        let halves: Vec<f64> = halves.map(|(a, b)| (a + b) / 2.0).collect();
        assert!(difference(whole, by_samples[0][index].as_ref().unwrap()) < 1e-12);
        assert!(difference(&halves, by_ranks[1][index].as_ref().unwrap()) < 1e-12);
    }
}

#[test]
fn a_rank_whose_loss_is_a_mean_of_nothing_counts_nothing() {
    let device = device();
    let found = run(2, |world| {
        let model = Net::new(0, &device, DType::F64);
        let (parallel, model) = DataParallel::new(&world, model, config()).unwrap();
        // Rank 1 has rows without labels: its loss is 0, and so are its gradients.
        let weight = [4, 0][world.rank()];
        let rows = rows(0, 4, &device, DType::F64);
        let loss = |model: &Net| model.loss(rows.clone(), false) * (1 - world.rank()) as f64;
        loss(&parallel.gate(&model, Contribution::batch(weight)).unwrap()).backward();
        let gated = parallel.reduce(&model, None, Vote::default()).unwrap();
        let own = GradientsParams::from_grads(loss(&model).backward(), &model);
        let own = Contribution::gradients(own, weight);
        let plain = parallel.reduce(&model, Some(own), Vote::default()).unwrap();
        // Nobody counts: that is no step. Nor is one that nobody has begun.
        let none = Contribution::batch(0);
        let none = parallel
            .reduce(&model, Some(none), Vote::default())
            .unwrap();
        let unbegun = parallel
            .reduce(&model, None, Vote::default())
            .err()
            .unwrap();
        assert!(!none.has_data && unbegun.to_string().contains("nothing was gated"));
        [gated, plain].map(|reduced| gradients(&model, &reduced.gradients))
    });
    for gradients in found.iter().flatten() {
        for (expected, found) in of_one(0, 4, false).iter().zip(gradients) {
            let (Some(expected), Some(found)) = (expected, found) else {
                assert!(expected.is_none() && found.is_none());
                continue;
            };
            assert!(difference(expected, found) < 1e-12);
        }
    }
}

#[test]
fn gradients_of_earlier_batches_travel_with_those_of_the_last() {
    let device = device();
    let accumulated = run(2, |world| {
        let model = Net::new(0, &device, DType::F64);
        let (parallel, model) = DataParallel::new(&world, model, config()).unwrap();
        let start = world.rank() * 8;
        // Two rows, and then six: together the mean of eight.
        let loss = model.loss(rows(start, 2, &device, DType::F64), true) * 0.25;
        let before = GradientsParams::from_grads(loss.backward(), &model);
        let gated = parallel
            .gate(&model, Contribution::before(before, 0.75, 8))
            .unwrap();
        gated
            .loss(rows(start + 2, 6, &device, DType::F64), true)
            .backward();
        let reduced = parallel.reduce(&model, None, Vote::default()).unwrap();
        gradients(&model, &reduced.gradients)
    });
    let whole = of_one(0, 16, true);
    for (whole, found) in whole.iter().zip(&accumulated[1]) {
        match (whole, found) {
            (Some(whole), Some(found)) => assert!(difference(whole, found) < 1e-12),
            (None, None) => {}
            _ => panic!("a gradient is there on one side only"),
        }
    }
}

#[test]
fn a_parameter_may_have_no_gradient_on_some_ranks_or_on_all() {
    let device = device();
    let found = run(3, |world| {
        let model = Net::new(0, &device, DType::F64);
        let (parallel, model) = DataParallel::new(&world, model, config()).unwrap();
        let mut all = Vec::new();
        // On none, on rank 1 alone, on all; and rank 2 has no data at all in a fourth step.
        for step in 0..4 {
            let seldom = step >= 2 || (step == 1 && world.rank() == 1);
            let reduced = if step == 3 && world.rank() == 2 {
                parallel.reduce(&model, Some(Contribution::nothing()), Vote::default())
            } else {
                let gated = parallel.gate(&model, Contribution::batch(4)).unwrap();
                let rows = rows(world.rank() * 4, 4, &device, DType::F64);
                gated.loss(rows, seldom).backward();
                parallel.reduce(&model, None, Vote::default())
            };
            all.push(gradients(&model, &reduced.unwrap().gradients));
        }
        // Nobody has data: that is no step.
        let none = parallel
            .reduce(
                &model,
                Some(Contribution::nothing()),
                Vote {
                    stop: true,
                    more: false,
                },
            )
            .unwrap();
        assert!(!none.has_data && none.stop && !none.more && none.gradients.is_empty());
        all
    });
    let of = |rank: usize, seldom| of_one(rank * 4, 4, seldom);
    let expected = [
        (0..3).map(|rank| of(rank, false)).collect::<Vec<_>>(),
        (0..3).map(|rank| of(rank, rank == 1)).collect(),
        (0..3).map(|rank| of(rank, true)).collect(),
        (0..2).map(|rank| of(rank, true)).collect(),
    ];
    for (step, parts) in expected.iter().enumerate() {
        for index in 0..parts[0].len() {
            let own: Vec<&Vec<f64>> = parts
                .iter()
                .filter_map(|part| part[index].as_ref())
                .collect();
            let found = &found[2][step][index];
            let Some(first) = own.first() else {
                assert!(found.is_none(), "step {step}, tensor {index}");
                continue;
            };
            let mean: Vec<f64> = (0..first.len())
                .map(|at| own.iter().map(|part| part[at]).sum::<f64>() / parts.len() as f64)
                .collect();
            let apart = difference(&mean, found.as_ref().unwrap());
            assert!(apart < 1e-12, "step {step}, tensor {index}: {apart}");
        }
    }
}

#[test]
fn running_statistics_become_the_mean_of_the_ranks() {
    let device = device();
    let found = run(3, |world| {
        let model = Normed::new(&device);
        let config = DataParallelConfig::new();
        let (parallel, model) = DataParallel::new(&world, model, config).unwrap();
        for step in 0..3 {
            let gated = parallel.gate(&model, Contribution::batch(5)).unwrap();
            let rows = rows(step * 15 + world.rank() * 5, 5, &device, DType::F32);
            gated.loss(rows).backward();
            parallel.reduce(&model, None, Vote::default()).unwrap();
        }
        let own: Vec<f32> = model
            .norm
            .running_mean
            .value_sync()
            .into_data()
            .iter()
            .collect();
        let model = parallel.average_statistics(model).unwrap();
        let mean: Vec<f32> = model
            .norm
            .running_mean
            .value_sync()
            .into_data()
            .iter()
            .collect();
        let weights: Vec<f32> = model.layer.weight.val().into_data().iter().collect();
        (own, mean, weights)
    });
    assert_ne!(found[0].0, found[1].0);
    for rank in 0..3 {
        assert_eq!(found[rank].1, found[0].1);
        assert_eq!(found[rank].2, found[0].2);
    }
    for index in 0..found[0].0.len() {
        let mean = found.iter().map(|rank| rank.0[index]).sum::<f32>() / 3.0;
        assert!((mean - found[0].1[index]).abs() < 1e-6);
    }
}

#[test]
fn running_statistics_that_are_the_same_stay_so_to_the_last_bit() {
    let device = device();
    let odd = [
        f32::INFINITY,
        f32::NEG_INFINITY,
        -0.0,
        0.1,
        f32::MIN_POSITIVE,
    ];
    let found = run(3, |world| {
        let config = DataParallelConfig::new();
        let model = Normed::new(&device);
        let (parallel, model) = DataParallel::new(&world, model, config).unwrap();
        let size = parallel.statistics(&model).unwrap().len();
        let mut numbers: Vec<f32> = odd.iter().copied().cycle().take(size / 4).collect();
        // One that differs: 1, 2 and 3.
        numbers[0] = world.rank() as f32 + 1.0;
        let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        let model = parallel.with_statistics(model, &bytes).unwrap();
        let model = parallel.average_statistics(model).unwrap();
        (parallel.statistics(&model).unwrap(), bytes)
    });
    for (mean, own) in &found {
        assert_eq!(mean[4..], own[4..]);
        assert_eq!(mean[..4], 2f32.to_le_bytes());
    }
}
