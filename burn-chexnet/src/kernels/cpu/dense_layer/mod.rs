//! A layer of a dense block on the block's one buffer: it reads the channels that are there and
//! writes its own behind them, so nothing is concatenated, and the statistics of a channel are taken
//! once and not by each of the layers that read it.
//!
//! The buffer is `[batch, height, width, channels]`, then the mean of each channel, then its variance.
//! Its gradient lies the same way: what a layer's first norm sends back through the statistics goes to
//! the end, and reaches a channel when the layer that made it is gone through, or the block is left.

mod backward;
mod forward;
mod rows;

use super::affine::{Norm, NormParameters, Slope};
use super::channels::through_statistics;
use super::matrix::{Matrix, MatrixMut, Shared};
use super::moments::Moments;
use super::panels::Weights;
use super::parallel::{PIECES, for_each, map};
use super::window::{TILE, Window};

pub use backward::Gradients;

/// Sizes of a block's buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Block {
    pub batch: usize,
    pub height: usize,
    pub width: usize,
    /// Channels when the block is complete.
    pub channels: usize,
    /// Whether the statistics of all channels are taken, which norms over the batch need.
    pub statistics: bool,
}

/// A layer: norm, ReLU, 1×1 convolution to the bottleneck; norm, ReLU, 3×3 convolution to the growth rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layer {
    pub block: Block,
    /// Channels that it reads.
    pub inputs: usize,
    /// Channels between its convolutions.
    pub bottleneck: usize,
    /// Channels that it writes, behind those that it reads.
    pub growth: usize,
    pub norms: [Norm; 2],
}

