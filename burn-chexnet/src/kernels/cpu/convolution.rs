//! Convolutions over feature maps, `[batch, height, width, channels]`.

use super::channels::add;
use super::matrix::Shared;
use super::memory::Memory;
use super::panels::{Panels, Weights};
use super::parallel::{fold, for_each, parts};
use super::product::{SUMS, Starts, multiply, panel_width};
use super::window::{Band, TILE, Window, place};

/// A convolution without groups, dilation and bias, with a square kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Convolution {
    /// The kernel over the input.
    pub window: Window,
    /// Channels of the result.
    pub outputs: usize,
}

impl Convolution {
    /// Sizes of the weights.
    pub fn weights(&self) -> Weights {
        Weights {
            outputs: self.outputs,
            inputs: self.window.channels,
            kernel: self.window.kernel,
        }
    }

    /// Floats of the result.
    pub fn output_floats(&self) -> usize {
        let window = &self.window;
        window.batch * window.output_height() * window.output_width() * self.outputs
    }

    /// The rows of the input that `band` needs.
    fn rows_of(&self, band: Band, input: &[f32]) -> Memory {
        let row = self.window.width * self.window.channels;
        self.window.rows_of(band, |index, pixels| {
            let at = (band.image * self.window.height + index) * row;
            pixels.copy_from_slice(&input[at..at + row]);
        })
    }

    /// `f` with the rows of the input that `band` needs; without a copy where none is needed.
    fn with_rows<R>(&self, band: Band, input: &[f32], f: impl FnOnce(&[f32]) -> R) -> R {
        let window = &self.window;
        if window.padding > 0 {
            f(&self.rows_of(band, input))
        } else {
            let row = window.width * window.channels;
            let first = band.image * window.height + band.first * window.stride;
            f(&input[first * row..(band.image + 1) * window.height * row])
        }
    }

    /// The result.
    pub fn forward(&self, input: &[f32], weights: &[f32], output: &mut [f32]) {
        let panels = self.weights().forward(weights);
        self.apply(&panels, input, output);
    }

    /// The result with weights that were made panels of.
    pub fn apply(&self, panels: &Panels, input: &[f32], output: &mut [f32]) {
        let window = &self.window;
        assert_eq!(output.len(), self.output_floats());
        let output = Shared::new(output);
        for_each(window.bands(), |index| {
            let band = window.band(index);
            let starts = window.starts(band.rows());
            self.with_rows(band, input, |rows| {
                window.multiply(rows, &starts, panels, None, |first, columns| {
                    // SAFETY: no two bands share pixels, and the columns are asked for once.
                    unsafe { place(output, window, band, self.outputs, first, columns) }
                });
            });
        });
    }

    /// The gradient of the weights from that of the result.
    pub fn weight_gradient(&self, input: &[f32], gradient: &[f32], weights: &mut [f32]) {
        let window = &self.window;
        let pixels = window.output_width();
        let stride = self.outputs.next_multiple_of(panel_width());
        let sums = fold(
            window.bands(),
            parts(window.batch * window.output_height() * pixels),
            || Panels::zeros(self.weights().patch(), self.outputs),
            |sums, index| {
                let band = window.band(index);
                let starts = window.starts(band.rows());
                let first = (band.image * window.output_height() + band.first) * pixels;
                let own = &gradient[first * self.outputs..][..starts.len() * self.outputs];
                self.with_rows(band, input, |rows| {
                    if stride == self.outputs {
                        window.outer(rows, &starts, own, stride, sums);
                    } else {
                        let own = widened(own, self.outputs, stride);
                        window.outer(rows, &starts, &own, stride, sums);
                    }
                });
            },
            |sums, others| sums.add(&others),
        );
        self.weights().gradient(&sums, weights);
    }

    /// The gradient of the input from that of the result.
    pub fn input_gradient(&self, weights: &[f32], gradient: &[f32], input: &mut [f32]) {
        let window = self.window;
        if window.stride == 1 && window.padding < window.kernel {
            let turned = Self {
                window: Window {
                    height: window.output_height(),
                    width: window.output_width(),
                    channels: self.outputs,
                    padding: window.kernel - 1 - window.padding,
                    ..window
                },
                outputs: window.channels,
            };
            turned.apply(&self.weights().turned(weights), gradient, input);
        } else {
            self.scatter(weights, gradient, input);
        }
    }

    /// The gradient of each patch, added where the patch was.
    fn scatter(&self, weights: &[f32], gradient: &[f32], input: &mut [f32]) {
        let window = &self.window;
        let (height, width) = (window.output_height(), window.output_width());
        let depth = window.kernel * window.channels;
        let image = window.height * window.width * window.channels;
        let patch = self.weights().patch();
        let panels = self.weights().transposed(weights);
        let rows = (TILE / (patch * width)).clamp(1, height);
        let input = Shared::new(input);
        for_each(window.batch, |index| {
            // SAFETY: each image has its own item.
            let input = unsafe { input.slice_mut(index * image, image) };
            input.fill(0.0);
            let mut patches = Memory::take(rows * width * patch);
            for first in (0..height).step_by(rows) {
                let rows = rows.min(height - first);
                let starts = Starts::every(self.outputs, rows * width);
                let own = &gradient[(index * height + first) * width * self.outputs..];
                let shared = Shared::new(&mut patches);
                for panel in 0..panels.count() {
                    let (column, columns) = panels.columns(panel);
                    // SAFETY: nothing else knows the patches.
                    let mut output =
                        unsafe { shared.matrix_mut(column, rows * width, patch, columns) };
                    let panel = panels.panel(panel, 0);
                    multiply(own, &starts, self.outputs, panel, &mut output, SUMS);
                }
                for (pixel, patch) in patches.chunks_exact(patch).take(rows * width).enumerate() {
                    let top = (first + pixel / width) * window.stride;
                    let left = pixel % width * window.stride;
                    for (down, row) in patch.chunks_exact(depth).enumerate() {
                        self.add_row(input, top + down, left, row);
                    }
                }
            }
        });
    }

