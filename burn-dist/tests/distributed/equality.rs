//! N ranks with a part of each batch against one rank with all of it.

use std::sync::Arc;

use burn::optim::{GradientsParams, SgdConfig};
use burn::tensor::{DType, Device};
use burn_dist::distributed::{Contribution, DataParallel, DataParallelConfig, Vote, Wire};
use burn_dist_core::World;

use crate::models::{Net, Normed, difference, gradients, numbers, rows};
use crate::worlds::run;

const STEPS: usize = 20;
const BATCH: usize = 12;
const RATE: f64 = 0.05;

pub fn device() -> Device {
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
pub fn of_one(start: usize, count: usize, seldom: bool) -> Vec<Option<Vec<f64>>> {
    let device = device();
    let model = Net::new(0, &device, DType::F64);
    let loss = model.loss(rows(start, count, &device, DType::F64), seldom);
    let own = GradientsParams::from_grads(loss.backward(), &model);
    gradients(&model, &own)
}

/// Small buckets, so that there are several.
pub fn config() -> DataParallelConfig {
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
