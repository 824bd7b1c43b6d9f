//! Axes of the learning curves: which range they cover and which round numbers they show.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;

/// A coordinate of plotters with its own choice of numbers.
#[derive(Clone)]
pub(super) struct Axis {
    range: Range<f64>,
    ticks: Vec<f64>,
    notation: Notation,
}

#[derive(Clone, Copy)]
enum Notation {
    /// So many digits after the point.
    Decimals(usize),
    /// Mantissa and exponent.
    Scientific,
    /// The value is the exponent of the number shown.
    PowerOfTen,
}

impl Axis {
    /// An axis of numbers.
    pub(super) fn linear(range: Range<f64>) -> Self {
        let step = round_step(&range);
        let notation = if (1e-4..1e5).contains(&step) {
            Notation::Decimals((-step.log10().floor()).max(0.0) as usize)
        } else {
            Notation::Scientific
        };
        Self {
            ticks: multiples(step, &range),
            range,
            notation,
        }
    }

    /// An axis of whole numbers.
    pub(super) fn whole(range: Range<f64>) -> Self {
        Self {
            ticks: multiples(round_step(&range).max(1.0), &range),
            range,
            notation: Notation::Decimals(0),
        }
    }

    /// An axis of exponents, numbered with the powers of ten.
    pub(super) fn power_of_ten(range: Range<f64>) -> Self {
        let span = range.end - range.start;
        let digits: &[f64] = if span < 3.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let decades = multiples(round_step(&range).max(1.0), &(range.start - 1.0..range.end));
        let ticks = decades
            .iter()
            .flat_map(|decade| digits.iter().map(move |digit| decade + digit.log10()))
            .filter(|tick| range.contains(tick))
            .collect();
        Self {
            range,
            ticks,
            notation: Notation::PowerOfTen,
        }
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        RangedCoordf64::from(self.range.clone()).map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        match self.notation {
            Notation::Decimals(decimals) => format!("{value:.decimals$}"),
            Notation::Scientific => format!("{value:.1e}"),
            Notation::PowerOfTen => format!("{:.0e}", 10_f64.powf(*value)),
        }
    }
}

/// The range of `values` with a margin of 5 % on both sides, `least` wide at least; 0 to 1 without
/// values.
pub(super) fn padded(values: impl Iterator<Item = f64>, least: f64) -> Range<f64> {
    let Some((low, high)) = values.fold(None, |range, value| {
        let (low, high) = range.unwrap_or((value, value));
        Some((value.min(low), value.max(high)))
    }) else {
        return 0.0..1.0;
    };
    let margin = (0.05 * (high - low)).max((least - (high - low)) / 2.0);
    low - margin..high + margin
}

/// The 1, 2 or 5 times a power of ten that divides `range` into at most eight parts.
fn round_step(range: &Range<f64>) -> f64 {
    let least = (range.end - range.start) / 8.0;
    let power = 10_f64.powf(least.log10().floor());
    let digit = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|digit| digit * power >= least);
    digit.unwrap_or(10.0) * power
}

fn multiples(step: f64, range: &Range<f64>) -> Vec<f64> {
    let first = (range.start / step).ceil() as i64;
    let last = (range.end / step).floor() as i64;
    (first..=last).map(|count| count as f64 * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<String> {
        axis.ticks
            .iter()
            .map(|tick| axis.format_ext(tick))
            .collect()
    }

    #[test]
    fn ticks_are_round_and_few() {
        let linear = Axis::linear(0.1432..0.1891);
        assert_eq!(labels(&linear), ["0.15", "0.16", "0.17", "0.18"]);
        let auroc = Axis::linear(0.79..0.81);
        assert_eq!(labels(&auroc)[..2], ["0.790", "0.795"]);
        let large = Axis::linear(0.0..4e9);
        assert_eq!(labels(&large)[1], "5.0e8");
    }

    #[test]
    fn epochs_are_whole() {
        assert_eq!(labels(&Axis::whole(0.5..1.5)), ["1"]);
        assert_eq!(labels(&Axis::whole(-2.0..103.0))[..3], ["0", "20", "40"]);
    }

    #[test]
    fn learning_rates_are_powers_of_ten() {
        assert_eq!(
            labels(&Axis::power_of_ten(-3.6..-2.4)),
            ["5e-4", "1e-3", "2e-3"]
        );
        assert_eq!(
            labels(&Axis::power_of_ten(-6.2..-2.8)),
            ["1e-6", "1e-5", "1e-4", "1e-3"]
        );
    }

    #[test]
    fn a_range_holds_its_values() {
        assert_eq!(padded([3.0].into_iter(), 1.0), 2.5..3.5);
        assert_eq!(padded([0.0, 100.0].into_iter(), 1.0), -5.0..105.0);
        assert_eq!(padded(std::iter::empty(), 1.0), 0.0..1.0);
    }
}
