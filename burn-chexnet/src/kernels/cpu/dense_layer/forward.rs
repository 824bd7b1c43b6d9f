//! The forward pass of a layer: for training, and without what only a backward pass needs.

use super::super::affine::{Affine, NormParameters};
use super::super::channels::normalise;
use super::super::matrix::{Matrix, MatrixMut, Shared};
use super::super::memory::Memory;
use super::super::moments::Moments;
use super::super::panels::Panels;
use super::super::parallel::map;
use super::super::product::Starts;
use super::super::window::place;
use super::{Layer, Parameters};

impl Layer {
    /// Writes the bottleneck, `[pixels, bottleneck]`, with the `mean` and `variance` that its norm used, and
    /// the new channels into `buffer`.
    ///
    /// # Safety
    ///
    /// Nothing else uses the memory of `buffer` until this returns.
    pub unsafe fn forward(
        &self,
        buffer: Shared,
        parameters: &Parameters,
        hidden: &mut [f32],
        [mean, variance]: [&mut [f32]; 2],
    ) {
        let [squeeze, growth] = parameters.convolutions;
        // SAFETY: nothing is written there now.
        let of_batch = self
            .block
            .statistics_at()
            .map(|at| unsafe { buffer.slice(at, self.inputs) });
        let first = parameters.norms[0].affine(self.norms[0], of_batch);
        let panels = self.squeeze_weights().forward(squeeze);
        let parts = self.squeeze(buffer, &first, &panels, None, hidden);
        if self.norms[1].of_batch {
            Moments::merge(&parts, mean, variance);
        } else {
            mean.copy_from_slice(parameters.norms[1].mean);
            variance.copy_from_slice(parameters.norms[1].variance);
        }
        let second = parameters.norms[1].affine(self.norms[1], [mean, variance]);
        let panels = self.growth_weights().forward(growth);
        self.grow(buffer, &panels, hidden, |input, output| {
            normalise(input, &second, true, output);
        });
    }

    /// Writes the new channels into `buffer`, where no norm is one over the batch and no backward pass follows: the
    /// second norm and its ReLU are part of the 1×1 convolution. `panels` are those of the convolutions' weights.
    ///
    /// # Safety
    ///
    /// As [`forward`](Self::forward).
    pub unsafe fn infer(
        &self,
        buffer: Shared,
        norms: [NormParameters; 2],
        [squeeze, growth]: [&Panels; 2],
    ) {
        let of_running = |index: usize| {
            let NormParameters { mean, variance, .. } = norms[index];
            norms[index].affine(self.norms[index], [mean, variance])
        };
        let mut hidden = Memory::take(self.block.pixels() * self.bottleneck);
        let (first, second) = (of_running(0), of_running(1));
        self.squeeze(buffer, &first, squeeze, Some(&second), &mut hidden);
        self.grow(buffer, growth, &hidden, |input, output| {
            for row in 0..input.rows() {
                output.row(row).copy_from_slice(input.row(row));
            }
        });
    }

    /// Norm `first`, ReLU and the 1×1 convolution, with the norm `then` and its ReLU or without, into `hidden`.
    fn squeeze(
        &self,
        buffer: Shared,
        first: &Affine,
        panels: &Panels,
        then: Option<&Affine>,
        hidden: &mut [f32],
    ) -> Vec<Moments> {
        let [block, inputs, bottleneck] = [self.block.channels, self.inputs, self.bottleneck];
        assert_eq!(hidden.len(), self.block.pixels() * bottleneck);
        let hidden = Shared::new(hidden);
        let tile = self.block.tile(inputs);
        map(self.block.tiles(tile), |index| {
            let pixel = index * tile;
            let rows = tile.min(self.block.pixels() - pixel);
            // SAFETY: the channels that the layer reads are not written.
            let input = unsafe { buffer.matrix(pixel * block, rows, block, inputs) };
            let mut near = Memory::take(rows * inputs);
            let mut output = MatrixMut::new(&mut near, rows, inputs, inputs);
            normalise(input, first, true, &mut output);
            let starts = Starts::every(inputs, rows);
            self.pointwise()
                .multiply(&near, &starts, panels, then, |column, columns| {
                    let at = pixel * bottleneck + column;
                    // SAFETY: no two tiles share pixels, and the columns are asked for once.
                    unsafe { hidden.matrix_mut(at, rows, bottleneck, columns) }
                });
            if self.norms[1].of_batch {
                // SAFETY: the tile's own pixels, which are complete.
                Moments::of(unsafe {
                    hidden.matrix(pixel * bottleneck, rows, bottleneck, bottleneck)
                })
            } else {
                Moments::default()
            }
        })
    }

    /// The 3×3 convolution of what `activate` makes of a row of `hidden`, into `buffer`.
    fn grow(
        &self,
        buffer: Shared,
        panels: &Panels,
        hidden: &[f32],
        activate: impl Fn(Matrix, &mut MatrixMut) + Sync,
    ) {
        let window = self.neighbours(self.bottleneck);
        let parts = map(window.bands(), |index| {
            let band = window.band(index);
            let starts = window.starts(band.rows());
            let rows = window.rows_of(band, |row, pixels| {
                let input = self.row(hidden, band.image, row);
                activate(input, &mut self.whole_row(pixels, self.bottleneck));
            });
            // SAFETY: no two bands share pixels, and the columns are asked for once.
            let new = |column, columns| unsafe {
                let first = self.inputs + column;
                place(buffer, &window, band, self.block.channels, first, columns)
            };
            window.multiply(&rows, &starts, panels, None, new);
            if self.block.statistics {
                Moments::of(new(0, self.growth).as_ref())
            } else {
                Moments::default()
            }
        });
        self.block.keep(buffer, &parts, self.inputs, self.growth);
    }
}
