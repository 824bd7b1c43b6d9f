//! Batch normalisation with what follows it, ReLU and pooling, over `[batch, height, width, channels]`.

use super::super::pool::Pool;
use super::affine::{Affine, Norm, NormParameters};
use super::channels::{add, add_moments, normalise, pass_relu, through_statistics_in_place};
use super::matrix::{Matrix, MatrixMut, Shared};
use super::memory::Memory;
use super::moments::{GradientSums, Moments};
use super::parallel::{PIECES, fold, for_each, map, parts};
use super::window::TILE;

/// Sizes of a normalised feature map, and what follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormalisedMap {
    pub batch: usize,
    pub height: usize,
    pub width: usize,
    pub channels: usize,
    pub norm: Norm,
    /// Whether negative values become zero; always where values are pooled.
    pub relu: bool,
    pub pool: Pool,
}

/// Rows `first..last` of the result for one image.
#[derive(Clone, Copy)]
struct Piece {
    image: usize,
    first: usize,
    last: usize,
}

impl NormalisedMap {
    /// Rows of the result.
    pub fn output_height(&self) -> usize {
        self.pool.output(self.height)
    }

    /// Columns of the result.
    pub fn output_width(&self) -> usize {
        self.pool.output(self.width)
    }

    /// Floats of the result.
    pub fn output_floats(&self) -> usize {
        self.batch * self.output_height() * self.output_width() * self.channels
    }

    fn pixels(&self) -> usize {
        self.batch * self.height * self.width
    }

    /// Floats of a row of the input.
    fn row(&self) -> usize {
        self.width * self.channels
    }

    fn pieces(&self) -> Vec<Piece> {
        // Every row of the input belongs to a piece, also one that the pool leaves out.
        let height = self.height.div_ceil(self.rows_each());
        let near = TILE / (self.row() * self.rows_each()).max(1);
        let shared = (self.batch * height).div_ceil(PIECES);
        let rows = near.min(shared).max(1);
        let of_image = |image| {
            (0..height).step_by(rows).map(move |first| Piece {
                image,
                first,
                last: height.min(first + rows),
            })
        };
        (0..self.batch).flat_map(of_image).collect()
    }

    /// Rows of the input for each of the result.
    fn rows_each(&self) -> usize {
        match self.pool {
            Pool::None => 1,
            Pool::Mean | Pool::Maximum => 2,
        }
    }

    /// Rows of the input, made to what is pooled.
    fn normalised(
        &self,
        input: &[f32],
        affine: &Affine,
        image: usize,
        rows: std::ops::Range<usize>,
    ) -> Memory {
        let pixels = rows.len() * self.width;
        let mut memory = Memory::take(pixels * self.channels);
        let mut output = MatrixMut::new(&mut memory, pixels, self.channels, self.channels);
        let input = self.matrix(input, image, rows);
        normalise(input, affine, self.relu, &mut output);
        memory
    }

