//! A block of two layers against the definition in 64 bit, whose gradients are differences.
#![allow(clippy::unwrap_used)]

use super::super::affine::{Norm, NormParameters};
use super::super::matrix::Shared;
use super::super::reference::{assert_close, values};
use super::{Block, Gradients, Layer, Parameters};

const EPSILON: f64 = 1e-5;

struct Case {
    block: Block,
    layers: [Layer; 2],
}

/// Batch, height, width, inputs, bottleneck, growth.
fn case(
    [batch, height, width, inputs, bottleneck, growth]: [usize; 6],
    of_batch: [bool; 2],
) -> Case {
    let block = Block {
        batch,
        height,
        width,
        channels: inputs + 2 * growth,
        statistics: of_batch[0],
    };
    let layer = |index: usize| Layer {
        block,
        inputs: inputs + index * growth,
        bottleneck,
        growth,
        norms: of_batch.map(|of_batch| Norm {
            epsilon: EPSILON as f32,
            of_batch,
        }),
    };
    Case {
        block,
        layers: [layer(0), layer(1)],
    }
}

impl Case {
    /// What the block is entered with, then the weights of each layer: weight, bias, mean and variance of
    /// each norm, and both convolutions.
    fn tensors(&self) -> Vec<Vec<f32>> {
        let mut tensors = vec![values(1, self.block.pixels() * self.layers[0].inputs)];
        for layer in &self.layers {
            for channels in [layer.inputs, layer.bottleneck] {
                let seed = tensors.len() as u64;
                let shifted =
                    |seed, by: f32| values(seed, channels).iter().map(|v| v + by).collect();
                tensors.push(shifted(seed + 10, 1.0));
                tensors.push(shifted(seed + 20, 0.1));
                tensors.push(shifted(seed + 30, 0.0));
                tensors.push(shifted(seed + 40, 2.5));
            }
            tensors.push(values(50, layer.bottleneck * layer.inputs));
            tensors.push(values(60, layer.growth * layer.bottleneck * 9));
        }
        tensors
    }

    /// The block by definition, `[pixels, channels]`.
    fn reference(&self, tensors: &[Vec<f64>]) -> Vec<f64> {
        let mut map = tensors[0].clone();
        for (layer, tensors) in self.layers.iter().zip(tensors[1..].chunks(10)) {
            let hidden = norm_relu(&map, &tensors[..4], layer.norms[0]);
            let hidden = self.convolve(&hidden, layer.inputs, &tensors[8], 1);
            let hidden = norm_relu(&hidden, &tensors[4..8], layer.norms[1]);
            let new = self.convolve(&hidden, layer.bottleneck, &tensors[9], 3);
            let pixels = map.chunks(layer.inputs).zip(new.chunks(layer.growth));
            map = pixels.flat_map(|(old, new)| [old, new].concat()).collect();
        }
        map
    }

    fn convolve(&self, map: &[f64], inputs: usize, weights: &[f64], kernel: usize) -> Vec<f64> {
        let Block { height, width, .. } = self.block;
        let mut result = Vec::new();
        for pixel in 0..self.block.pixels() {
            let (image, y, x) = (
                pixel / width / height,
                pixel / width % height,
                pixel % width,
            );
            for weights in weights.chunks(inputs * kernel * kernel) {
                let mut sum = 0.0;
                for (index, weight) in weights.iter().enumerate() {
                    let (down, right) = (index / kernel % kernel, index % kernel);
                    let (y, x) = (y + down, x + right);
                    let border = kernel / 2;
                    if (border..height + border).contains(&y)
                        && (border..width + border).contains(&x)
                    {
                        let pixel = (image * height + y - border) * width + x - border;
                        sum += weight * map[pixel * inputs + index / kernel / kernel];
                    }
                }
                result.push(sum);
            }
        }
        result
    }

    /// The block by the kernels, and the gradients of all tensors for `gradient` behind it.
    fn kernels(&self, tensors: &[Vec<f32>], gradient: &[f32]) -> (Vec<f32>, Vec<Vec<f32>>) {
        let block = &self.block;
        // What was there before must not matter.
        let mut buffer = vec![1e9; block.floats()];
        block.enter(&tensors[0], self.layers[0].inputs, &mut buffer);
        let mut kept = Vec::new();
        for (layer, tensors) in self.layers.iter().zip(tensors[1..].chunks(10)) {
            let mut hidden = vec![f32::NAN; block.pixels() * layer.bottleneck];
            let mut statistics = [(); 2].map(|()| vec![f32::NAN; layer.bottleneck]);
            let [mean, variance] = &mut statistics;
            let buffer = Shared::new(&mut buffer);
            // SAFETY: nothing else has it.
            unsafe {
                layer.forward(buffer, &parameters(tensors), &mut hidden, [mean, variance]);
            }
            kept.push((hidden, statistics));
        }
        let result = buffer[..block.pixels() * block.channels].to_vec();

        let mut of_buffer = vec![f32::NAN; block.floats()];
        block.exit_gradient(gradient, &mut of_buffer);
        let mut gradients = tensors
            .iter()
            .map(|t| vec![0.0; t.len()])
            .collect::<Vec<_>>();
        let layers = self.layers.iter().zip(&kept).zip(tensors[1..].chunks(10));
        let (out, _) = gradients[1..].as_chunks_mut::<10>();
        for (((layer, kept), tensors), out) in layers.zip(out).rev() {
            let (hidden, [mean, variance]) = kept;
            let [w1, b1, _, _, w2, b2, _, _, c1, c2] = out;
            let out = Gradients {
                norms: [[w1, b1], [w2, b2]],
                convolutions: [c1, c2],
            };
            let parameters = parameters(tensors);
            let statistics = [&mean[..], &variance[..]];
            layer.backward(
                &buffer,
                &mut of_buffer,
                &parameters,
                hidden,
                statistics,
                out,
            );
        }
        let inputs = self.layers[0].inputs;
        block.enter_gradient(&buffer, &of_buffer, inputs, &mut gradients[0]);
        (result, gradients)
    }
}

