//! The colour bar: which colour is which value of the map. Knows the scale, not the picture.

use image::RgbImage;

use super::fill;
use super::scale::{Scale, colour};
use super::text::{LETTER, Text};

pub(super) struct ColourBar {
    numbers: Vec<(f64, Text)>,
    height: u32,
    /// Width of the bar itself.
    thickness: u32,
}

impl ColourBar {
    /// A bar of `height` pixels, with numbers whose dots have `dot` pixels.
    pub(super) fn new(scale: &Scale, height: u32, dot: u32) -> Self {
        let numbers = scale.numbers().into_iter();
        Self {
            numbers: numbers
                .map(|(fraction, number)| (fraction, Text::new(&number, dot)))
                .collect(),
            height,
            thickness: LETTER * dot,
        }
    }

    /// Width with the numbers.
    pub(super) fn width(&self) -> u32 {
        let numbers = self.numbers.iter().map(|(_, number)| number.width());
        self.numbers_left() + numbers.max().unwrap_or_default()
    }

    pub(super) fn height(&self) -> u32 {
        self.height
    }

    pub(super) fn draw(&self, canvas: &mut RgbImage, left: u32, top: u32) {
        for row in 0..self.height {
            let fraction = 1.0 - (f64::from(row) + 0.5) / f64::from(self.height);
            fill(
                canvas,
                (left, top + row),
                (self.thickness, 1),
                colour(fraction),
            );
        }
        for (fraction, number) in &self.numbers {
            let room = f64::from(self.height - number.height());
            let number_top = top + ((1.0 - fraction) * room).round() as u32;
            number.draw(canvas, left + self.numbers_left(), number_top);
        }
    }

    fn numbers_left(&self) -> u32 {
        self.thickness + self.thickness / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heat_map::{BACKGROUND, FOREGROUND};

    const HEIGHT: u32 = 300;

    fn drawn(map: &[f32]) -> (ColourBar, RgbImage) {
        let bar = ColourBar::new(&Scale::of(map), HEIGHT, 2);
        let mut canvas = RgbImage::from_pixel(bar.width(), bar.height(), BACKGROUND);
        bar.draw(&mut canvas, 0, 0);
        (bar, canvas)
    }

    #[test]
    fn grows_lighter_from_the_lower_end_to_the_upper() {
        let (bar, canvas) = drawn(&[-1.0, 2.0]);
        for x in [0, bar.thickness - 1] {
            let luminance: Vec<f64> = (0..HEIGHT)
                .rev()
                .map(|y| canvas.get_pixel(x, y).0.map(f64::from))
                .map(|[red, green, blue]| 0.2126 * red + 0.7152 * green + 0.0722 * blue)
                .collect();
            // Each colour is rounded to whole levels: two neighbours can lose one between them.
            assert!(luminance.windows(2).all(|pair| pair[1] > pair[0] - 1.0));
            // Over ten rows the growth is above the rounding.
            assert!(luminance.windows(11).all(|rows| rows[10] > rows[0]));
            // Viridis reaches from (68, 1, 84) to (253, 231, 37).
            assert!(luminance[0] < 25.0 && luminance[HEIGHT as usize - 1] > 215.0);
        }
    }

    /// The rows in which a number shows.
    fn rows_of_numbers(map: &[f32]) -> Vec<u32> {
        let (_, canvas) = drawn(map);
        let white = canvas
            .enumerate_pixels()
            .filter(|pixel| *pixel.2 == FOREGROUND);
        let mut rows: Vec<u32> = white.map(|(_, y, _)| y).collect();
        rows.dedup();
        rows
    }

    #[test]
    fn numbers_stand_at_the_ends_and_in_the_middle() {
        let rows = rows_of_numbers(&[-1.0, 2.0]);
        // Digits of seven dots in letters of eight, two pixels each.
        let expected: Vec<u32> = (0..14).chain(142..156).chain(284..298).collect();
        assert_eq!(rows, expected);
    }

    #[test]
    fn a_flat_map_has_one_number_at_the_lower_end() {
        assert_eq!(rows_of_numbers(&[2.0, 2.0]), (284..298).collect::<Vec<_>>());
    }
}
