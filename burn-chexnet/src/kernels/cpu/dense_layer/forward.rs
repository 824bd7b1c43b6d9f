//! The forward pass of a layer.

use super::super::channels::normalise;
use super::super::matrix::{MatrixMut, Shared};
use super::super::memory::Memory;
use super::super::moments::Moments;
use super::super::panels::Weights;
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
        assert_eq!(hidden.len(), self.block.pixels() * self.bottleneck);
        let parts = self.squeeze(buffer, parameters, hidden);
        if self.norms[1].of_batch {
            Moments::merge(&parts, mean, variance);
        } else {
            mean.copy_from_slice(parameters.norms[1].mean);
            variance.copy_from_slice(parameters.norms[1].variance);
        }
        self.grow(buffer, parameters, hidden, [mean, variance]);
    }

    fn squeeze(&self, buffer: Shared, parameters: &Parameters, hidden: &mut [f32]) -> Vec<Moments> {
        let [block, inputs, bottleneck] = [self.block.channels, self.inputs, self.bottleneck];
        let [mean, variance] = self.block.statistics_at();
        // SAFETY: nothing is written there now.
        let of_batch = [mean, variance].map(|at| unsafe { buffer.slice(at, inputs) });
        let affine = parameters.norms[0].affine(self.norms[0], of_batch);
        let weights = Weights {
            outputs: bottleneck,
            inputs,
            kernel: 1,
        };
        let panels = weights.forward(parameters.convolutions[0]);
        let hidden = Shared::new(hidden);
        let tile = self.block.tile(inputs);
        map(self.block.tiles(tile), |index| {
            let first = index * tile;
            let rows = tile.min(self.block.pixels() - first);
            // SAFETY: the channels that the layer reads are not written.
            let input = unsafe { buffer.matrix(first * block, rows, block, inputs) };
            let mut near = Memory::take(rows * inputs);
            let mut output = MatrixMut::new(&mut near, rows, inputs, inputs);
            normalise(input, &affine, true, &mut output);
            let starts = Starts::every(inputs, rows);
            self.pointwise()
                .multiply(&near, &starts, &panels, |column, columns| {
                    let at = first * bottleneck + column;
                    // SAFETY: no two tiles share pixels, and the columns are asked for once.
                    unsafe { hidden.matrix_mut(at, rows, bottleneck, columns) }
                });
            if self.norms[1].of_batch {
                // SAFETY: the tile's own pixels, which are complete.
                Moments::of(unsafe {
                    hidden.matrix(first * bottleneck, rows, bottleneck, bottleneck)
                })
            } else {
                Moments::default()
            }
        })
    }

    fn grow(
        &self,
        buffer: Shared,
        parameters: &Parameters,
        hidden: &[f32],
        [mean, variance]: [&[f32]; 2],
    ) {
        let affine = parameters.norms[1].affine(self.norms[1], [mean, variance]);
        let weights = Weights {
            outputs: self.growth,
            inputs: self.bottleneck,
            kernel: 3,
        };
        let panels = weights.forward(parameters.convolutions[1]);
        let window = self.neighbours(self.bottleneck);
        let parts = map(window.bands(), |index| {
            let band = window.band(index);
            let starts = window.starts(band.rows());
            let rows = window.rows_of(band, |row, pixels| {
                let input = self.row(hidden, band.image, row);
                let mut output = self.whole_row(pixels, self.bottleneck);
                normalise(input, &affine, true, &mut output);
            });
            // SAFETY: no two bands share pixels, and the columns are asked for once.
            let new = |column, columns| unsafe {
                let first = self.inputs + column;
                place(buffer, &window, band, self.block.channels, first, columns)
            };
            window.multiply(&rows, &starts, &panels, new);
            if self.block.statistics {
                Moments::of(new(0, self.growth).as_ref())
            } else {
                Moments::default()
            }
        });
        self.block.keep(buffer, &parts, self.inputs, self.growth);
    }
}
