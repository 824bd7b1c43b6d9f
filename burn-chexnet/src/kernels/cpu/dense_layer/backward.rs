//! The backward pass of a layer. What the forward pass normalised is made again and not kept.

use super::super::affine::Affine;
use super::super::channels::{normalise, pass_relu, through_statistics};
use super::super::matrix::{Matrix, MatrixMut, Shared};
use super::super::memory::Memory;
use super::super::moments::GradientSums;
use super::super::panels::Panels;
use super::super::parallel::{fold, parts};
use super::super::product::{SUMS, Starts, multiply, outer, panel_width};
use super::super::window::{Band, Window, place};
use super::rows::{accumulate, normalise_to_panels};
use super::{Layer, Parameters};

/// Where the gradients of a layer's weights go.
pub struct Gradients<'a> {
    /// Of the weight and the bias of each norm.
    pub norms: [[&'a mut [f32]; 2]; 2],
    pub convolutions: [&'a mut [f32]; 2],
}

/// What a part of a pass adds up, and then all of it.
struct Part {
    weights: Panels,
    /// Of the gradient behind the norm.
    sums: GradientSums,
}

impl Part {
    fn new(depth: usize, columns: usize, channels: usize) -> Self {
        Self {
            weights: Panels::zeros(depth, columns),
            sums: GradientSums::new(channels),
        }
    }

    fn merge(&mut self, other: Self) {
        self.weights.add(&other.weights);
        self.sums.merge(&other.sums);
    }
}

impl Layer {
    /// Completes the gradient of the channels that the layer read, in the memory of `gradient`, and writes
    /// those of its weights. `hidden`, `mean` and `variance` are what the forward pass wrote.
    pub fn backward(
        &self,
        buffer: &[f32],
        gradient: &mut [f32],
        parameters: &Parameters,
        hidden: &[f32],
        [mean, variance]: [&[f32]; 2],
        out: Gradients,
    ) {
        assert_eq!(buffer.len(), self.block.floats());
        assert_eq!(gradient.len(), self.block.floats());
        let affine = parameters.norms[1].affine(self.norms[1], [mean, variance]);
        let [[weight_1, bias_1], [weight_2, bias_2]] = out.norms;
        let [convolution_1, convolution_2] = out.convolutions;

        // Of the bottleneck behind its norm and ReLU, where that let it through.
        let mut passed = Memory::take(hidden.len());
        let part = self.through_growth(buffer, gradient, parameters, &affine, hidden, &mut passed);
        self.growth_weights().gradient(&part.weights, convolution_2);
        let [sum, moment] = part.sums.sums();
        drop(part);
        affine.gradient(&sum, &moment, weight_2, bias_2);
        let slope = affine.slope(self.norms[1].of_batch, &sum, &moment, self.block.pixels());

        let [mean, variance] = self.block.statistics_at();
        let of_batch = [mean, variance].map(|at| &buffer[at..at + self.inputs]);
        let affine_1 = parameters.norms[0].affine(self.norms[0], of_batch);
        let tile = |first: usize, rows: usize| {
            // What the products read of a row must not lie as far from the next one as the caches' sets.
            let stride = self.bottleneck.next_multiple_of(16) + 16;
            let of = |values| Matrix::new(values, rows, self.bottleneck, self.bottleneck);
            let mut near = Memory::take(rows * stride);
            let mut output = MatrixMut::new(&mut near, rows, stride, self.bottleneck);
            let first = first * self.bottleneck;
            through_statistics(
                of(&hidden[first..]),
                &affine.mean,
                &slope,
                of(&passed[first..]),
                &mut output,
            );
            (near, stride)
        };
        let part = self.through_squeeze(buffer, gradient, parameters, &affine_1, tile);
        self.squeeze_weights()
            .gradient_of_transposed(&part.weights, convolution_1);
        let [sum, moment] = part.sums.sums();
        affine_1.gradient(&sum, &moment, weight_1, bias_1);
        if self.norms[0].of_batch {
            for channel in 0..self.inputs {
                let (scale, inverse) = (affine_1.scale[channel], affine_1.inverse[channel]);
                gradient[mean + channel] -= scale * sum[channel];
                gradient[variance + channel] -= 0.5 * scale * inverse * inverse * moment[channel];
            }
        }
    }

    /// Back through the 3×3 convolution and the ReLU before it, into `passed`.
    fn through_growth(
        &self,
        buffer: &[f32],
        gradient: &[f32],
        parameters: &Parameters,
        affine: &Affine,
        hidden: &[f32],
        passed: &mut [f32],
    ) -> Part {
        let width = self.block.width;
        let window = self.neighbours(self.bottleneck);
        let own = self.neighbours(self.growth);
        let panels = self.growth_weights().turned(parameters.convolutions[1]);
        let slope = self.block.slope(gradient, self.inputs, self.growth);
        let mean = &buffer[self.block.statistics_at()[0] + self.inputs..][..self.growth];
        let wide = self.growth.next_multiple_of(panel_width());
        let passed = Shared::new(passed);
        fold(
            window.bands(),
            parts(self.block.pixels()),
            || Part::new(9 * self.bottleneck, self.growth, self.bottleneck),
            |part, index| {
                let band = window.band(index);
                let of_new = own.rows_of(band, |row, pixels| {
                    let of = |values| self.new_channels(values, band.image, row);
                    let mut output = self.whole_row(pixels, self.growth);
                    through_statistics(of(buffer), mean, &slope, of(gradient), &mut output);
                });
                let normalised = window.rows_of(band, |row, pixels| {
                    let input = self.row(hidden, band.image, row);
                    let mut output = self.whole_row(pixels, self.bottleneck);
                    normalise(input, affine, true, &mut output);
                });

                let inner = inner_pixels(&of_new, &own, band, wide);
                let starts = window.starts(band.rows());
                window.outer(&normalised, &starts, &inner, wide, &mut part.weights);

                let starts = own.starts(band.rows());
                own.multiply(&of_new, &starts, &panels, None, |column, columns| {
                    // SAFETY: no two bands share pixels, and the columns are asked for once.
                    unsafe { place(passed, &own, band, self.bottleneck, column, columns) }
                });
                part.sums.add(|sum, moment| {
                    for row in 0..band.rows() {
                        let pixel = (row + 1) * (width + 2) + 1;
                        let output = &normalised[pixel * self.bottleneck..];
                        let one = Band {
                            first: band.first + row,
                            last: band.first + row + 1,
                            ..band
                        };
                        // SAFETY: the band's own pixels.
                        let mut passed = unsafe {
                            place(passed, &own, one, self.bottleneck, 0, self.bottleneck)
                        };
                        pass_relu(
                            self.row(hidden, band.image, one.first),
                            Matrix::new(output, width, self.bottleneck, self.bottleneck),
                            &affine.mean,
                            &mut passed,
                            sum,
                            moment,
                        );
                    }
                });
            },
            Part::merge,
        )
    }

    /// Back through the 1×1 convolution and the norm and ReLU before it, into `gradient`. `tile` makes the
    /// gradient of so many pixels of the bottleneck, and says how far they lie apart.
    fn through_squeeze(
        &self,
        buffer: &[f32],
        gradient: &mut [f32],
        parameters: &Parameters,
        affine: &Affine,
        tile: impl Fn(usize, usize) -> (Memory, usize) + Sync,
    ) -> Part {
        let (channels, inputs) = (self.block.channels, self.inputs);
        let panels = self
            .squeeze_weights()
            .transposed(parameters.convolutions[0]);
        let width = panel_width();
        let pixels = self.block.tile(2 * inputs);
        let gradient = Shared::new(gradient);
        fold(
            self.block.tiles(pixels),
            parts(self.block.pixels()),
            || Part::new(self.bottleneck, inputs, inputs),
            |part, index| {
                let first = index * pixels;
                let rows = pixels.min(self.block.pixels() - first);
                let (hidden, stride) = tile(first, rows);
                let starts = Starts::every(stride, rows);
                let input = Matrix::new(&buffer[first * channels..], rows, channels, inputs);
                let mut normalised = Memory::take(panels.count() * rows * width);
                normalise_to_panels(input, affine, &mut normalised);
                let mut of_input = Memory::take(normalised.len());
                for panel in 0..panels.count() {
                    let at = panel * rows * width;
                    let normalised = &normalised[at..at + rows * width];
                    outer(
                        &hidden,
                        &starts,
                        self.bottleneck,
                        normalised,
                        width,
                        part.weights.panel_mut(panel, 0),
                    );
                    let of_input = &mut of_input[at..at + rows * width];
                    let mut of_input = MatrixMut::new(of_input, rows, width, width);
                    let weights = panels.panel(panel, 0);
                    multiply(
                        &hidden,
                        &starts,
                        self.bottleneck,
                        weights,
                        &mut of_input,
                        SUMS,
                    );
                }
                // SAFETY: no two tiles share pixels, and these channels are only written here.
                let mut gradient =
                    unsafe { gradient.matrix_mut(first * channels, rows, channels, inputs) };
                part.sums.add(|sum, moment| {
                    accumulate(
                        input,
                        &normalised,
                        &of_input,
                        affine,
                        &mut gradient,
                        sum,
                        moment,
                    );
                });
            },
            Part::merge,
        )
    }

    /// The layer's own channels of a row of pixels.
    fn new_channels<'a>(&self, values: &'a [f32], image: usize, row: usize) -> Matrix<'a> {
        let (width, channels) = (self.block.width, self.block.channels);
        let first = (image * self.block.height + row) * width;
        let values = &values[first * channels + self.inputs..];
        Matrix::new(values, width, channels, self.growth)
    }
}

/// The pixels of `band` without those around it, `stride` apart.
fn inner_pixels(rows: &[f32], window: &Window, band: Band, stride: usize) -> Memory {
    let (width, channels) = (window.width, window.channels);
    let mut inner = Memory::take(band.rows() * width * stride);
    for (index, inner) in inner.chunks_exact_mut(stride).enumerate() {
        let pixel = (index / width + 1) * (width + 2) + index % width + 1;
        let (inner, behind) = inner.split_at_mut(channels);
        inner.copy_from_slice(&rows[pixel * channels..][..channels]);
        behind.fill(0.0);
    }
    inner
}
