//! The two products that all convolutions are made of, each on one thread.
//!
//! Feature maps lie channels last, so that a row holds the channels of a pixel, and the columns of a
//! product are channels of its result: a panel of them fills the registers, one row's value after the
//! other is multiplied with it. A convolution needs no copy of its patches for that: the rows of the
//! left side begin where the pixels of a patch's first column do, and are as deep as a patch is wide.

use pulp::{Arch, Simd, WithSimd};

use super::matrix::MatrixMut;

/// Columns of a panel: as many as this machine multiplies at once.
pub fn panel_width() -> usize {
    struct Width;
    impl WithSimd for Width {
        type Output = usize;

        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) -> usize {
            S::F32_LANES * vectors::<S>()
        }
    }
    Arch::new().dispatch(Width)
}

/// Vectors of a panel: two fill the registers with what is summed for six or eight rows; of vectors
/// of four floats it takes four, where there are registers enough.
const fn vectors<S: Simd>() -> usize {
    if S::F32_LANES == 4 && S::REGISTER_COUNT >= 32 {
        4
    } else {
        2
    }
}

/// Where the rows of the left side begin.
#[derive(Clone, Debug, Default)]
pub struct Starts {
    starts: Vec<usize>,
    last: usize,
}

impl Starts {
    /// As `starts` says.
    pub fn new(starts: impl IntoIterator<Item = usize>) -> Self {
        let starts: Vec<usize> = starts.into_iter().collect();
        let last = starts.iter().copied().max().unwrap_or(0);
        Self { starts, last }
    }

    /// `rows` of them, `stride` apart.
    pub fn every(stride: usize, rows: usize) -> Self {
        Self::new((0..rows).map(|row| row * stride))
    }

    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether all rows, `depth` long, lie in `floats`.
    fn fit(&self, depth: usize, floats: usize) -> bool {
        self.starts.is_empty() || self.last + depth <= floats
    }
}

/// A product that is made tile by tile.
trait Tiles {
    /// The tile of so many rows from `first` on, as wide as a panel.
    fn tile<S: Simd, const ROWS: usize, const VECTORS: usize>(&mut self, simd: S, first: usize);
}

/// All `rows` of a product, in tiles whose sums fill the registers.
#[inline(always)]
fn in_tiles<S: Simd>(simd: S, rows: usize, product: &mut impl Tiles) {
    match (vectors::<S>(), S::REGISTER_COUNT) {
        (4, _) => tiles::<S, 6, 4>(simd, rows, product),
        (_, 32) => tiles::<S, 8, 2>(simd, rows, product),
        _ => tiles::<S, 6, 2>(simd, rows, product),
    }
}

#[inline(always)]
fn tiles<S: Simd, const ROWS: usize, const VECTORS: usize>(
    simd: S,
    rows: usize,
    product: &mut impl Tiles,
) {
    let mut first = 0;
    while first + ROWS <= rows {
        product.tile::<S, ROWS, VECTORS>(simd, first);
        first += ROWS;
    }
    match rows - first {
        0 => {}
        1 => product.tile::<S, 1, VECTORS>(simd, first),
        2 => product.tile::<S, 2, VECTORS>(simd, first),
        3 => product.tile::<S, 3, VECTORS>(simd, first),
        4 => product.tile::<S, 4, VECTORS>(simd, first),
        5 => product.tile::<S, 5, VECTORS>(simd, first),
        6 => product.tile::<S, 6, VECTORS>(simd, first),
        _ => product.tile::<S, 7, VECTORS>(simd, first),
    }
}

/// What becomes of the sums of a product.
#[derive(Clone, Copy)]
pub struct Store<'a> {
    /// Whether what is there already is added.
    pub add: bool,
    /// Norm and ReLU of the columns, `max(scale · sum + shift, 0)`, if they follow.
    pub then: Option<[&'a [f32]; 2]>,
}

/// The sums, and nothing else.
pub const SUMS: Store = Store {
    add: false,
    then: None,
};

/// `output[r][c] = Σₖ left[starts[r] + k] · panel[k][c]` for the columns of `output`, and what `with` says.
/// `panel` is `[depth, panel_width()]`, of which the columns that `output` lacks are not used.
pub fn multiply(
    left: &[f32],
    starts: &Starts,
    depth: usize,
    panel: &[f32],
    output: &mut MatrixMut,
    with: Store,
) {
    assert_eq!(output.rows(), starts.len());
    assert!(starts.fit(depth, left.len()));
    let columns = output.width();
    assert!(with.then.iter().flatten().all(|of| of.len() >= columns));
    struct Call<'a, 'b> {
        left: &'a [f32],
        starts: &'a [usize],
        depth: usize,
        panel: &'a [f32],
        output: &'a mut MatrixMut<'b>,
        with: Store<'a>,
    }
    impl WithSimd for Call<'_, '_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(mut self, simd: S) {
            let width = S::F32_LANES * vectors::<S>();
            assert!(self.panel.len() >= self.depth * width && self.output.width() <= width);
            in_tiles(simd, self.starts.len(), &mut self);
        }
    }
    impl Tiles for Call<'_, '_> {
        #[inline(always)]
        fn tile<S: Simd, const ROWS: usize, const VECTORS: usize>(&mut self, simd: S, row: usize) {
            let starts = &self.starts[row..row + ROWS];
            // SAFETY: `fit` has looked at all starts.
            let left: [*const f32; ROWS] =
                std::array::from_fn(|i| unsafe { self.left.as_ptr().add(starts[i]) });
            let mut sums = [[simd.splat_f32s(0.0); VECTORS]; ROWS];
            let mut panel = self.panel.as_ptr().cast::<S::f32s>();
            for k in 0..self.depth {
                // SAFETY: a panel has `depth` rows of so many vectors, and a left row `depth` floats.
                unsafe {
                    let columns: [S::f32s; VECTORS] =
                        std::array::from_fn(|v| panel.add(v).read_unaligned());
                    for (sums, left) in sums.iter_mut().zip(left) {
                        let value = simd.splat_f32s(*left.add(k));
                        for (sum, column) in sums.iter_mut().zip(columns) {
                            *sum = simd.mul_add_e_f32s(value, column, *sum);
                        }
                    }
                    panel = panel.add(VECTORS);
                }
            }
            for (i, sums) in sums.iter().enumerate() {
                store(simd, sums, self.output.row(row + i), self.with);
            }
        }
    }
    Arch::new().dispatch(Call {
        left,
        starts: &starts.starts,
        depth,
        panel,
        output,
        with,
    });
}

