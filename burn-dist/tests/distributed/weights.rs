//! What the gradients of a rank count among those of others.

use std::sync::Arc;

use burn::optim::GradientsParams;
use burn::tensor::DType;
use burn_dist::distributed::{Contribution, DataParallel, Vote, Weighting, Wire};
use burn_dist_core::World;

use crate::equality::{config, device, of_one};
use crate::models::{Net, difference, gradients, rows};
use crate::worlds::run;

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
