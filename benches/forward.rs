//! Inference of DenseNet-121 at 224 pixels; elements are images.
#![allow(missing_docs)]

use burn::tensor::{Device, Distribution, Tensor};
use burn_chexnet::model::{Classifier, DenseNetConfig};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

fn forward(criterion: &mut Criterion) {
    let device = Device::flex();
    let model = DenseNetConfig::densenet121().init(&device);
    let mut group = criterion.benchmark_group("densenet121/forward/224");
    group.sample_size(10);
    for batch in [1, 8] {
        let images = Tensor::<4>::random([batch, 3, 224, 224], Distribution::Default, &device);
        group.throughput(Throughput::Elements(batch as u64));
        group.bench_function(BenchmarkId::from_parameter(batch), |bencher| {
            bencher.iter(|| model.logits(images.clone()).into_data());
        });
    }
    group.finish();
}

criterion_group!(benches, forward);
criterion_main!(benches);