    /// Adds pixels from column `left` on to row `top` of an image, both counted with the padding.
    fn add_row(&self, image: &mut [f32], top: usize, left: usize, row: &[f32]) {
        let Window {
            height,
            width,
            channels,
            padding,
            ..
        } = self.window;
        if top < padding || top >= height + padding {
            return;
        }
        let outside = padding.saturating_sub(left);
        let first = left.saturating_sub(padding);
        let pixels = self
            .window
            .kernel
            .min(width + padding - left.min(width + padding));
        if outside < pixels {
            let row = &row[outside * channels..pixels * channels];
            let at = ((top - padding) * width + first) * channels;
            add(&mut image[at..at + row.len()], row);
        }
    }
}

/// `rows` of `width` floats, `stride` apart, with zeros between.
fn widened(rows: &[f32], width: usize, stride: usize) -> Memory {
    let mut wide = Memory::zeros(rows.len() / width * stride);
    for (wide, row) in wide.chunks_exact_mut(stride).zip(rows.chunks_exact(width)) {
        wide[..width].copy_from_slice(row);
    }
    wide
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::cpu::reference::{assert_close, values};

    /// Kernel, stride, padding, batch, height, width, channels, outputs.
    const CASES: &[[usize; 8]] = &[
        [1, 1, 0, 1, 1, 1, 1, 1],
        [1, 1, 0, 2, 7, 5, 3, 33],
        [1, 1, 0, 8, 3, 3, 70, 17],
        [1, 2, 0, 2, 7, 5, 3, 4],
        [3, 1, 1, 1, 1, 1, 1, 1],
        [3, 1, 1, 2, 7, 5, 16, 32],
        [3, 1, 1, 3, 9, 8, 130, 3],
        [3, 2, 1, 2, 8, 7, 5, 6],
        [3, 1, 0, 1, 5, 6, 2, 2],
        [3, 1, 2, 1, 4, 3, 2, 5],
        [3, 1, 4, 1, 3, 2, 2, 5],
        [5, 3, 2, 1, 9, 11, 2, 3],
        [7, 2, 3, 2, 17, 15, 3, 20],
        [2, 2, 0, 1, 5, 5, 2, 2],
    ];

    fn convolution(case: &[usize; 8]) -> Convolution {
        let [
            kernel,
            stride,
            padding,
            batch,
            height,
            width,
            channels,
            outputs,
        ] = *case;
        Convolution {
            window: Window {
                batch,
                height,
                width,
                channels,
                kernel,
                stride,
                padding,
            },
            outputs,
        }
    }

    /// For each product of the convolution: where its result, its input and its weight are.
    fn products(c: &Convolution, mut each: impl FnMut(usize, usize, usize)) {
        let w = &c.window;
        let (height, width) = (w.output_height(), w.output_width());
        for pixel in 0..w.batch * height * width {
            let (image, y, x) = (
                pixel / width / height,
                pixel / width % height,
                pixel % width,
            );
            for output in 0..c.outputs {
                for place in 0..w.kernel * w.kernel * w.channels {
                    let (down, right) = (place / w.kernel % w.kernel, place % w.kernel);
                    let channel = place / w.kernel / w.kernel;
                    let (y, x) = (y * w.stride + down, x * w.stride + right);
                    let inside = |at: usize, size| (w.padding..size + w.padding).contains(&at);
                    if inside(y, w.height) && inside(x, w.width) {
                        let y = image * w.height + y - w.padding;
                        each(
                            pixel * c.outputs + output,
                            (y * w.width + x - w.padding) * w.channels + channel,
                            output * w.kernel * w.kernel * w.channels + place,
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn results_and_gradients_are_those_of_the_definition() {
        for case in CASES {
            let c = convolution(case);
            let w = &c.window;
            let input = values(1, w.batch * w.height * w.width * w.channels);
            let weights = values(2, c.outputs * c.weights().patch());
            let gradient = values(3, c.output_floats());
            let mut expected = [
                vec![0.0; gradient.len()],
                vec![0.0; input.len()],
                vec![0.0; weights.len()],
            ];
            products(&c, |result, from, weight| {
                let [x, k, g] = [input[from], weights[weight], gradient[result]].map(f64::from);
                expected[0][result] += x * k;
                expected[1][from] += g * k;
                expected[2][weight] += g * x;
            });
            let mut found = expected.each_ref().map(|e| vec![f32::NAN; e.len()]);
            c.forward(&input, &weights, &mut found[0]);
            c.input_gradient(&weights, &gradient, &mut found[1]);
            c.weight_gradient(&input, &gradient, &mut found[2]);
            for (found, expected) in found.iter().zip(&expected) {
                assert_close(found, expected, 1e-6, &format!("{case:?}"));
            }
        }
    }
}
