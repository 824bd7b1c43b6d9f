//! AUROC with DeLong intervals of all 14 labels over as many images as ChestX-ray14 has; elements
//! are images.
#![allow(missing_docs)]

use burn_chexnet::metrics::evaluate;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const IMAGES: usize = 112_120;
const LABELS: usize = 14;

fn auroc(criterion: &mut Criterion) {
    let labels: Vec<String> = (0..LABELS).map(|label| label.to_string()).collect();
    // A linear congruence: many different scores, some ties, about 5 % positives.
    let mut state = 1u64;
    let mut draw = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state >> 40
    };
    let scores: Vec<f32> = (0..IMAGES * LABELS).map(|_| draw() as f32 / 1e6).collect();
    let truth: Vec<Option<bool>> = (0..IMAGES * LABELS)
        .map(|_| Some(draw() % 20 == 0))
        .collect();
    let mut group = criterion.benchmark_group("auroc");
    group.throughput(Throughput::Elements(IMAGES as u64));
    group.sample_size(10);
    group.bench_function("112120x14", |bencher| {
        bencher.iter(|| evaluate(&labels, &scores, &truth));
    });
    group.finish();
}

criterion_group!(benches, auroc);
criterion_main!(benches);
