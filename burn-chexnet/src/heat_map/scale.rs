//! The scale from values of the map to colours and to the numbers of the colour bar. Knows no
//! picture.

use colorous::VIRIDIS;
use image::Rgb;

use super::resample::mix;

/// Opacity of the least value and of the greatest: the anatomy stays visible under both.
const OPACITY: [f64; 2] = [0.15, 0.55];

/// From the least to the greatest value of a map.
pub(super) struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    /// The scale of a map with at least one value, all finite.
    pub(super) fn of(map: &[f32]) -> Self {
        let fold = |start, choose: fn(f32, f32) -> f32| map.iter().copied().fold(start, choose);
        Self {
            low: fold(f32::INFINITY, f32::min).into(),
            high: fold(f32::NEG_INFINITY, f32::max).into(),
        }
    }

    /// `grey` under the colour of `value`.
    pub(super) fn overlay(&self, grey: u8, value: f64) -> Rgb<u8> {
        // All of a flat map is at the lower end.
        let fraction = if self.is_flat() {
            0.0
        } else {
            (value - self.low) / (self.high - self.low)
        };
        let opacity = mix(OPACITY[0], OPACITY[1], fraction);
        let blend = |colour: u8| mix(grey.into(), colour.into(), opacity).round() as u8;
        Rgb(colour(fraction).0.map(blend))
    }

    /// The numbers beside the colour bar, each with its fraction of the way from the lower end to
    /// the upper: those of both ends and the middle, or the only value of a flat map.
    pub(super) fn numbers(&self) -> Vec<(f64, String)> {
        let fractions: &[f64] = if self.is_flat() {
            &[0.0]
        } else {
            &[1.0, 0.5, 0.0]
        };
        fractions
            .iter()
            .map(|&fraction| (fraction, self.number(mix(self.low, self.high, fraction))))
            .collect()
    }

    /// `value` with three digits of the span of the scale.
    fn number(&self, value: f64) -> String {
        let largest = self.low.abs().max(self.high.abs());
        if largest == 0.0 {
            return "0".to_owned();
        }
        let exponent = |number: f64| number.log10().floor() as i32;
        let span = if self.is_flat() {
            largest
        } else {
            self.high - self.low
        };
        let digits = |first: i32| (first + 2 - exponent(span)).max(0) as usize;
        if !(1e-3..1e5).contains(&largest) {
            return format!("{value:.*e}", digits(exponent(largest)));
        }
        let number = format!("{value:.*}", digits(0));
        match number.strip_prefix('-') {
            // No "-0.00".
            Some(zero) if !zero.contains(|digit| ('1'..='9').contains(&digit)) => zero.to_owned(),
            _ => number,
        }
    }

    /// Whether every place speaks against the label.
    pub(super) fn is_negative(&self) -> bool {
        self.high < 0.0
    }

    fn is_flat(&self) -> bool {
        self.low == self.high
    }
}

/// The colour at a fraction of the way from the lower end to the upper. Viridis is perceptually
/// uniform, grows lighter all the way and keeps its order for colour-blind readers.
pub(super) fn colour(fraction: f64) -> Rgb<u8> {
    Rgb(VIRIDIS.eval_continuous(fraction).as_array())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_map_without_any_evidence_for_is_negative() {
        assert!(Scale::of(&[-2.0, -0.1]).is_negative());
        assert!(!Scale::of(&[-2.0, 0.0]).is_negative() && !Scale::of(&[1.0]).is_negative());
    }

    fn numbers(map: &[f32]) -> Vec<String> {
        let numbers = Scale::of(map).numbers().into_iter();
        numbers.map(|(_, number)| number).collect()
    }

    #[test]
    fn the_ends_of_the_map_are_the_ends_of_viridis() {
        let scale = Scale::of(&[0.5, -1.0, 2.0]);
        // 15 % of (68, 1, 84) and 55 % of (253, 231, 37), the ends that matplotlib has too.
        assert_eq!(scale.overlay(100, -1.0), Rgb([95, 85, 98]));
        assert_eq!(scale.overlay(100, 2.0), Rgb([184, 172, 65]));
        assert_eq!(scale.overlay(0, -1.0), Rgb([10, 0, 13]));
        assert_eq!(scale.overlay(255, 2.0), Rgb([254, 242, 135]));
        // 35 % of matplotlib's viridis(0.5), (32.5, 144.6, 140.4); colorous gives whole levels.
        for (ours, matplotlib) in scale
            .overlay(100, 0.5)
            .0
            .into_iter()
            .zip([76.4, 115.6, 114.1])
        {
            assert!((f64::from(ours) - matplotlib).abs() < 1.0);
        }
    }

    #[test]
    fn a_flat_map_is_at_the_lower_end() {
        for value in [0.0, -3.0, f32::MAX, f32::MIN_POSITIVE] {
            let scale = Scale::of(&[value; 4]);
            assert_eq!(scale.overlay(100, value.into()), Rgb([95, 85, 98]));
        }
    }

    #[test]
    fn numbers_tell_the_ends_and_the_middle_apart() {
        assert_eq!(numbers(&[-0.9, 2.5, 0.0]), ["2.50", "0.80", "-0.90"]);
        assert_eq!(numbers(&[7.0, 7.125]), ["7.125", "7.062", "7.000"]);
        assert_eq!(numbers(&[-300.0, 200.0]), ["200", "-50", "-300"]);
        assert_eq!(numbers(&[-2.351, 2.35]), ["2.35", "0.00", "-2.35"]);
        assert_eq!(numbers(&[0.0, 2e-6]), ["2.00e-6", "1.00e-6", "0.00e0"]);
        assert_eq!(
            numbers(&[f32::MIN, f32::MAX]),
            ["3.40e38", "0.00e0", "-3.40e38"]
        );
    }

    #[test]
    fn a_flat_map_has_one_number() {
        assert_eq!(numbers(&[-1.5; 49]), ["-1.50"]);
        assert_eq!(numbers(&[0.0, -0.0]), ["0"]);
        assert_eq!(numbers(&[1e30; 2]), ["1.00e30"]);
    }
}