fn parameters(tensors: &[Vec<f32>]) -> Parameters<'_> {
    let norm = |first: usize| NormParameters {
        weight: &tensors[first],
        bias: &tensors[first + 1],
        mean: &tensors[first + 2],
        variance: &tensors[first + 3],
    };
    Parameters {
        norms: [norm(0), norm(4)],
        convolutions: [&tensors[8], &tensors[9]],
    }
}

fn norm_relu(map: &[f64], tensors: &[Vec<f64>], norm: Norm) -> Vec<f64> {
    let channels = tensors[0].len();
    let mut result = vec![0.0; map.len()];
    for channel in 0..channels {
        let values = || map.iter().skip(channel).step_by(channels);
        let count = (map.len() / channels) as f64;
        let [mean, variance] = if norm.of_batch {
            let mean = values().sum::<f64>() / count;
            [
                mean,
                values().map(|v| (v - mean).powi(2)).sum::<f64>() / count,
            ]
        } else {
            [tensors[2][channel], tensors[3][channel]]
        };
        let scale = tensors[0][channel] / (variance + EPSILON).sqrt();
        for (pixel, value) in values().enumerate() {
            let value = scale * (value - mean) + tensors[1][channel];
            result[pixel * channels + channel] = value.max(0.0);
        }
    }
    result
}

fn wide(tensors: &[Vec<f32>]) -> Vec<Vec<f64>> {
    let wide = |tensor: &Vec<f32>| tensor.iter().copied().map(f64::from).collect();
    tensors.iter().map(wide).collect()
}

#[test]
fn a_block_is_that_of_the_definition() {
    let sizes = [
        [1, 1, 1, 1, 1, 1],
        [2, 3, 4, 5, 6, 3],
        [3, 7, 5, 17, 24, 5],
        [2, 9, 8, 40, 128, 32],
        [1, 14, 14, 64, 36, 16],
    ];
    for size in sizes {
        for of_batch in [[true, true], [false, false], [true, false], [false, true]] {
            let case = case(size, of_batch);
            let tensors = case.tensors();
            let expected = case.reference(&wide(&tensors));
            let (found, _) = case.kernels(&tensors, &vec![0.0; expected.len()]);
            assert_close(&found, &expected, 1e-5, &format!("{size:?} {of_batch:?}"));
        }
    }
}

/// The second norm in the product, beyond one panel's columns and with a last one that is not full.
#[test]
fn a_block_without_a_backward_pass_is_that_of_the_definition() {
    for size in [
        [1, 1, 1, 1, 1, 1],
        [2, 9, 8, 40, 128, 32],
        [1, 14, 13, 300, 75, 7],
    ] {
        let case = case(size, [false, false]);
        let tensors = case.tensors();
        let expected = case.reference(&wide(&tensors));
        let block = &case.block;
        let mut buffer = vec![1e9; block.floats()];
        block.enter(&tensors[0], case.layers[0].inputs, &mut buffer);
        for (layer, tensors) in case.layers.iter().zip(tensors[1..].chunks(10)) {
            let Parameters {
                norms,
                convolutions: [squeeze, growth],
            } = parameters(tensors);
            let panels = [
                &layer.squeeze_weights().forward(squeeze),
                &layer.growth_weights().forward(growth),
            ];
            // SAFETY: nothing else has the buffer.
            unsafe { layer.infer(Shared::new(&mut buffer), norms, panels) };
        }
        let found = &buffer[..block.pixels() * block.channels];
        assert_close(found, &expected, 1e-5, &format!("{size:?}"));
    }
}

#[test]
fn gradients_are_differences() {
    for size in [[2, 3, 4, 5, 6, 3], [3, 2, 2, 18, 4, 2], [1, 5, 3, 3, 17, 4]] {
        for of_batch in [[true, true], [false, false], [true, false], [false, true]] {
            let case = case(size, of_batch);
            let tensors = case.tensors();
            let gradient = values(7, case.block.pixels() * case.block.channels);
            let (_, found) = case.kernels(&tensors, &gradient);
            let mut wide = wide(&tensors);
            let loss = |tensors: &[Vec<f64>]| -> f64 {
                let result = case.reference(tensors);
                result
                    .iter()
                    .zip(&gradient)
                    .map(|(r, g)| r * f64::from(*g))
                    .sum()
            };
            for (index, found) in found.iter().enumerate() {
                // Statistics that are given have no gradient.
                if index > 0 && matches!((index - 1) % 10, 2 | 3 | 6 | 7) {
                    continue;
                }
                let expected: Vec<f64> = (0..found.len())
                    .map(|at| {
                        let before = wide[index][at];
                        let [above, below] = [1e-6, -1e-6].map(|by| {
                            wide[index][at] = before + by;
                            loss(&wide)
                        });
                        wide[index][at] = before;
                        (above - below) / 2e-6
                    })
                    .collect();
                assert_close(
                    found,
                    &expected,
                    1e-4,
                    &format!("{size:?} {of_batch:?} {index}"),
                );
            }
        }
    }
}

/// A run repeats to the last bit on a machine with other cores.
#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let case = case([3, 28, 28, 40, 24, 8], [true, true]);
    let tensors = case.tensors();
    let gradient = values(7, case.block.pixels() * case.block.channels);
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        pool.build()
            .unwrap()
            .install(|| case.kernels(&tensors, &gradient))
    };
    let one = with(1);
    for threads in [2, 3, 8] {
        assert!(with(threads) == one, "{threads} threads");
    }
}
