//! Sums over ranks within a model.

use std::sync::Arc;

use burn::optim::{GradientsParams, SgdConfig};
use burn::tensor::{DType, Device, Tensor};
use burn_dist::distributed::{Contribution, DataParallel, DataParallelConfig, Vote};
use burn_dist_core::World;

use crate::models::{BatchNormed, Net, difference, numbers, rows};
use crate::worlds::run;

const BATCH: usize = 12;

/// After 20 steps of one rank, or of several with `parts` of the same batches.
fn train(world: Option<&Arc<World>>, parts: &[usize], dtype: DType) -> Vec<f64> {
    let device = Device::flex().autodiff();
    let rank = world.map_or(0, |world| world.rank());
    let mut config = DataParallelConfig::new();
    let mut sums = None;
    let own = parts[rank];
    if let Some(world) = world {
        let of_all;
        (config, of_all) = config.sums_over_ranks(world);
        of_all.weigh(own);
        sums = Some(of_all);
    }
    let mut model = BatchNormed::new(sums, &device, dtype);
    let parallel = world.map(|world| {
        let (parallel, with_weights) = DataParallel::new(world, model.clone(), config).unwrap();
        assert!(!parallel.overlaps());
        model = with_weights;
        parallel
    });
    let before: usize = parts[..rank].iter().sum();
    let mut optimizer = SgdConfig::new().init();
    for step in 0..20 {
        let loss = model.loss(rows(step * BATCH + before, own, &device, dtype));
        let mut gradients = GradientsParams::from_grads(loss.backward(), &model);
        if let Some(parallel) = &parallel {
            let own = Contribution::gradients(gradients, own);
            let reduced = parallel.reduce(&model, Some(own), Vote::default());
            gradients = reduced.unwrap().gradients;
        }
        model = optimizer.step(0.05, model, gradients);
    }
    numbers(&model)
}

/// What plain data parallelism cannot: with statistics of the batch.
#[test]
fn statistics_of_all_ranks_make_them_one_rank_with_all_their_data() {
    for (dtype, tolerance) in [(DType::F64, 1e-10), (DType::F32, 1e-5)] {
        let alone = train(None, &[BATCH], dtype);
        let shares: [&[usize]; 5] = [&[6, 6], &[4, 4, 4], &[3, 3, 3, 3], &[1, 11], &[7, 2, 3]];
        for parts in shares {
            let together = run(parts.len(), |world| train(Some(&world), parts, dtype));
            let apart = difference(&alone, &together[0]);
            assert!(apart < tolerance, "{parts:?}, {dtype:?}: {apart}");
            assert!(together.iter().all(|rank| *rank == together[0]));
        }
    }
}

/// A backward pass begins with what lies deepest, which here is not the same on both ranks.
#[test]
fn ranks_that_do_their_sums_in_another_order_are_told() {
    let outcomes = run(2, |world| {
        let device = Device::flex().autodiff();
        let (config, sums) = DataParallelConfig::new().sums_over_ranks(&world);
        let model = Net::new(0, &device, DType::F32);
        let (parallel, model) = DataParallel::new(&world, model, config).unwrap();
        let deep = |values: Tensor<1>| (0..5).fold(values, |values, _| values.sin());
        let values = || Tensor::<1>::ones([3], &device).require_grad();
        let (one, other) = match world.rank() {
            0 => (deep(values()), values()),
            _ => (values(), deep(values())),
        };
        let (one, other) = (sums.sum(one), sums.sum(other));
        let gradients = (one + other).sum().backward();
        drop(gradients);
        let nothing = Some(Contribution::nothing());
        let reduced = parallel.reduce(&model, nothing, Vote::default());
        reduced.map(drop).unwrap_err().to_string()
    });
    for (rank, outcome) in outcomes.iter().enumerate() {
        let expected = format!("another order: rank {rank} was at number {rank}");
        assert!(outcome.contains(&expected), "{outcome}");
    }
}

#[test]
fn a_rank_that_leaves_within_a_pass_is_named_by_the_next_reduction() {
    let outcomes = run(2, |world| {
        let device = Device::flex().autodiff();
        let (config, sums) = DataParallelConfig::new().sums_over_ranks(&world);
        let model = Net::new(0, &device, DType::F32);
        let (parallel, model) = DataParallel::new(&world, model, config).unwrap();
        if world.rank() == 1 {
            return String::new();
        }
        let left = sums.sum(Tensor::ones([3], &device));
        // As they were: what comes of them is not used.
        assert_eq!(left.into_data().iter::<f32>().sum::<f32>(), 3.0);
        let nothing = Some(Contribution::nothing());
        let reduced = parallel.reduce(&model, nothing, Vote::default());
        reduced.map(drop).unwrap_err().to_string()
    });
    assert!(outcomes[0].contains("rank 1 has left"), "{}", outcomes[0]);
}