/// Weights of a layer.
pub struct Parameters<'a> {
    pub norms: [NormParameters<'a>; 2],
    /// `[bottleneck, inputs]` and `[growth, bottleneck, 3, 3]`.
    pub convolutions: [&'a [f32]; 2],
}

impl Block {
    /// Pixels of all images.
    pub fn pixels(&self) -> usize {
        self.batch * self.height * self.width
    }

    /// Floats of the buffer.
    pub fn floats(&self) -> usize {
        self.pixels() * self.channels + 2 * self.channels
    }

    /// Where the means and the variances begin.
    fn statistics_at(&self) -> [usize; 2] {
        let mean = self.pixels() * self.channels;
        [mean, mean + self.channels]
    }

    /// Pixels that are worked on together: so many that what is read of them stays near, and that there
    /// are some for all threads.
    fn tile(&self, channels: usize) -> usize {
        let near = (TILE / channels.max(1)).clamp(48, 240);
        let shared = self.pixels().div_ceil(PIECES);
        near.min(shared)
            .next_multiple_of(24)
            .min(self.pixels())
            .max(1)
    }

    fn tiles(&self, tile: usize) -> usize {
        self.pixels().div_ceil(tile)
    }

    /// Mean and variance of channels from `first` on, of which there are `channels`, from those of parts.
    fn keep(&self, buffer: Shared, parts: &[Moments], first: usize, channels: usize) {
        if self.statistics {
            let [mean, variance] = self.statistics_at();
            // SAFETY: behind all pixels, where no other thread is now.
            let (mean, variance) = unsafe {
                (
                    buffer.slice_mut(mean + first, channels),
                    buffer.slice_mut(variance + first, channels),
                )
            };
            Moments::merge(parts, mean, variance);
        }
    }

    /// Takes `input`, `[pixels, channels]`, for the first channels of `buffer`.
    pub fn enter(&self, input: &[f32], channels: usize, buffer: &mut [f32]) {
        assert_eq!(buffer.len(), self.floats());
        let buffer = Shared::new(buffer);
        let tile = self.tile(channels);
        let parts = map(self.tiles(tile), |index| {
            let first = index * tile;
            let rows = tile.min(self.pixels() - first);
            let input = Matrix::new(&input[first * channels..], rows, channels, channels);
            // SAFETY: no two tiles share pixels.
            let mut output =
                unsafe { buffer.matrix_mut(first * self.channels, rows, self.channels, channels) };
            for row in 0..rows {
                output.row(row).copy_from_slice(input.row(row));
            }
            if self.statistics {
                Moments::of(input)
            } else {
                Moments::default()
            }
        });
        self.keep(buffer, &parts, 0, channels);
    }

    /// The gradient of what the block was entered with, from the buffer and its gradient.
    pub fn enter_gradient(
        &self,
        buffer: &[f32],
        gradient: &[f32],
        channels: usize,
        input: &mut [f32],
    ) {
        assert_eq!(input.len(), self.pixels() * channels);
        let slope = self.slope(gradient, 0, channels);
        let mean = &buffer[self.statistics_at()[0]..][..channels];
        let input = Shared::new(input);
        let tile = self.tile(channels);
        for_each(self.tiles(tile), |index| {
            let first = index * tile;
            let rows = tile.min(self.pixels() - first);
            let of = |values| -> Matrix {
                let values: &[f32] = values;
                Matrix::new(
                    &values[first * self.channels..],
                    rows,
                    self.channels,
                    channels,
                )
            };
            // SAFETY: no two tiles share pixels.
            let mut input = unsafe { input.matrix_mut(first * channels, rows, channels, channels) };
            through_statistics(of(buffer), mean, &slope, of(gradient), &mut input);
        });
    }

    /// The gradient of the buffer from that of its channels, `[pixels, channels]`.
    pub fn exit_gradient(&self, output: &[f32], gradient: &mut [f32]) {
        let pixels = self.pixels() * self.channels;
        let (channels, statistics) = gradient.split_at_mut(pixels);
        let tile = self.tile(self.channels) * self.channels;
        let shared = Shared::new(channels);
        for_each(pixels.div_ceil(tile), |index| {
            let first = index * tile;
            let floats = tile.min(pixels - first);
            // SAFETY: no two tiles share pixels.
            let channels = unsafe { shared.slice_mut(first, floats) };
            channels.copy_from_slice(&output[first..first + floats]);
        });
        statistics.fill(0.0);
    }

    /// How the gradient of channels from `first` on is completed by what came through their statistics.
    fn slope(&self, gradient: &[f32], first: usize, channels: usize) -> Slope {
        let [mean, variance] = self.statistics_at();
        let pixels = self.pixels() as f32;
        let of = |at: usize, factor: f32| {
            let values = &gradient[at + first..][..channels];
            values.iter().map(|value| value * factor / pixels).collect()
        };
        Slope {
            slope: vec![1.0; channels],
            tilt: of(variance, 2.0),
            offset: of(mean, 1.0),
        }
    }
}

impl Layer {
    /// Mean and variance that the first norm uses.
    pub fn statistics<'a>(&self, buffer: &'a [f32], parameters: &Parameters<'a>) -> [&'a [f32]; 2] {
        if self.norms[0].of_batch {
            self.block
                .statistics_at()
                .map(|at| &buffer[at..at + self.inputs])
        } else {
            [parameters.norms[0].mean, parameters.norms[0].variance]
        }
    }

    /// Sizes of the weights of the 1×1 convolution.
    pub fn squeeze_weights(&self) -> Weights {
        Weights {
            outputs: self.bottleneck,
            inputs: self.inputs,
            kernel: 1,
        }
    }

    /// Sizes of the weights of the 3×3 convolution.
    pub fn growth_weights(&self) -> Weights {
        Weights {
            outputs: self.growth,
            inputs: self.bottleneck,
            kernel: 3,
        }
    }

    /// The 1×1 convolution over the channels that the layer reads.
    fn pointwise(&self) -> Window {
        self.window(self.inputs, 1)
    }

    /// The 3×3 convolution over `channels`.
    fn neighbours(&self, channels: usize) -> Window {
        self.window(channels, 3)
    }

    fn window(&self, channels: usize, kernel: usize) -> Window {
        Window {
            batch: self.block.batch,
            height: self.block.height,
            width: self.block.width,
            channels,
            kernel,
            stride: 1,
            padding: kernel / 2,
        }
    }

    /// A row of the bottleneck, `[width, bottleneck]`.
    fn row<'a>(&self, hidden: &'a [f32], image: usize, row: usize) -> Matrix<'a> {
        let width = self.block.width;
        let first = (image * self.block.height + row) * width;
        Matrix::new(
            &hidden[first * self.bottleneck..],
            width,
            self.bottleneck,
            self.bottleneck,
        )
    }

    fn whole_row<'a>(&self, row: &'a mut [f32], channels: usize) -> MatrixMut<'a> {
        MatrixMut::new(row, self.block.width, channels, channels)
    }
}

#[cfg(test)]
mod tests;
