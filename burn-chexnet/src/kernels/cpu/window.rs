//! A kernel that slides over pixels: which rows of the image a piece of the result needs, and the two
//! products on them.

use super::affine::Affine;
use super::matrix::{MatrixMut, Shared};
use super::memory::Memory;
use super::panels::Panels;
use super::parallel::PIECES;
use super::product::{Starts, Store, multiply, outer, panel_width};

/// Floats of a panel that stay in the first cache while row after row is multiplied with it.
const NEAR: usize = 6 * 1024;

/// Floats that a piece of work may touch: what stays in the second cache.
pub const TILE: usize = 64 * 1024;

/// A square kernel over feature maps, `[batch, height, width, channels]`, with `padding` zeros around.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    pub batch: usize,
    pub height: usize,
    pub width: usize,
    pub channels: usize,
    pub kernel: usize,
    pub stride: usize,
    pub padding: usize,
}

/// Rows `first..last` of the result for one image.
#[derive(Clone, Copy, Debug)]
pub struct Band {
    pub image: usize,
    pub first: usize,
    pub last: usize,
}

impl Band {
    pub fn rows(&self) -> usize {
        self.last - self.first
    }
}

impl Window {
    fn steps(&self, pixels: usize) -> usize {
        (pixels + 2 * self.padding - self.kernel) / self.stride + 1
    }

    /// Rows of the result.
    pub fn output_height(&self) -> usize {
        self.steps(self.height)
    }

    /// Columns of the result.
    pub fn output_width(&self) -> usize {
        self.steps(self.width)
    }

    /// Floats of one of its rows of a patch.
    fn depth(&self) -> usize {
        self.kernel * self.channels
    }

    /// Floats of a row of pixels with the padding.
    fn pitch(&self) -> usize {
        (self.width + 2 * self.padding) * self.channels
    }

    /// Rows of the result that are made together, so that what they need is near and there are some for
    /// all threads. (Half as many pieces as elsewhere: a band reads rows of its neighbours.)
    fn band_rows(&self) -> usize {
        let near = TILE / (self.pitch() * self.stride).max(1);
        let near = (near + self.stride).saturating_sub(self.kernel) / self.stride;
        let shared = (self.batch * self.output_height()).div_ceil(PIECES / 2);
        near.min(shared).clamp(1, self.output_height().max(1))
    }

    /// How many bands there are.
    pub fn bands(&self) -> usize {
        self.batch * self.output_height().div_ceil(self.band_rows())
    }

    /// Band `index`.
    pub fn band(&self, index: usize) -> Band {
        let (rows, height) = (self.band_rows(), self.output_height());
        let of_image = height.div_ceil(rows);
        let first = index % of_image * rows;
        Band {
            image: index / of_image,
            first,
            last: height.min(first + rows),
        }
    }

    /// The rows of the image that `band` needs, with the padding: `fill` writes the pixels of one row of
    /// the image.
    pub fn rows_of(&self, band: Band, mut fill: impl FnMut(usize, &mut [f32])) -> Memory {
        let rows = (band.rows() - 1) * self.stride + self.kernel;
        let mut memory = Memory::take(rows * self.pitch());
        let border = self.padding * self.channels;
        for (index, row) in memory.chunks_exact_mut(self.pitch()).enumerate() {
            let padded = band.first * self.stride + index;
            if padded < self.padding || padded >= self.height + self.padding {
                row.fill(0.0);
            } else {
                let (left, row) = row.split_at_mut(border);
                let (pixels, right) = row.split_at_mut(self.width * self.channels);
                left.fill(0.0);
                fill(padded - self.padding, pixels);
                right.fill(0.0);
            }
        }
        memory
    }

    /// Where the patches begin of the pixels of so many rows of the result.
    pub fn starts(&self, rows: usize) -> Starts {
        let width = self.output_width();
        let (down, right) = (self.stride * self.pitch(), self.stride * self.channels);
        Starts::new((0..rows * width).map(|pixel| pixel / width * down + pixel % width * right))
    }

    /// The result for pixels whose patches begin at `starts` of `rows`, with the norm `then` and its ReLU if there
    /// is one: `output` is where the columns go that it is asked for, the first one and how many.
    pub fn multiply<'a>(
        &self,
        rows: &[f32],
        starts: &Starts,
        panels: &Panels,
        then: Option<&Affine>,
        mut output: impl FnMut(usize, usize) -> MatrixMut<'a>,
    ) {
        debug_assert_eq!(panels.depth(), self.kernel * self.depth());
        let piece = NEAR / panel_width();
        for panel in 0..panels.count() {
            let (first, columns) = panels.columns(panel);
            let mut output = output(first, columns);
            let then = then
                .map(|affine| [&affine.scale, &affine.shift].map(|of| &of[first..first + columns]));
            for down in 0..self.kernel {
                for right in (0..self.depth()).step_by(piece) {
                    let is_last = down + 1 == self.kernel && right + piece >= self.depth();
                    multiply(
                        &rows[down * self.pitch() + right..],
                        starts,
                        piece.min(self.depth() - right),
                        panels.panel(panel, down * self.depth() + right),
                        &mut output,
                        Store {
                            add: down + right > 0,
                            then: then.filter(|_| is_last),
                        },
                    );
                }
            }
        }
    }

    /// Adds to `sums` what the pixels contribute to the gradient of the weights: `gradient` is that of the
    /// result, `[pixels, stride]`, of which the last panel may read more columns than there are outputs.
    pub fn outer(
        &self,
        rows: &[f32],
        starts: &Starts,
        gradient: &[f32],
        stride: usize,
        sums: &mut Panels,
    ) {
        for panel in 0..sums.count() {
            let (first, _) = sums.columns(panel);
            for down in 0..self.kernel {
                outer(
                    &rows[down * self.pitch()..],
                    starts,
                    self.depth(),
                    &gradient[first..],
                    stride,
                    sums.panel_mut(panel, down * self.depth()),
                );
            }
        }
    }
}

/// The places of the pixels of `band` in a result of `channels` channels that lie `stride` apart.
///
/// # Safety
///
/// As for [`Shared::matrix_mut`].
pub unsafe fn place<'a>(
    result: Shared<'a>,
    window: &Window,
    band: Band,
    stride: usize,
    first: usize,
    columns: usize,
) -> MatrixMut<'a> {
    let width = window.output_width();
    let pixel = (band.image * window.output_height() + band.first) * width;
    // SAFETY: as the caller says.
    unsafe { result.matrix_mut(pixel * stride + first, band.rows() * width, stride, columns) }
}
