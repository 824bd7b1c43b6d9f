//! The numbers that collectives move and reduce.
//!
//! Knows no ranks and no algorithm.

use std::fmt::{Display, Formatter};

use bytemuck::Pod;
use half::slice::HalfFloatSliceExt;
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

    /// Whether it is reduced in its own type, so that converting it costs nothing.
    const IS_OWN_ACCUMULATOR: bool;

    /// It as an accumulator.
    fn wide(self) -> Self::Accumulator;

    /// An accumulator rounded to it.
    fn rounded(accumulator: Self::Accumulator) -> Self;

    /// `elements`, each as an accumulator; as many as `accumulators`.
    fn widen(elements: &[Self], accumulators: &mut [Self::Accumulator]);

    /// Combines each of `elements` with an accumulator; as many as `accumulators`.
    fn accumulate(
        accumulators: &mut [Self::Accumulator],
        elements: &[Self],
        operation: impl Fn(Self::Accumulator, Self::Accumulator) -> Self::Accumulator,
    );

    /// `accumulators`, each rounded to an element; as many as `elements`.
    fn narrow(accumulators: &[Self::Accumulator], elements: &mut [Self]);
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
}

macro_rules! float {
    ($float:ty) => {
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

            #[inline(always)]
            fn widen(elements: &[Self], accumulators: &mut [Self]) {
                accumulators.copy_from_slice(elements);
            }

            #[inline(always)]
            fn accumulate(
                accumulators: &mut [Self],
                elements: &[Self],
                operation: impl Fn(Self, Self) -> Self,
            ) {
                for (sum, element) in accumulators.iter_mut().zip(elements) {
                    *sum = operation(*sum, *element);
                }
            }

            #[inline(always)]
            fn narrow(accumulators: &[Self], elements: &mut [Self]) {
                elements.copy_from_slice(accumulators);
            }
        }
    };
}

/// An element that is reduced in 32 bits and rounded once.
macro_rules! half {
    ($element:ty, $name:ident) => {
        impl sealed::Sealed for $element {}

        impl Element for $element {
            const TYPE: ElementType = ElementType::$name;
            type Accumulator = f32;
            const IS_OWN_ACCUMULATOR: bool = false;

            fn wide(self) -> f32 {
                self.to_f32()
            }

            fn rounded(accumulator: f32) -> Self {
                Self::from_f32(accumulator)
            }

            fn widen(elements: &[Self], accumulators: &mut [f32]) {
                elements.convert_to_f32_slice(accumulators);
            }

            #[inline(always)]
            fn accumulate(
                accumulators: &mut [f32],
                elements: &[Self],
                operation: impl Fn(f32, f32) -> f32,
            ) {
                // As wide as the conversions of the processor.
                let mut wide = [0.0f32; 64];
                let blocks = elements.chunks(wide.len());
                for (sums, elements) in accumulators.chunks_mut(wide.len()).zip(blocks) {
                    let wide = &mut wide[..elements.len()];
                    elements.convert_to_f32_slice(wide);
                    for (sum, element) in sums.iter_mut().zip(wide) {
                        *sum = operation(*sum, *element);
                    }
                }
            }

            fn narrow(accumulators: &[f32], elements: &mut [Self]) {
                elements.convert_from_f32_slice(accumulators);
            }
        }
    };
}

float!(f32);
float!(f64);
integer!(i32);
integer!(i64);
integer!(u8);
own!(f32, F32);
own!(f64, F64);
own!(i32, I32);
own!(i64, I64);
own!(u8, U8);
half!(f16, F16);
half!(bf16, BF16);
