//! Several arrays into one, element by element, in the order in which they are given.
//!
//! The order is what makes a reduction the same to the last bit on every rank, from run to run and
//! whatever the way of the bytes: sums of floating point depend on it. Knows no ranks and no algorithm.

use pulp::Arch;

use super::element::{Accumulator, Element};

/// How elements become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// Their sum; that of integers wraps.
    Sum,
    /// Their sum divided by their number; of integers rounded towards zero, after a sum that wraps.
    Mean,
    /// The least of them, or what is no number if one is none.
    Min,
    /// The greatest of them, or what is no number if one is none.
    Max,
}

/// Elements that are reduced at a time: their accumulators stay in the first cache.
const BLOCK: usize = 1024;

impl Reduction {
    /// Writes the reduction of `arrays` to `output`: with a sum `((a₀ + a₁) + a₂) + …` of each element.
    ///
    /// ```
    /// use burn_dist_core::collective::Reduction;
    ///
    /// let mut output = [0.0f32; 2];
    /// Reduction::Mean.reduce(&[&[1.0, 2.0], &[3.0, 6.0]], &mut output);
    /// assert_eq!(output, [2.0, 4.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If there is no array, or one has another length than `output`.
    pub fn reduce<T: Element>(self, arrays: &[&[T]], output: &mut [T]) {
        assert!(!arrays.is_empty(), "nothing to reduce");
        for array in arrays {
            assert_eq!(array.len(), output.len(), "arrays of one length");
        }
        let arch = Arch::new();
        let mut sums = [T::Accumulator::default(); BLOCK];
        let mut next = [T::Accumulator::default(); BLOCK];
        for (block, output) in output.chunks_mut(BLOCK).enumerate() {
            let range = block * BLOCK..block * BLOCK + output.len();
            let (sums, next) = (&mut sums[..output.len()], &mut next[..output.len()]);
            T::widen(&arrays[0][range.clone()], sums);
            for array in &arrays[1..] {
                T::widen(&array[range.clone()], next);
                // One loop for each operation, for the compiler to make vectors of.
                arch.dispatch(|| match self {
                    Self::Sum | Self::Mean => combine(sums, next, Accumulator::sum),
                    Self::Min => combine(sums, next, Accumulator::least),
                    Self::Max => combine(sums, next, Accumulator::greatest),
                });
            }
            if self == Self::Mean {
                for sum in sums.iter_mut() {
                    *sum = sum.divided(arrays.len());
                }
            }
            T::narrow(sums, output);
        }
    }

    /// The same in the plainest way, to compare with.
    #[cfg(test)]
    fn reduce_plainly<T: Element>(self, arrays: &[&[T]], output: &mut [T]) {
        for (index, output) in output.iter_mut().enumerate() {
            let wide = |array: &[T]| {
                let mut wide = [T::Accumulator::default()];
                T::widen(&array[index..=index], &mut wide);
                wide[0]
            };
            let mut result = wide(arrays[0]);
            for array in &arrays[1..] {
                result = match self {
                    Self::Sum | Self::Mean => result.sum(wide(array)),
                    Self::Min => result.least(wide(array)),
                    Self::Max => result.greatest(wide(array)),
                };
            }
            if self == Self::Mean {
                result = result.divided(arrays.len());
            }
            T::narrow(&[result], std::slice::from_mut(output));
        }
    }
}

