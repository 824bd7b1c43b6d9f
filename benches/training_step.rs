//! A training step of DenseNet-121 at 224 pixels: forward, loss, backward, Adam; elements are
//! images.
#![allow(missing_docs)]

use burn::module::Module;
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{Device, Distribution, Tensor};
use burn_chexnet::loss::{BinaryCrossEntropy, Reduction};
use burn_chexnet::model::{Classifier, DenseNetConfig};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

fn training_step(criterion: &mut Criterion) {
    let device = Device::flex().autodiff();
    let loss = BinaryCrossEntropy::new(Reduction::SumOverLabels);
    let mut group = criterion.benchmark_group("densenet121/training_step/224");
    group.sample_size(10);
    for batch in [1, 8] {
        let images = Tensor::<4>::random([batch, 3, 224, 224], Distribution::Default, &device);
        let targets = Tensor::<2>::random([batch, 14], Distribution::Bernoulli(0.1), &device);
        let mut model = Some(DenseNetConfig::densenet121().init(&device).train());
        let mut optimizer = AdamConfig::new().init();
        group.throughput(Throughput::Elements(batch as u64));
        group.bench_function(BenchmarkId::from_parameter(batch), |bencher| {
            bencher.iter(|| {
                model = model.take().map(|model| {
                    let logits = model.logits(images.clone());
                    let loss = loss.forward(logits, targets.clone(), None);
                    let gradients = GradientsParams::from_grads(loss.backward(), &model);
                    optimizer.step(1e-4, model, gradients)
                });
            });
        });
    }
    group.finish();
}

criterion_group!(benches, training_step);
criterion_main!(benches);
