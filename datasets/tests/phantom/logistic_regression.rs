//! A logistic regression on 32 by 32 pixels: what brightness at fixed places gives away. It must not
//! reach what a network has to learn.

use std::collections::HashSet;
use std::sync::Arc;

use chest_datasets::{ChestXray14, ImageSource, LabelValue, Loader, LoaderConfig, PhantomConfig};
use rayon::prelude::*;

const SIZE: usize = 32;
const PIXELS: usize = SIZE * SIZE;

/// Pixels with mean 0 and deviation 1 over the training side, `[images, pixels]`, and labels,
/// `[images, labels]`, of one side.
#[derive(Default)]
struct Side {
    pixels: Vec<[f32; PIXELS]>,
    labels: Vec<Vec<bool>>,
}

fn sides() -> [Side; 2] {
    let folder = tempfile::tempdir().unwrap();
    PhantomConfig::default()
        .write(folder.path(), |_| ())
        .unwrap();
    let nih = ChestXray14::open(folder.path()).unwrap();
    let test: HashSet<String> = nih.lists.unwrap().test.images.into_iter().collect();
    let dataset = Arc::new(nih.dataset);
    let all: Vec<usize> = (0..dataset.len()).collect();
    let source = ImageSource::new(dataset.clone(), folder.path(), &all).unwrap();
    let loader = Loader::new(Arc::new(source), LoaderConfig::new(SIZE, 64)).unwrap();
    let [mut training, mut held_out] = [Side::default(), Side::default()];
    for batch in loader.batches(all) {
        let batch = batch.unwrap();
        for (pixels, index) in batch.pixels.chunks_exact(PIXELS).zip(batch.indices) {
            let record = &dataset.records()[index];
            let side = match test.contains(&record.image) {
                true => &mut held_out,
                false => &mut training,
            };
            let values: Vec<f32> = pixels.iter().copied().map(f32::from).collect();
            side.pixels.push(values.try_into().unwrap());
            let labels = record.labels.iter();
            side.labels
                .push(labels.map(|value| *value == LabelValue::Positive).collect());
        }
    }
    let count = training.pixels.len() as f32;
    for pixel in 0..PIXELS {
        let values = training.pixels.iter().map(|image| image[pixel]);
        let mean = values.clone().sum::<f32>() / count;
        let variance = values.map(|value| (value - mean).powi(2)).sum::<f32>() / count;
        let deviation = variance.sqrt().max(1e-3);
        for image in training.pixels.iter_mut().chain(&mut held_out.pixels) {
            image[pixel] = (image[pixel] - mean) / deviation;
        }
    }
    [training, held_out]
}

fn dot(weights: &[f32; PIXELS], image: &[f32; PIXELS]) -> f32 {
    // Sixteen sums at once, so that they are vectors.
    let mut sums = [0.0_f32; 16];
    for (weights, image) in weights.chunks_exact(16).zip(image.chunks_exact(16)) {
        for lane in 0..16 {
            sums[lane] += weights[lane] * image[lane];
        }
    }
    sums.iter().sum()
}

/// Weights of one label after so many steps of gradient descent with Nesterov's momentum; `seen`
/// gets them after each. Few steps are a strong regularisation, many a weak one.
fn fit(training: &Side, label: usize, steps: usize, mut seen: impl FnMut(usize, &[f32; PIXELS])) {
    const RATE: f32 = 2e-2;
    const MOMENTUM: f32 = 0.9;
    let count = training.pixels.len() as f32;
    let [mut weights, mut velocity] = [[0.0; PIXELS]; 2];
    let mut bias = 0.0;
    for step in 1..=steps {
        let mut ahead = weights;
        for (ahead, velocity) in ahead.iter_mut().zip(&velocity) {
            *ahead += MOMENTUM * velocity;
        }
        let mut gradient = [0.0; PIXELS];
        let mut bias_gradient = 0.0;
        for (image, labels) in training.pixels.iter().zip(&training.labels) {
            let logit = dot(&ahead, image) + bias;
            let truth = if labels[label] { 1.0 } else { 0.0 };
            let error = (1.0 / (1.0 + (-logit).exp()) - truth) / count;
            for (gradient, pixel) in gradient.iter_mut().zip(image) {
                *gradient += error * pixel;
            }
            bias_gradient += error;
        }
        for pixel in 0..PIXELS {
            velocity[pixel] = MOMENTUM * velocity[pixel] - RATE * gradient[pixel];
            weights[pixel] += velocity[pixel];
        }
        bias -= bias_gradient;
        seen(step, &weights);
    }
}

/// The share of pairs of a positive and a negative that are in order.
fn auroc(scores: &[f32], side: &Side, label: usize) -> f64 {
    let of = |truth: bool| {
        let pairs = scores.iter().zip(&side.labels);
        let kept = pairs.filter(move |(_, labels)| labels[label] == truth);
        kept.map(|(score, _)| *score).collect::<Vec<f32>>()
    };
    let (positives, negatives) = (of(true), of(false));
    let ordered = positives.iter().flat_map(|positive| {
        negatives
            .iter()
            .map(move |negative| match positive.total_cmp(negative) {
                std::cmp::Ordering::Greater => 1.0,
                std::cmp::Ordering::Equal => 0.5,
                std::cmp::Ordering::Less => 0.0,
            })
    });
    ordered.sum::<f64>() / (positives.len() * negatives.len()) as f64
}

#[test]
fn logistic_regression_on_small_pixels_does_not_solve_it() {
    const LABELS: usize = 14;
    const STEPS: usize = 240;
    const EVERY: usize = 40;
    let [training, held_out] = sides();
    let by_label: Vec<Vec<f64>> = (0..LABELS)
        .into_par_iter()
        .map(|label| {
            let mut aurocs = Vec::new();
            fit(&training, label, STEPS, |step, weights| {
                if step % EVERY == 0 {
                    let images = held_out.pixels.iter();
                    let scores: Vec<f32> = images.map(|image| dot(weights, image)).collect();
                    aurocs.push(auroc(&scores, &held_out, label));
                }
            });
            aurocs
        })
        .collect();
    let means: Vec<f64> = (0..STEPS / EVERY)
        .map(|at| by_label.iter().map(|aurocs| aurocs[at]).sum::<f64>() / LABELS as f64)
        .collect();
    // The best number of steps, chosen on the held-out side itself: an upper bound.
    let best = means.iter().copied().fold(f64::MIN, f64::max);
    println!("mean AUROC by steps: {means:.3?}");
    assert!(best <= 0.75, "{best}: the phantom is too easy");
    // Large signs show even so; if they do not, this regression is broken.
    assert!(best >= 0.65, "{best}: this regression does not learn");
}
