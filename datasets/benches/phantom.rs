//! A phantom data set of 256 by 256 pixels, written to disk; elements are images.
#![allow(missing_docs, clippy::unwrap_used)]

use chest_datasets::PhantomConfig;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

fn phantom(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let mut seed = 0;
    let mut group = criterion.benchmark_group("phantom");
    group.throughput(Throughput::Elements(100));
    group.sample_size(10);
    group.bench_function("256x256", |bencher| {
        bencher.iter(|| {
            // Another one each time, or it would be kept.
            seed += 1;
            let config = PhantomConfig {
                images: 100,
                image_size: 256,
                seed,
                ..PhantomConfig::default()
            };
            config.write(folder.path().join("phantom"), |_| ()).unwrap()
        });
    });
    group.finish();
}

criterion_group!(benches, phantom);
criterion_main!(benches);
