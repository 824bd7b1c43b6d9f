//! Weights as the products take them: panels of columns, and back.

use super::channels;
use super::matrix::Shared;
use super::memory::Memory;
use super::parallel::for_each;
use super::product::panel_width;

/// Rows that are filled together, so that what is read of a column comes with one line of the cache.
const NEAR: usize = 16;

/// Sizes of the weights of a convolution, `[outputs, inputs, kernel, kernel]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weights {
    pub outputs: usize,
    pub inputs: usize,
    pub kernel: usize,
}

/// A matrix `[depth, columns]` cut into panels, `[panels, depth, panel width]`; the columns that the
/// last one has too many are zero.
pub struct Panels {
    memory: Memory,
    depth: usize,
    columns: usize,
}

impl Panels {
    /// Of zeros, for sums.
    pub fn zeros(depth: usize, columns: usize) -> Self {
        let panels = columns.div_ceil(panel_width());
        Self {
            memory: Memory::zeros(panels * depth * panel_width()),
            depth,
            columns,
        }
    }

    /// `values[rows[k] + columns[c]]` in row k of column c.
    fn of(values: &[f32], rows: &[usize], columns: &[usize]) -> Self {
        let (width, depth) = (panel_width(), rows.len());
        let panels = columns.len().div_ceil(width);
        let mut memory = Memory::take(panels * depth * width);
        let shared = Shared::new(&mut memory);
        for_each(panels, |index| {
            let columns = &columns[index * width..columns.len().min((index + 1) * width)];
            // SAFETY: each panel is written by one item.
            let panel = unsafe { shared.slice_mut(index * depth * width, depth * width) };
            for (panel, rows) in panel.chunks_mut(NEAR * width).zip(rows.chunks(NEAR)) {
                for (c, column) in columns.iter().enumerate() {
                    for (row, from) in panel.chunks_exact_mut(width).zip(rows) {
                        row[c] = values[from + column];
                    }
                }
                for row in panel.chunks_exact_mut(width) {
                    row[columns.len()..].fill(0.0);
                }
            }
        });
        Self {
            memory,
            depth,
            columns: columns.len(),
        }
    }

    /// Adds panels of the same sizes.
    pub fn add(&mut self, other: &Self) {
        channels::add(&mut self.memory, &other.memory);
    }

    pub fn count(&self) -> usize {
        self.columns.div_ceil(panel_width())
    }

    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Columns of panel `index`: its first one, and how many it has.
    pub fn columns(&self, index: usize) -> (usize, usize) {
        let first = index * panel_width();
        (first, panel_width().min(self.columns - first))
    }

    /// Panel `index` from row `k` on.
    pub fn panel(&self, index: usize, k: usize) -> &[f32] {
        let width = panel_width();
        &self.memory[(index * self.depth + k) * width..(index + 1) * self.depth * width]
    }

    /// Panel `index` from row `k` on, to write.
    pub fn panel_mut(&mut self, index: usize, k: usize) -> &mut [f32] {
        let width = panel_width();
        &mut self.memory[(index * self.depth + k) * width..(index + 1) * self.depth * width]
    }
}

impl Weights {
    /// Floats of a patch: all inputs of all pixels under the kernel.
    pub fn patch(&self) -> usize {
        self.kernel * self.kernel * self.inputs
    }

    fn pixels(&self) -> usize {
        self.kernel * self.kernel
    }

    /// Where the weights of each output begin.
    fn outputs(&self) -> Vec<usize> {
        let depth = self.patch();
        (0..self.outputs).map(|output| output * depth).collect()
    }

    /// Where, of an output's weights, that of each float of a patch is, `[kernel, kernel, inputs]`.
    fn places(&self) -> Vec<usize> {
        let pixels = 0..self.pixels();
        let of = |pixel| (0..self.inputs).map(move |input| input * self.pixels() + pixel);
        pixels.flat_map(of).collect()
    }

    /// From patches to outputs: `[kernel · kernel · inputs, outputs]`.
    pub fn forward(&self, values: &[f32]) -> Panels {
        Panels::of(values, &self.places(), &self.outputs())
    }

    /// From patches of the outputs' gradient to that of the inputs where the stride is one, which is the
    /// convolution with the turned kernel: `[kernel · kernel · outputs, inputs]`.
    pub fn turned(&self, values: &[f32]) -> Panels {
        let (pixels, outputs) = ((0..self.pixels()).rev(), self.outputs());
        let rows = pixels.flat_map(|pixel| outputs.iter().map(move |output| output + pixel));
        let inputs = (0..self.inputs).map(|input| input * self.pixels());
        Panels::of(
            values,
            &rows.collect::<Vec<_>>(),
            &inputs.collect::<Vec<_>>(),
        )
    }

    /// From the outputs' gradient to that of patches: `[outputs, kernel · kernel · inputs]`.
    pub fn transposed(&self, values: &[f32]) -> Panels {
        Panels::of(values, &self.outputs(), &self.places())
    }

    /// Sums that lie as [`forward`](Self::forward)'s panels, as weights.
    pub fn gradient(&self, sums: &Panels, values: &mut [f32]) {
        let (width, depth, places) = (panel_width(), self.patch(), self.places());
        let values = Shared::new(values);
        for_each(self.outputs, |output| {
            let (panel, column) = (output / width, output % width);
            // SAFETY: each item writes the weights of its own output.
            let values = unsafe { values.slice_mut(output * depth, depth) };
            let rows = sums.panel(panel, 0).chunks_exact(width);
            for (row, place) in rows.zip(&places) {
                values[*place] = row[column];
            }
        });
    }

    /// Sums that lie as [`transposed`](Self::transposed)'s panels, as weights; for kernels of one pixel.
    pub fn gradient_of_transposed(&self, sums: &Panels, values: &mut [f32]) {
        assert_eq!(self.kernel, 1);
        let width = panel_width();
        for (output, values) in values.chunks_exact_mut(self.inputs).enumerate() {
            for (panel, values) in values.chunks_mut(width).enumerate() {
                values.copy_from_slice(&sums.panel(panel, output)[..values.len()]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_panels_comes_back() {
        for (outputs, inputs, kernel) in [(1, 1, 1), (5, 3, 3), (33, 2, 1), (64, 3, 7)] {
            let weights = Weights {
                outputs,
                inputs,
                kernel,
            };
            let values: Vec<f32> = (0..outputs * weights.patch()).map(|i| i as f32).collect();
            let panels = weights.forward(&values);
            let mut back = vec![0.0; values.len()];
            weights.gradient(&panels, &mut back);
            assert_eq!(back, values);
            if kernel == 1 {
                let panels = weights.transposed(&values);
                back.fill(0.0);
                weights.gradient_of_transposed(&panels, &mut back);
                assert_eq!(back, values);
            }
        }
    }
}