#[inline(always)]
fn combine<A: Accumulator>(sums: &mut [A], next: &[A], operation: impl Fn(A, A) -> A) {
    for (sum, next) in sums.iter_mut().zip(next) {
        *sum = operation(*sum, *next);
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};
    use proptest::prelude::*;

    use super::*;

    const ALL: [Reduction; 4] = [
        Reduction::Sum,
        Reduction::Mean,
        Reduction::Min,
        Reduction::Max,
    ];

    /// Numbers that show an order of additions: of very different sizes, and from a seed.
    fn bits(seed: u64, count: usize) -> Vec<u64> {
        let mut state = seed;
        let mut step = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state ^ (state >> 29)
        };
        (0..count).map(|_| step()).collect()
    }

    fn assert_plain<T: Element + std::fmt::Debug>(
        arrays: usize,
        count: usize,
        element: impl Fn(u64) -> T,
        same: impl Fn(&T, &T) -> bool,
    ) {
        let arrays: Vec<Vec<T>> = (0..arrays)
            .map(|array| {
                let bits = bits(array as u64 + 1, count);
                bits.into_iter().map(&element).collect()
            })
            .collect();
        let arrays: Vec<&[T]> = arrays.iter().map(Vec::as_slice).collect();
        let (mut found, mut expected) = (vec![T::default(); count], vec![T::default(); count]);
        for reduction in ALL {
            reduction.reduce(&arrays, &mut found);
            reduction.reduce_plainly(&arrays, &mut expected);
            for (found, expected) in found.iter().zip(&expected) {
                assert!(
                    same(found, expected),
                    "{reduction:?}: {found:?}, {expected:?}"
                );
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        /// To the last bit, whatever the length: below, at and beyond a block and a vector.
        #[test]
        fn blocks_and_vectors_change_no_bit(arrays in 1usize..9, count in 0usize..2_600) {
            assert_plain(arrays, count, |bits| f32::from_bits(bits as u32), |a, b| {
                a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
            });
            assert_plain(arrays, count, f64::from_bits, |a, b| {
                a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
            });
            assert_plain(arrays, count, |bits| f16::from_bits(bits as u16), |a, b| {
                a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
            });
            assert_plain(arrays, count, |bits| bf16::from_bits(bits as u16), |a, b| {
                a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
            });
            assert_plain(arrays, count, |bits| bits as i32, PartialEq::eq);
            assert_plain(arrays, count, |bits| bits as i64, PartialEq::eq);
            assert_plain(arrays, count, |bits| bits as u8, PartialEq::eq);
        }
    }

    #[test]
    fn the_order_is_that_of_the_arrays() {
        let mut output = [0.0f32];
        let reduce = |arrays: &[&[f32]], output: &mut [f32]| Reduction::Sum.reduce(arrays, output);
        reduce(&[&[1e8], &[-1e8], &[1.0]], &mut output);
        assert_eq!(output, [1.0]);
        reduce(&[&[1e8], &[1.0], &[-1e8]], &mut output);
        assert_eq!(output, [0.0]);
    }

    #[test]
    fn halves_are_rounded_once() {
        // 1 + 2⁻¹¹ + 2⁻¹¹: each alone is lost in 11 bits of mantissa.
        let [one, small] = [1.0, 2f32.powi(-11)].map(f16::from_f32);
        let mut output = [f16::ZERO];
        Reduction::Sum.reduce(&[&[one], &[small], &[small]], &mut output);
        assert_eq!(output, [f16::from_f32(1.0 + 2f32.powi(-10))]);
    }

    #[test]
    fn what_is_no_number_is_not_lost() {
        for reduction in ALL {
            for arrays in [[[f32::NAN], [1.0]], [[1.0], [f32::NAN]]] {
                let mut output = [0.0];
                reduction.reduce(&[&arrays[0], &arrays[1]], &mut output);
                assert!(output[0].is_nan(), "{reduction:?}");
            }
        }
    }

    #[test]
    fn integers_wrap_and_their_mean_goes_towards_zero() {
        let mut output = [0u8];
        Reduction::Sum.reduce(&[&[200], &[100]], &mut output);
        assert_eq!(output, [44]);
        let mut output = [0i32];
        Reduction::Mean.reduce(&[&[-3], &[-4]], &mut output);
        assert_eq!(output, [-3]);
    }

    #[test]
    #[should_panic(expected = "arrays of one length")]
    fn arrays_of_other_lengths_are_a_mistake_of_the_program() {
        Reduction::Sum.reduce(&[&[1.0f32, 2.0], &[1.0]], &mut [0.0, 0.0]);
    }
}
