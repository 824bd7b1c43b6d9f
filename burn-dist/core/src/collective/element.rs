//! The numbers that collectives move and reduce.
//!
//! Knows no ranks and no algorithm.

use std::fmt::{Display, Formatter};

use bytemuck::Pod;
use half::{bf16, f16};
use serde::{Deserialize, Serialize};

/// The type of an element, as messages name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ElementType {
    /// 32-bit floating point.
    F32,
    /// 64-bit floating point.
    F64,
    /// 16-bit floating point of IEEE 754, summed in 32 bits.
    F16,
    /// 16-bit floating point with the exponent of 32 bits, summed in 32 bits.
    BF16,
    /// 32-bit integer.
    I32,
    /// 64-bit integer.
    I64,
    /// Byte.
    U8,
}

impl ElementType {
    /// All of them, in the order of their numbers in messages.
    pub const ALL: [Self; 7] = [
        Self::F32,
        Self::F64,
        Self::F16,
        Self::BF16,
        Self::I32,
        Self::I64,
        Self::U8,
    ];

    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            Self::F64 | Self::I64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::U8 => 1,
        }
    }
}

impl Display for ElementType {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
        })
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A number that collectives can reduce: `f32`, `f64`, [`half::f16`], [`half::bf16`], `i32`, `i64` or `u8`.
pub trait Element: Pod + Default + PartialEq + Send + Sync + sealed::Sealed {
    /// Its name in messages.
    const TYPE: ElementType;

    /// What it is reduced in.
    type Accumulator: Accumulator + Element;

    /// Whether it is reduced in its own type.
    const IS_OWN_ACCUMULATOR: bool;

    /// It as an accumulator.
    fn wide(self) -> Self::Accumulator;

    /// An accumulator rounded to it.
    fn rounded(accumulator: Self::Accumulator) -> Self;
}

/// What numbers are reduced in.
pub trait Accumulator: Copy + Default + Send + Sync + sealed::Sealed {
    /// The sum; that of integers wraps.
    fn sum(self, other: Self) -> Self;
    /// The smaller, or what is no number if either is none.
    fn least(self, other: Self) -> Self;
    /// The greater, or what is no number if either is none.
    fn greatest(self, other: Self) -> Self;
    /// A share of it, of integers towards zero.
    fn divided(self, count: usize) -> Self;
    /// The same, what is no number in one form of it.
    fn canonical(self) -> Self;
}

macro_rules! float {
    ($float:ty, $not_a_number:literal) => {
        impl sealed::Sealed for $float {}

        impl Accumulator for $float {
            #[inline(always)]
            fn sum(self, other: Self) -> Self {
                self + other
            }

            // `min` and `max` would lose what is no number, and with it a diverged gradient.
            #[inline(always)]
            fn least(self, other: Self) -> Self {
                if self < other || self.is_nan() {
                    self
                } else {
                    other
                }
            }

            #[inline(always)]
            fn greatest(self, other: Self) -> Self {
                if self > other || self.is_nan() {
                    self
                } else {
                    other
                }
            }

            #[inline(always)]
            fn divided(self, count: usize) -> Self {
                self / count as Self
            }

            #[inline(always)]
            fn canonical(self) -> Self {
                if self.is_nan() {
                    Self::from_bits($not_a_number)
                } else {
                    self
                }
            }
        }
    };
}

macro_rules! integer {
    ($integer:ty) => {
        impl sealed::Sealed for $integer {}

        impl Accumulator for $integer {
            #[inline(always)]
            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn least(self, other: Self) -> Self {
                self.min(other)
            }

            #[inline(always)]
            fn greatest(self, other: Self) -> Self {
                self.max(other)
            }

            #[inline(always)]
            fn divided(self, count: usize) -> Self {
                match Self::try_from(count) {
                    Ok(count) => self / count,
                    // More ranks than the type can count: no element is as large.
                    Err(_) => 0,
                }
            }

            #[inline(always)]
            fn canonical(self) -> Self {
                self
            }
        }
    };
}

/// An element that is reduced in its own type.
macro_rules! own {
    ($element:ty, $name:ident) => {
        impl Element for $element {
            const TYPE: ElementType = ElementType::$name;
            type Accumulator = Self;
            const IS_OWN_ACCUMULATOR: bool = true;

            #[inline(always)]
            fn wide(self) -> Self {
                self
            }

            #[inline(always)]
            fn rounded(accumulator: Self) -> Self {
                accumulator
            }
        }
    };
}

/// One or the other, without a branch.
#[inline(always)]
fn choose(condition: bool, one: u32, other: u32) -> u32 {
    let mask = u32::from(condition).wrapping_neg();
    one & mask | other & !mask
}

// Conversions without a branch, of which the compiler makes vectors; of those of `half` it does not.

impl sealed::Sealed for f16 {}

impl Element for f16 {
    const TYPE: ElementType = ElementType::F16;
    type Accumulator = f32;
    const IS_OWN_ACCUMULATOR: bool = false;