/// `output[i][c] += Σᵣ left[starts[r] + i] · right[r · stride + c]` for i below `count` and the
/// columns c of a panel: `output` is `[count, panel_width()]`.
pub fn outer(
    left: &[f32],
    starts: &Starts,
    count: usize,
    right: &[f32],
    stride: usize,
    output: &mut [f32],
) {
    assert!(starts.fit(count, left.len()));
    struct Call<'a> {
        left: &'a [f32],
        starts: &'a [usize],
        count: usize,
        right: &'a [f32],
        stride: usize,
        output: &'a mut [f32],
    }
    impl WithSimd for Call<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(mut self, simd: S) {
            let width = S::F32_LANES * vectors::<S>();
            let last = self.starts.len().checked_sub(1);
            assert!(last.is_none_or(|last| last * self.stride + width <= self.right.len()));
            assert!(self.output.len() >= self.count * width);
            in_tiles(simd, self.count, &mut self);
        }
    }
    impl Tiles for Call<'_> {
        #[inline(always)]
        fn tile<S: Simd, const ROWS: usize, const VECTORS: usize>(
            &mut self,
            simd: S,
            first: usize,
        ) {
            let mut sums = [[simd.splat_f32s(0.0); VECTORS]; ROWS];
            let left = self.left[first..].as_ptr();
            let mut right = self.right.as_ptr();
            for start in self.starts {
                // SAFETY: `fit` has looked at all starts, the assertion at the last row on the right;
                // behind that one the pointer may point anywhere, so it wraps.
                unsafe {
                    let columns: [S::f32s; VECTORS] =
                        std::array::from_fn(|v| right.cast::<S::f32s>().add(v).read_unaligned());
                    let left = left.add(*start);
                    for (i, sums) in sums.iter_mut().enumerate() {
                        let value = simd.splat_f32s(*left.add(i));
                        for (sum, column) in sums.iter_mut().zip(columns) {
                            *sum = simd.mul_add_e_f32s(value, column, *sum);
                        }
                    }
                }
                right = right.wrapping_add(self.stride);
            }
            let width = VECTORS * S::F32_LANES;
            for (i, sums) in sums.iter().enumerate() {
                let output = &mut self.output[(first + i) * width..][..width];
                let add = Store { add: true, ..SUMS };
                store(simd, sums, output, add);
            }
        }
    }
    Arch::new().dispatch(Call {
        left,
        starts: &starts.starts,
        count,
        right,
        stride,
        output,
    });
}

/// As many of `sums` as `output` has room for.
#[inline(always)]
fn store<S: Simd, const VECTORS: usize>(
    simd: S,
    sums: &[S::f32s; VECTORS],
    output: &mut [f32],
    with: Store,
) {
    let zero = simd.splat_f32s(0.0);
    if output.len() == VECTORS * S::F32_LANES {
        for (v, sum) in sums.iter().enumerate() {
            let output = output[v * S::F32_LANES..].as_mut_ptr().cast::<S::f32s>();
            // SAFETY: there is room for so many vectors, and as many columns have a scale and a shift.
            unsafe {
                let mut value = *sum;
                if with.add {
                    value = simd.add_f32s(output.read_unaligned(), value);
                }
                if let Some(columns) = with.then {
                    let [scale, shift] = columns.map(|of| {
                        let of = of.as_ptr().cast::<S::f32s>();
                        of.add(v).read_unaligned()
                    });
                    // In this order what is no number stays none.
                    value = simd.max_f32s(zero, simd.mul_add_e_f32s(scale, value, shift));
                }
                output.write_unaligned(value);
            }
        }
    } else {
        let sums: &[f32] = bytemuck::cast_slice(sums);
        for (column, (output, sum)) in output.iter_mut().zip(sums).enumerate() {
            let mut value = if with.add { *output + sum } else { *sum };
            if let Some([scale, shift]) = with.then {
                value = scale[column] * value + shift[column];
                value = if value < 0.0 { 0.0 } else { value };
            }
            *output = value;
        }
    }
}
