//! Norms with what follows against the definition in 64 bit, whose gradients are differences.

use super::super::reference::{assert_close, values};
use super::*;

fn map([batch, height, width, channels]: [usize; 4], pool: Pool, of_batch: bool) -> NormalisedMap {
    NormalisedMap {
        batch,
        height,
        width,
        channels,
        norm: Norm {
            epsilon: 1e-5,
            of_batch,
        },
        relu: true,
        pool,
    }
}

/// The definition in 64 bit: input, weight, bias, mean, variance.
fn reference(map: &NormalisedMap, tensors: &[Vec<f64>; 5]) -> Vec<f64> {
    let [input, weight, bias, mean, variance] = tensors;
    let mut normalised = input.clone();
    for channel in 0..map.channels {
        let own = || input.iter().skip(channel).step_by(map.channels);
        let count = map.pixels() as f64;
        let (mean, variance) = if map.norm.of_batch {
            let mean = own().sum::<f64>() / count;
            (mean, own().map(|x| (x - mean).powi(2)).sum::<f64>() / count)
        } else {
            (mean[channel], variance[channel])
        };
        for (pixel, x) in own().enumerate() {
            let y = (x - mean) / (variance + 1e-5).sqrt() * weight[channel] + bias[channel];
            normalised[pixel * map.channels + channel] = if map.relu { y.max(0.0) } else { y };
        }
    }
    let mut result = Vec::new();
    for image in 0..map.batch {
        for y in 0..map.output_height() {
            for x in 0..map.output_width() {
                for channel in 0..map.channels {
                    let at = |y: usize, x: usize| {
                        ((image * map.height + y) * map.width + x) * map.channels + channel
                    };
                    result.push(match map.pool {
                        Pool::None => normalised[at(y, x)],
                        Pool::Mean => {
                            let pixels = [(0, 0), (0, 1), (1, 0), (1, 1)];
                            let of = |(i, j)| normalised[at(2 * y + i, 2 * x + j)];
                            pixels.map(of).iter().sum::<f64>() / 4.0
                        }
                        Pool::Maximum => {
                            let mut best = f64::NEG_INFINITY;
                            for y in (2 * y).max(1) - 1..map.height.min(2 * y + 2) {
                                for x in (2 * x).max(1) - 1..map.width.min(2 * x + 2) {
                                    best = best.max(normalised[at(y, x)]);
                                }
                            }
                            best
                        }
                    });
                }
            }
        }
    }
    result
}

#[test]
fn results_are_those_of_the_definition_and_gradients_its_differences() {
    let sizes = [
        [1, 1, 1, 1],
        [2, 7, 5, 3],
        [1, 4, 6, 9],
        [3, 2, 2, 17],
        [1, 3, 1, 2],
    ];
    for (size, pool) in sizes
        .into_iter()
        .flat_map(|size| [Pool::None, Pool::Mean, Pool::Maximum].map(|pool| (size, pool)))
    {
        for (of_batch, relu) in [(true, true), (false, true), (true, false)] {
            if !relu && pool != Pool::None {
                continue;
            }
            let map = NormalisedMap {
                relu,
                ..map(size, pool, of_batch)
            };
            let shifted = |seed, by: f32| -> Vec<f32> {
                values(seed, map.channels).iter().map(|v| v + by).collect()
            };
            let tensors = [
                values(1, map.pixels() * map.channels),
                shifted(2, 0.5),
                shifted(3, 0.1),
                shifted(4, 0.0),
                shifted(5, 2.0),
            ];
            let [input, weight, bias, mean, variance] = &tensors;
            let parameters = NormParameters {
                weight,
                bias,
                mean,
                variance,
            };
            let mut wide = tensors
                .each_ref()
                .map(|t| t.iter().copied().map(f64::from).collect());
            let what = format!("{size:?} {pool:?} {of_batch} {relu}");

            let mut output = vec![f32::NAN; map.output_floats()];
            let [mut mean, mut variance] = [(); 2].map(|()| vec![f32::NAN; map.channels]);
            map.forward(input, &parameters, &mut output, [&mut mean, &mut variance]);
            assert_close(&output, &reference(&map, &wide), 1e-5, &what);

            let gradient = values(9, output.len());
            let mut found = [1, 0, 0]
                .map(|i: usize| vec![f32::NAN; if i == 1 { input.len() } else { map.channels }]);
            let [of_input, of_weight, of_bias] = &mut found;
            map.backward(
                input,
                &parameters,
                [&mean, &variance],
                &gradient,
                of_input,
                [of_weight, of_bias],
            );
            for (index, found) in found.iter().enumerate() {
                let expected: Vec<f64> = (0..found.len())
                    .map(|at| {
                        let before = wide[index][at];
                        let [above, below] = [1e-6, -1e-6].map(|by| {
                            wide[index][at] = before + by;
                            let result = reference(&map, &wide);
                            let pairs = result.iter().zip(&gradient);
                            pairs.map(|(r, g)| r * f64::from(*g)).sum::<f64>()
                        });
                        wide[index][at] = before;
                        (above - below) / 2e-6
                    })
                    .collect();
                assert_close(found, &expected, 1e-4, &format!("{what} {index}"));
            }
        }
    }
}