    #[inline(always)]
    fn wide(self) -> f32 {
        let bits = u32::from(self.to_bits());
        // As the lowest exponents of 32 bits, which a multiplication puts right; of subnormal numbers as well.
        let magnitude = (bits & 0x7fff) << 13;
        let scaled = f32::from_bits(magnitude) * f32::from_bits((112 + 127) << 23);
        let infinite = choose(magnitude >= 0x1f << 23, 0xff << 23, 0);
        f32::from_bits(scaled.to_bits() | infinite | (bits & 0x8000) << 16)
    }

    #[inline(always)]
    fn rounded(accumulator: f32) -> Self {
        let bits = accumulator.to_bits();
        let magnitude = bits & 0x7fff_ffff;
        // To the nearest, of two the even one; beyond the greatest number, to infinity.
        let rebiased = magnitude.wrapping_sub((127 - 15) << 23);
        let normal = rebiased.wrapping_add(0xfff + (magnitude >> 13 & 1)) >> 13;
        // Adding half a unit of the last place puts what remains of a small number there, rounded.
        let half = f32::from_bits((127 - 15 + 23 - 10 + 1) << 23);
        let subnormal = (f32::from_bits(magnitude) + half)
            .to_bits()
            .wrapping_sub(half.to_bits());
        let finite = choose(magnitude < (127 - 14) << 23, subnormal, normal);
        let result = choose(magnitude >= (16 + 127) << 23, 0x7c00, finite);
        let quiet = 0x7e00 | (magnitude >> 13 & 0x3ff);
        let result = choose(magnitude > 0xff << 23, quiet, result);
        Self::from_bits((result | bits >> 16 & 0x8000) as u16)
    }
}

impl sealed::Sealed for bf16 {}

impl Element for bf16 {
    const TYPE: ElementType = ElementType::BF16;
    type Accumulator = f32;
    const IS_OWN_ACCUMULATOR: bool = false;

    // The upper half of 32 bits.
    #[inline(always)]
    fn wide(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }

    #[inline(always)]
    fn rounded(accumulator: f32) -> Self {
        let bits = accumulator.to_bits();
        // To the nearest, of two the even one.
        let nearest = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
        // What is no number stays none.
        let quiet = bits >> 16 | 0x40;
        Self::from_bits(choose(accumulator.is_nan(), quiet, nearest) as u16)
    }
}

float!(f32, 0x7fc0_0000);
float!(f64, 0x7ff8_0000_0000_0000);
integer!(i32);
integer!(i64);
integer!(u8);
own!(f32, F32);
own!(f64, F64);
own!(i32, I32);
own!(i64, I64);
own!(u8, U8);

#[cfg(test)]
mod tests {
    use super::*;

    /// What `half` makes of it, which converts one by one.
    fn assert_as_half(value: f32) {
        let (found, expected) = (<f16 as Element>::rounded(value), f16::from_f32(value));
        assert_eq!(found.to_bits(), expected.to_bits(), "{value:e}");
        let (found, expected) = (<bf16 as Element>::rounded(value), bf16::from_f32(value));
        assert_eq!(found.to_bits(), expected.to_bits(), "{value:e}");
    }

    #[test]
    fn all_halves_become_the_numbers_that_they_are() {
        for bits in 0..=u16::MAX {
            let (found, expected) = (f16::from_bits(bits).wide(), f16::from_bits(bits).to_f32());
            let same = found.to_bits() == expected.to_bits() || found.is_nan();
            assert!(same && found.is_nan() == expected.is_nan(), "{bits:#x}");
            let (found, expected) = (bf16::from_bits(bits).wide(), bf16::from_bits(bits).to_f32());
            let same = found.to_bits() == expected.to_bits() || found.is_nan();
            assert!(same && found.is_nan() == expected.is_nan(), "{bits:#x}");
        }
    }

    /// All that lie at or beside a half, or in the middle of two, and many others.
    #[test]
    fn numbers_are_rounded_as_half_rounds_them() {
        for upper in 0..=u16::MAX {
            let bits = u32::from(upper) << 16;
            for lower in [
                0, 1, 0xfff, 0x1000, 0x1001, 0x1fff, 0x2000, 0x7fff, 0x8000, 0x8001, 0xffff,
            ] {
                assert_as_half(f32::from_bits(bits | lower));
            }
            // From a linear congruence, for what nobody has thought of.
            let other = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            assert_as_half(f32::from_bits(other ^ bits));
        }
        for bits in 0..=u16::MAX {
            let value = f16::from_bits(bits).to_f32().to_bits();
            for near in [value.wrapping_sub(1), value, value.wrapping_add(1)] {
                for middle in [0, 0x1000, 0x0fff, 0x1001] {
                    assert_as_half(f32::from_bits(near.wrapping_add(middle)));
                }
            }
        }
    }
}
