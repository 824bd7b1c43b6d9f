//! Rows of pixels into panels and back, vector by vector.

use pulp::{Arch, Simd, WithSimd};

use super::super::affine::Affine;
use super::super::matrix::{Matrix, MatrixMut};
use super::super::product::panel_width;

/// The channels of a row from `first` on, as many as a vector has; zero behind the last one.
#[inline(always)]
fn load<S: Simd>(simd: S, row: &[f32], first: usize) -> S::f32s {
    let row = &row[first.min(row.len())..];
    match row.get(..S::F32_LANES) {
        Some(vector) => vector_of::<S>(vector),
        None => simd.partial_load_f32s(row),
    }
}

#[inline(always)]
fn vector_of<S: Simd>(values: &[f32]) -> S::f32s {
    debug_assert_eq!(values.len(), S::F32_LANES);
    // SAFETY: as long as a vector.
    unsafe { values.as_ptr().cast::<S::f32s>().read_unaligned() }
}

#[inline(always)]
fn store<S: Simd>(simd: S, row: &mut [f32], first: usize, vector: S::f32s) {
    let first = first.min(row.len());
    let row = &mut row[first..];
    match row.get_mut(..S::F32_LANES) {
        // SAFETY: as long as a vector.
        Some(values) => unsafe {
            values
                .as_mut_ptr()
                .cast::<S::f32s>()
                .write_unaligned(vector);
        },
        None => simd.partial_store_f32s(row, vector),
    }
}

/// `max(scale · input + shift, 0)` into panels of columns, `[panels, rows, panel width]`.
pub fn normalise_to_panels(input: Matrix, affine: &Affine, panels: &mut [f32]) {
    struct Call<'a> {
        input: Matrix<'a>,
        affine: &'a Affine,
        panels: &'a mut [f32],
        width: usize,
    }
    impl WithSimd for Call<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            let Affine { scale, shift, .. } = self.affine;
            let rows = self.input.rows();
            let zero = simd.splat_f32s(0.0);
            for row in 0..rows {
                let input = self.input.row(row);
                for first in (0..input.len()).step_by(self.width) {
                    let panel = &mut self.panels[first * rows + row * self.width..][..self.width];
                    for (v, output) in panel.chunks_exact_mut(S::F32_LANES).enumerate() {
                        let channel = first + v * S::F32_LANES;
                        let [x, scale, shift] =
                            [input, scale, shift].map(|row| load(simd, row, channel));
                        // In this order what is no number stays none.
                        let y = simd.max_f32s(zero, simd.mul_add_e_f32s(scale, x, shift));
                        store(simd, output, 0, y);
                    }
                }
            }
        }
    }
    Arch::new().dispatch(Call {
        input,
        affine,
        panels,
        width: panel_width(),
    });
}

/// Adds to `gradient` what comes back through norm and ReLU: `of_output` is the gradient behind them and
/// `output` what they made of `input`, both in panels. Adds to the sums of it, and of it times the distance
/// of `input` to its mean.
pub fn accumulate(
    input: Matrix,
    output: &[f32],
    of_output: &[f32],
    affine: &Affine,
    gradient: &mut MatrixMut,
    sums: &mut [f32],
    moments: &mut [f32],
) {
    struct Call<'a, 'b> {
        input: Matrix<'a>,
        output: &'a [f32],
        of_output: &'a [f32],
        affine: &'a Affine,
        gradient: &'a mut MatrixMut<'b>,
        sums: &'a mut [f32],
        moments: &'a mut [f32],
        width: usize,
    }
    impl WithSimd for Call<'_, '_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            let rows = self.input.rows();
            let zero = simd.splat_f32s(0.0);
            for row in 0..rows {
                let input = self.input.row(row);
                let gradient = self.gradient.row(row);
                for first in (0..input.len()).step_by(self.width) {
                    let at = first * rows + row * self.width;
                    let output = self.output[at..at + self.width].chunks_exact(S::F32_LANES);
                    let of_output = self.of_output[at..at + self.width].chunks_exact(S::F32_LANES);
                    for (v, (output, of_output)) in output.zip(of_output).enumerate() {
                        let channel = first + v * S::F32_LANES;
                        let passed = simd.greater_than_f32s(vector_of::<S>(output), zero);
                        let passed = simd.select_f32s(passed, vector_of::<S>(of_output), zero);
                        let add = |row: &mut [f32], factor| {
                            let sum = load(simd, row, channel);
                            let sum = simd.mul_add_e_f32s(passed, factor, sum);
                            store(simd, row, channel, sum);
                        };
                        let [x, mean, scale] = [input, &self.affine.mean, &self.affine.scale]
                            .map(|row| load(simd, row, channel));
                        add(gradient, scale);
                        add(self.sums, simd.splat_f32s(1.0));
                        add(self.moments, simd.sub_f32s(x, mean));
                    }
                }
            }
        }
    }
    Arch::new().dispatch(Call {
        input,
        output,
        of_output,
        affine,
        gradient,
        sums,
        moments,
        width: panel_width(),
    });
}
