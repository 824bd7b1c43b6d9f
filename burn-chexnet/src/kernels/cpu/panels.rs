//! Weights as the products take them: panels of columns, and back.

use super::channels;
use super::matrix::Shared;
use super::memory::Memory;
use super::parallel::for_each;
use super::product::panel_width;

/// Sizes of the weights of a convolution, `[outputs, inputs, kernel, kernel]`.
#[derive(Clone, Copy, Debug, PartialEq)]
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

    /// `values[at(k, column)]` in row k of each column.
    fn of(
        depth: usize,
        columns: usize,
        values: &[f32],
        at: impl Fn(usize, usize) -> usize + Sync,
    ) -> Self {
        let width = panel_width();
        let panels = columns.div_ceil(width);
        let mut memory = Memory::take(panels * depth * width);
        let shared = Shared::new(&mut memory);
        for_each(panels, |index| {
            let first = index * width;
            let used = width.min(columns - first);
            // SAFETY: each panel is written by one item.
            let panel = unsafe { shared.slice_mut(index * depth * width, depth * width) };
            for (k, row) in panel.chunks_exact_mut(width).enumerate() {
                for (column, value) in row[..used].iter_mut().enumerate() {
                    *value = values[at(k, first + column)];
                }
                row[used..].fill(0.0);
            }
        });
        Self {
            memory,
            depth,
            columns,
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

    /// Where the weight is of `output` for float `k` of a patch, `[kernel, kernel, inputs]`.
    fn at(&self, k: usize, output: usize) -> usize {
        let (pixel, input) = (k / self.inputs, k % self.inputs);
        (output * self.inputs + input) * self.kernel * self.kernel + pixel
    }

    /// From patches to outputs: `[kernel · kernel · inputs, outputs]`.
    pub fn forward(&self, values: &[f32]) -> Panels {
        Panels::of(self.patch(), self.outputs, values, |k, output| {
            self.at(k, output)
        })
    }

    /// From patches of the outputs' gradient to that of the inputs where the stride is one, which is the
    /// convolution with the turned kernel: `[kernel · kernel · outputs, inputs]`.
    pub fn turned(&self, values: &[f32]) -> Panels {
        let pixels = self.kernel * self.kernel;
        Panels::of(pixels * self.outputs, self.inputs, values, |k, input| {
            let (pixel, output) = (k / self.outputs, k % self.outputs);
            (output * self.inputs + input) * pixels + (pixels - 1 - pixel)
        })
    }

    /// From the outputs' gradient to that of patches: `[outputs, kernel · kernel · inputs]`.
    pub fn transposed(&self, values: &[f32]) -> Panels {
        Panels::of(self.outputs, self.patch(), values, |output, k| {
            self.at(k, output)
        })
    }

    /// Sums that lie as [`forward`](Self::forward)'s panels, as weights.
    pub fn gradient(&self, sums: &Panels, values: &mut [f32]) {
        let (width, depth) = (panel_width(), self.patch());
        let values = Shared::new(values);
        for_each(self.outputs, |output| {
            let (panel, column) = (output / width, output % width);
            // SAFETY: each item writes the weights of its own output.
            let values = unsafe { values.slice_mut(output * depth, depth) };
            let rows = sums.panel(panel, 0).chunks_exact(width);
            for (k, row) in rows.enumerate() {
                values[self.at(k, 0)] = row[column];
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
