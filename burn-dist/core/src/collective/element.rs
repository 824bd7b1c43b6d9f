//! The numbers that collectives move and reduce.
//!
//! Knows no ranks and no algorithm.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

/// The type of an element, as messages name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

mod sealed {
    pub trait Sealed {}
}

/// A number that collectives can reduce: `f32`, `f64`, [`half::f16`], [`half::bf16`], `i32`, `i64` or `u8`.
pub trait Element: Copy + Default + PartialEq + Send + Sync + sealed::Sealed + 'static {
    /// Its name in messages.
    const TYPE: ElementType;

    /// What it is reduced in.
    type Accumulator: Accumulator;

    /// `elements`, each as an accumulator; as many as `accumulators`.
    fn widen(elements: &[Self], accumulators: &mut [Self::Accumulator]);

    /// `accumulators`, each rounded to an element; as many as `elements`.
    fn narrow(accumulators: &[Self::Accumulator], elements: &mut [Self]);
}

/// What numbers are reduced in.
pub trait Accumulator: Copy + Default + Send + Sync + sealed::Sealed + 'static {
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

            #[inline(always)]
            fn widen(elements: &[Self], accumulators: &mut [Self]) {
                accumulators.copy_from_slice(elements);
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

            fn widen(elements: &[Self], accumulators: &mut [f32]) {
                elements.convert_to_f32_slice(accumulators);
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
