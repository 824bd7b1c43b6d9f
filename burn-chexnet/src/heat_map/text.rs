//! One line of text from an 8 × 8 font, enlarged by a whole factor. Knows nothing of maps.

use font8x8::{
    BASIC_FONTS, BLOCK_FONTS, BOX_FONTS, GREEK_FONTS, HIRAGANA_FONTS, LATIN_FONTS, MISC_FONTS,
    UnicodeFonts,
};
use image::RgbImage;

use super::{FOREGROUND, fill};

/// Width and height of a letter in dots.
pub(super) const LETTER: u32 = 8;

pub(super) struct Text {
    glyphs: Vec<[u8; LETTER as usize]>,
    /// Width and height of a dot in pixels.
    dot: u32,
}

impl Text {
    pub(super) fn new(text: &str, dot: u32) -> Self {
        Self {
            glyphs: text.chars().map(glyph).collect(),
            dot,
        }
    }

    pub(super) fn width(&self) -> u32 {
        self.glyphs.len() as u32 * LETTER * self.dot
    }

    pub(super) fn height(&self) -> u32 {
        LETTER * self.dot
    }

    pub(super) fn draw(&self, canvas: &mut RgbImage, left: u32, top: u32) {
        for (letter, glyph) in (0..).zip(&self.glyphs) {
            for (y, row) in (0..).zip(glyph) {
                // The lowest bit is the leftmost dot.
                for x in (0..LETTER).filter(|x| row >> x & 1 == 1) {
                    let corner = (left + (letter * LETTER + x) * self.dot, top + y * self.dot);
                    fill(canvas, corner, (self.dot, self.dot), FOREGROUND);
                }
            }
        }
    }
}

/// The dots of a character row by row, those of `?` if it has none.
fn glyph(character: char) -> [u8; LETTER as usize] {
    let fonts: [&dyn UnicodeFonts; 7] = [
        &BASIC_FONTS,
        &LATIN_FONTS,
        &GREEK_FONTS,
        &HIRAGANA_FONTS,
        &MISC_FONTS,
        &BOX_FONTS,
        &BLOCK_FONTS,
    ];
    // The font has empty glyphs for control characters.
    let shown = if character.is_control() {
        '?'
    } else {
        character
    };
    let find = |character| fonts.iter().find_map(|font| font.get(character));
    find(shown).or_else(|| find('?')).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heat_map::BACKGROUND;

    fn drawn(text: &str, dot: u32) -> RgbImage {
        let text = Text::new(text, dot);
        let mut canvas = RgbImage::from_pixel(text.width(), text.height(), BACKGROUND);
        text.draw(&mut canvas, 0, 0);
        canvas
    }

    #[test]
    fn letters_stand_upright_and_in_order() {
        let canvas = drawn("L!", 3);
        let show = |y: u32| -> String {
            let white = |x: &u32| *canvas.get_pixel(3 * x + 1, 3 * y + 1) == FOREGROUND;
            (0..16).map(|x| if white(&x) { '#' } else { '.' }).collect()
        };
        let rows: Vec<String> = (0..8).map(show).collect();
        assert_eq!(
            rows,
            [
                "####.......##...",
                ".##.......####..",
                ".##.......####..",
                ".##........##...",
                ".##...#....##...",
                ".##..##.........",
                "#######....##...",
                "................",
            ]
            .map(|row| row.to_owned())
        );
    }

    #[test]
    fn every_ascii_character_has_a_glyph_of_its_own() {
        let glyphs: Vec<_> = (' '..='~').map(glyph).collect();
        for (index, glyph) in glyphs.iter().enumerate() {
            assert!(!glyphs[..index].contains(glyph), "{index}");
        }
    }

    #[test]
    fn what_the_font_lacks_is_a_question_mark() {
        for lacking in ["肺", "\n", "\u{7}", "\u{9f}", "🫁"] {
            assert_eq!(drawn(lacking, 2), drawn("?", 2), "{lacking:?}");
        }
        assert_ne!(drawn("É", 2), drawn("?", 2));
    }
}
