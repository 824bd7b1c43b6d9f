//! Several arrays into one, element by element, in the order in which they are given.
//!
//! The order is what makes a reduction the same to the last bit on every rank, from run to run and
//! whatever the way of the bytes: sums of floating point depend on it. Knows no ranks and no algorithm.

use std::fmt::{Display, Formatter};

use pulp::{Arch, NullaryFnOnce};
use serde::{Deserialize, Serialize};

use super::element::{Accumulator, Element};

/// How elements become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
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

/// One of the arrays that are reduced.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operand<'a, T> {
    /// What the output holds before.
    Output,
    /// Another array.
    Array(&'a [T]),
}

impl Display for Reduction {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Sum => "sum",
            Self::Mean => "mean",
            Self::Min => "min",
            Self::Max => "max",
        })
    }
}

impl Reduction {
    /// All of them, in the order of their numbers in messages.
    pub const ALL: [Self; 4] = [Self::Sum, Self::Mean, Self::Min, Self::Max];

    /// Writes the reduction of `arrays` to `output`: with a sum `((a₀ + a₁) + a₂) + …` of each element. What is no
    /// number has the same bits whatever it comes of: processors leave it open which of two such operands they pass on.
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
        let operands: Vec<Operand<'_, T>> = arrays.iter().map(|a| Operand::Array(a)).collect();
        self.combine(&operands, output, Some(arrays.len()));
    }

    /// The same of `operands`, of which `output` itself may be one. With `count` these are the last, and a
    /// [mean](Self::Mean) is divided by it; without, more are to come.
    ///
    /// # Panics
    ///
    /// As [`reduce`](Self::reduce).
    pub(crate) fn combine<T: Element>(
        self,
        operands: &[Operand<'_, T>],
        output: &mut [T],
        count: Option<usize>,
    ) {
        assert!(!operands.is_empty(), "nothing to reduce");
        for operand in operands {
            if let Operand::Array(array) = operand {
                assert_eq!(array.len(), output.len(), "arrays of one length");
            }
        }
        Arch::new().dispatch(Combining {
            reduction: self,
            operands,
            output,
            count,
        });
    }

    /// The same in the plainest way, to compare with.
    #[cfg(test)]
    fn reduce_plainly<T: Element>(self, arrays: &[&[T]], output: &mut [T]) {
        for (index, output) in output.iter_mut().enumerate() {
            let wide = |array: &[T]| array[index].wide();
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
            result = result.canonical();
            *output = T::rounded(result);
        }
    }
}

/// A reduction, compiled for each instruction set.
struct Combining<'a, 'b, T> {
    reduction: Reduction,
    operands: &'a [Operand<'b, T>],
    output: &'a mut [T],
    count: Option<usize>,
}

impl<T: Element> NullaryFnOnce for Combining<'_, '_, T> {
    type Output = ();

    // A function of its own, or a closure, would be compiled for the least instruction set.
    #[inline(always)]
    fn call(self) {
        let (operands, output) = (self.operands, self.output);
        let sum = |a: T::Accumulator, b| a.sum(b);
        let least = |a: T::Accumulator, b| a.least(b);
        let greatest = |a: T::Accumulator, b| a.greatest(b);
        let as_is = |value| value;
        let last = |value: T::Accumulator| value.canonical();
        match (self.reduction, self.count) {
            (Reduction::Sum | Reduction::Mean, None) => fold(operands, output, sum, as_is),
            (Reduction::Sum, Some(_)) => fold(operands, output, sum, last),
            (Reduction::Mean, Some(count)) => {
                let mean = |value: T::Accumulator| value.divided(count).canonical();
                fold(operands, output, sum, mean);
            }
            (Reduction::Min, None) => fold(operands, output, least, as_is),
            (Reduction::Min, Some(_)) => fold(operands, output, least, last),
            (Reduction::Max, None) => fold(operands, output, greatest, as_is),
            (Reduction::Max, Some(_)) => fold(operands, output, greatest, last),
        }
    }
}

/// Elements whose sums stay in registers.
const FEW: usize = 16;
/// Elements whose sums stay in the first cache.
const MANY: usize = 1024;

/// Writes the reduction of `operands`, each `finish`ed, to `output`. One function for each operation, for the compiler
/// to make vectors of its loops.
#[inline(always)]
fn fold<T: Element>(
    operands: &[Operand<'_, T>],
    output: &mut [T],
    operation: impl Fn(T::Accumulator, T::Accumulator) -> T::Accumulator + Copy,
    finish: impl Fn(T::Accumulator) -> T::Accumulator + Copy,
) {
    let mut start = 0;
    if T::IS_OWN_ACCUMULATOR {
        // The speed of memory: sums are written once.
        let (blocks, _) = output.as_chunks_mut::<FEW>();
        start = blocks.len() * FEW;
        for (index, block) in blocks.iter_mut().enumerate() {
            let before = *block;
            let at = |operand: &Operand<'_, T>| match operand {
                Operand::Output => before,
                Operand::Array(array) => array.as_chunks().0[index],
            };
            let mut sums = at(&operands[0]).map(T::wide);
            for operand in &operands[1..] {
                for (sum, element) in sums.iter_mut().zip(at(operand)) {
                    *sum = operation(*sum, element.wide());
                }
            }
            *block = sums.map(|sum| T::rounded(finish(sum)));
        }
    }
    if start == output.len() {
        return;
    }
    let mut sums = [T::Accumulator::default(); MANY];
    for start in (start..output.len()).step_by(MANY) {
        let range = start..output.len().min(start + MANY);
        let sums = &mut sums[..range.len()];
        for (position, operand) in operands.iter().enumerate() {
            let elements = match operand {
                Operand::Output => &output[range.clone()],
                Operand::Array(array) => &array[range.clone()],
            };
            let pairs = sums.iter_mut().zip(elements);
            match position {
                0 => pairs.for_each(|(sum, element)| *sum = element.wide()),
                _ => pairs.for_each(|(sum, element)| *sum = operation(*sum, element.wide())),
            }
        }
        for (element, sum) in output[range].iter_mut().zip(sums) {
            *element = T::rounded(finish(*sum));
        }
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};
    use proptest::prelude::*;

    use super::*;

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
        for reduction in Reduction::ALL {
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
                a.to_bits() == b.to_bits()
            });
            assert_plain(arrays, count, f64::from_bits, |a, b| {
                a.to_bits() == b.to_bits()
            });
            assert_plain(arrays, count, |bits| f16::from_bits(bits as u16), |a, b| {
                a.to_bits() == b.to_bits()
            });
            assert_plain(arrays, count, |bits| bf16::from_bits(bits as u16), |a, b| {
                a.to_bits() == b.to_bits()
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
        for reduction in Reduction::ALL {
            for arrays in [[[f32::NAN], [1.0]], [[1.0], [f32::NAN]]] {
                let mut output = [0.0];
                reduction.reduce(&[&arrays[0], &arrays[1]], &mut output);
                assert!(output[0].is_nan(), "{reduction:?}");
            }
        }
    }

    #[test]
    fn what_is_no_number_has_one_form() {
        let [one, other] = [0xffc0_0001, 0x7fa0_0002].map(f32::from_bits);
        for reduction in Reduction::ALL {
            for arrays in [[[one], [other]], [[other], [one]], [[1.0], [one]]] {
                let mut output = [0.0];
                reduction.reduce(&[&arrays[0], &arrays[1]], &mut output);
                assert_eq!(output[0].to_bits(), 0x7fc0_0000, "{reduction:?}");
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