    fn matrix<'a>(
        &self,
        input: &'a [f32],
        image: usize,
        rows: std::ops::Range<usize>,
    ) -> Matrix<'a> {
        let at = (image * self.height + rows.start) * self.row();
        let pixels = rows.len() * self.width;
        Matrix::new(&input[at..], pixels, self.channels, self.channels)
    }

    fn statistics(&self, input: &[f32], mean: &mut [f32], variance: &mut [f32]) {
        let tile = (TILE / self.channels.max(1)).max(1);
        let parts = map(self.pixels().div_ceil(tile), |index| {
            let first = index * tile;
            let rows = tile.min(self.pixels() - first);
            let input = &input[first * self.channels..];
            Moments::of(Matrix::new(input, rows, self.channels, self.channels))
        });
        Moments::merge(&parts, mean, variance);
    }

    /// The result, with the `mean` and the `variance` that were used.
    pub fn forward(
        &self,
        input: &[f32],
        parameters: &NormParameters,
        output: &mut [f32],
        [mean, variance]: [&mut [f32]; 2],
    ) {
        assert_eq!(input.len(), self.pixels() * self.channels);
        assert_eq!(output.len(), self.output_floats());
        if self.norm.of_batch {
            self.statistics(input, mean, variance);
        } else {
            mean.copy_from_slice(parameters.mean);
            variance.copy_from_slice(parameters.variance);
        }
        let affine = parameters.affine(self.norm, [mean, variance]);
        let (height, row) = (self.output_height(), self.output_width() * self.channels);
        let output = Shared::new(output);
        let pieces = self.pieces();
        for_each(pieces.len(), |index| {
            let piece = pieces[index];
            for at in piece.first..piece.last.min(height) {
                // SAFETY: each row of the result belongs to one piece.
                let output = unsafe { output.slice_mut((piece.image * height + at) * row, row) };
                let rows = self.pool.rows(at, self.height);
                if self.pool == Pool::None {
                    let input = self.matrix(input, piece.image, rows);
                    let mut output =
                        MatrixMut::new(output, self.width, self.channels, self.channels);
                    normalise(input, &affine, self.relu, &mut output);
                } else {
                    let rows = self.normalised(input, &affine, piece.image, rows);
                    self.pool.forward(&rows, self.width, self.channels, output);
                }
            }
        });
    }

    /// The gradients of the input and of the norm's weight and bias, from that of the result.
    pub fn backward(
        &self,
        input: &[f32],
        parameters: &NormParameters,
        [mean, variance]: [&[f32]; 2],
        gradient: &[f32],
        of_input: &mut [f32],
        [weight, bias]: [&mut [f32]; 2],
    ) {
        let affine = parameters.affine(self.norm, [mean, variance]);
        let pieces = self.pieces();
        let shared = Shared::new(of_input);
        let sums = fold(
            pieces.len(),
            parts(self.pixels()),
            || GradientSums::new(self.channels),
            |sums, index| {
                // SAFETY: each row of the input belongs to one piece.
                unsafe { self.back_to_norm(input, &affine, gradient, pieces[index], shared, sums) }
            },
            |sums, other| sums.merge(&other),
        );
        let [sum, moment] = sums.sums();
        affine.gradient(&sum, &moment, weight, bias);
        let slope = affine.slope(self.norm.of_batch, &sum, &moment, self.pixels());
        let tile = (TILE / self.channels.max(1)).max(1);
        for_each(self.pixels().div_ceil(tile), |index| {
            let (first, channels) = (index * tile, self.channels);
            let rows = tile.min(self.pixels() - first);
            let input = Matrix::new(&input[first * channels..], rows, channels, channels);
            // SAFETY: no two tiles share pixels.
            let mut of_input =
                unsafe { shared.matrix_mut(first * channels, rows, channels, channels) };
            through_statistics_in_place(input, &affine.mean, &slope, &mut of_input);
        });
    }

    /// The gradient behind the norm for the rows of `piece`, and its sums.
    ///
    /// # Safety
    ///
    /// Nothing else uses these rows of `of_input`.
    unsafe fn back_to_norm(
        &self,
        input: &[f32],
        affine: &Affine,
        gradient: &[f32],
        piece: Piece,
        of_input: Shared,
        sums: &mut GradientSums,
    ) {
        let (height, row) = (self.output_height(), self.output_width() * self.channels);
        let first = piece.first * self.rows_each();
        let last = self.height.min(piece.last * self.rows_each());
        let own = (piece.image * self.height + first) * self.row();
        // SAFETY: as the caller says.
        let of_rows = unsafe { of_input.slice_mut(own, (last - first) * self.row()) };
        of_rows.fill(0.0);
        // A maximum reaches into the rows of the piece before: the first of the next one does so here.
        let reach = usize::from(self.pool == Pool::Maximum);
        for at in piece.first..height.min(piece.last + reach) {
            let gradient = &gradient[(piece.image * height + at) * row..][..row];
            let rows = self.pool.rows(at, self.height);
            if self.pool == Pool::Maximum {
                let normalised = self.normalised(input, affine, piece.image, rows.clone());
                let mut whole = Memory::zeros(normalised.len());
                self.pool
                    .backward(&normalised, self.width, self.channels, gradient, &mut whole);
                let inside = rows.start.max(first)..rows.end.min(last);
                let skipped = (inside.start - rows.start) * self.row();
                let at = (inside.start - first) * self.row();
                let floats = inside.len() * self.row();
                add(
                    &mut of_rows[at..at + floats],
                    &whole[skipped..skipped + floats],
                );
            } else {
                let at = (rows.start - first) * self.row();
                let of_rows = &mut of_rows[at..at + rows.len() * self.row()];
                self.pool
                    .backward(&[], self.width, self.channels, gradient, of_rows);
            }
        }
        let pixels = (last - first) * self.width;
        let rows = self.matrix(input, piece.image, first..last);
        let mut of_rows = MatrixMut::new(of_rows, pixels, self.channels, self.channels);
        if self.relu {
            let output = self.normalised(input, affine, piece.image, first..last);
            let output = Matrix::new(&output, pixels, self.channels, self.channels);
            sums.add(|sum, moment| {
                pass_relu(rows, output, &affine.mean, &mut of_rows, sum, moment);
            });
        } else {
            sums.add(|sum, moment| {
                add_moments(rows, &affine.mean, of_rows.as_ref(), sum, moment);
            });
        }
    }
}

#[cfg(test)]
mod tests;
