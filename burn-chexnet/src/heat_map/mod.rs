//! Heat maps: the class activation map of one label, laid in colour over the radiograph.
//!
//! Takes plain numbers and writes PNG. It may depend on the image encoder, the colours and the
//! glyphs of its dependencies, not on Burn, on the model, or on how images are read.

mod check;
mod colour_bar;
mod error;
mod picture;
mod resample;
mod scale;
mod text;

use std::io::Cursor;
use std::path::Path;

use image::{ImageFormat, Rgb, RgbImage};

use colour_bar::ColourBar;
use picture::Picture;
use scale::Scale;
use text::{LETTER, Text};

use crate::written::write_whole;

pub use error::HeatMapError;

/// What a heat map shows: a radiograph, and the class activation map of one label.
///
/// ```
/// use burn_chexnet::heat_map::{HeatMap, Rectangle};
///
/// let folder = tempfile::tempdir()?;
/// let heat_map = HeatMap {
///     label: "Effusion",
///     probability: 0.87,
///     pixels: &[90; 80 * 64],
///     width: 80,
///     height: 64,
///     map: &[-0.5, 0.0, 0.25, 0.5, 1.0, 2.0],
///     rows: 2,
///     columns: 3,
///     // The centre crop that the network saw.
///     rectangle: Rectangle { left: 8.0, top: 0.0, width: 64.0, height: 64.0 },
/// };
/// heat_map.write(folder.path().join("effusion.png"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeatMap<'a> {
    /// Name of the label, and of whatever else the caption is to say, 1 to 256 characters. Those that the font lacks show as `?`.
    pub label: &'a str,
    /// Probability of the label, 0 to 1.
    pub probability: f32,
    /// The radiograph in 8-bit grey, `[height, width]`, row by row: 0 is black, 255 is white.
    pub pixels: &'a [u8],
    /// Width of the radiograph in pixels, at most 16384.
    pub width: u32,
    /// Height of the radiograph in pixels, at most 16384.
    pub height: u32,
    /// The class activation map, `[rows, columns]`, row by row: contributions to the logit.
    pub map: &'a [f32],
    /// Rows of the map.
    pub rows: usize,
    /// Columns of the map.
    pub columns: usize,
    /// The part of the radiograph that the network saw, which the map covers.
    pub rectangle: Rectangle,
}

/// A part of a radiograph in pixels; they may be cut: the first one reaches from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rectangle {
    /// Left edge.
    pub left: f64,
    /// Upper edge.
    pub top: f64,
    /// Width, at least 1.
    pub width: f64,
    /// Height, at least 1.
    pub height: f64,
}

impl HeatMap<'_> {
    /// Draws the radiograph under the colours of the map, with a caption of label and probability
    /// above it and a colour bar with the values of the map to its right.
    ///
    /// The map is resampled bilinearly, as PyTorch's `interpolate` with `align_corners=False`.
    /// Its least and greatest value are the ends of the colour map viridis; the greater the value,
    /// the more opaque its colour. Outside of the rectangle the radiograph keeps its grey, and an
    /// outline shows the rectangle. A radiograph whose longer side is less than 512 pixels is
    /// drawn enlarged by a whole factor.
    ///
    /// # Errors
    ///
    /// A label that is empty or longer than 256 characters; a probability outside of 0 to 1;
    /// pixels or values of the map that are none or not as many as the sizes say; a side of more
    /// than 16384 pixels; a value of the map that is not finite; a rectangle that is less than a
    /// pixel or not within the radiograph.
    pub fn draw(&self) -> Result<RgbImage, HeatMapError> {
        check::check(self)?;
        let scale = Scale::of(self.map);
        let picture = Picture::of(self);
        let dot = picture.dot();
        let (letter, margin) = (LETTER * dot, LETTER * dot / 2);
        // Without it the lightest place of such a map would look like a finding.
        let against = if scale.is_negative() {
            ", all against"
        } else {
            ""
        };
        let caption = format!("{} {:.2}{against}", self.label, self.probability);
        let caption = Text::new(&caption, dot);
        // At least so high that its three numbers stand apart.
        let bar = ColourBar::new(&scale, picture.height().max(5 * letter), dot);

        let top = caption.height() + 2 * margin;
        let bar_left = margin + picture.width() + letter;
        let width = (margin + caption.width()).max(bar_left + bar.width()) + margin;
        let height = top + bar.height() + margin;
        let mut canvas = RgbImage::from_pixel(width, height, BACKGROUND);
        caption.draw(&mut canvas, margin, margin);
        picture.draw(&scale, &mut canvas, margin, top);
        bar.draw(&mut canvas, bar_left, top);
        Ok(canvas)
    }

    /// Writes what [`draw`](Self::draw) gives to `path` as PNG, whatever the name ends in. The
    /// file appears whole or not at all.
    ///
    /// # Errors
    ///
    /// Those of [`draw`](Self::draw), and a file that cannot be written.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), HeatMapError> {
        let path = path.as_ref();
        let write = |reason: String| HeatMapError::Write {
            path: path.to_owned(),
            reason,
        };
        let mut bytes = Vec::new();
        self.draw()?
            .write_to(&mut Cursor::new(&mut bytes), ImageFormat::Png)
            .map_err(|e| write(e.to_string()))?;
        write_whole(path, &bytes).map_err(|e| write(e.to_string()))
    }
}

const BACKGROUND: Rgb<u8> = Rgb([0; 3]);
/// Caption, numbers and outline.
const FOREGROUND: Rgb<u8> = Rgb([255; 3]);

/// Fills a rectangle of the canvas, which must hold it.
fn fill(
    canvas: &mut RgbImage,
    (left, top): (u32, u32),
    (width, height): (u32, u32),
    colour: Rgb<u8>,
) {
    for y in top..top + height {
        for x in left..left + width {
            canvas.put_pixel(x, y, colour);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    pub(super) fn effusion() -> HeatMap<'static> {
        HeatMap {
            label: "Effusion",
            probability: 0.87,
            pixels: &[90; 80 * 64],
            width: 80,
            height: 64,
            map: &[-0.5, 0.0, 0.25, 0.5, 1.0, 2.0],
            rows: 2,
            columns: 3,
            rectangle: Rectangle {
                left: 0.0,
                top: 0.0,
                width: 80.0,
                height: 64.0,
            },
        }
    }

    /// How many dots of the font `text` has.
    fn dots(text: &str) -> u32 {
        let glyphs = text
            .chars()
            .map(|letter| font8x8::legacy::BASIC_LEGACY[letter as usize]);
        glyphs.flatten().map(|row| row.count_ones()).sum()
    }

    #[test]
    fn caption_and_numbers_are_within_the_canvas() {
        let long = "W".repeat(256);
        for label in ["Mass", "Pleural_Thickening", &long] {
            // The last is the width and height of a dot.
            for (width, height, dot) in [
                (1, 1, 2),
                (64, 64, 2),
                (400, 300, 3),
                (2500, 2048, 9),
                (1, 3000, 11),
                (3000, 1, 11),
            ] {
                let canvas = HeatMap {
                    label,
                    pixels: &vec![90; (width * height) as usize],
                    width,
                    height,
                    rectangle: Rectangle {
                        left: 0.0,
                        top: 0.0,
                        width: width.into(),
                        height: height.into(),
                    },
                    ..effusion()
                }
                .draw()
                .unwrap();
                // Nothing else in the canvas is white; what overlaps or is cut off is missing.
                let margin = 4 * dot;
                let inner = |at: u32, side: u32| (margin..side - margin).contains(&at);
                let white = canvas.enumerate_pixels().filter(|&(x, y, pixel)| {
                    *pixel == FOREGROUND && inner(x, canvas.width()) && inner(y, canvas.height())
                });
                let texts = [&format!("{label} 0.87"), "2.00", "0.75", "-0.50"];
                let expected: u32 = texts.into_iter().map(dots).sum();
                assert_eq!(
                    white.count() as u32,
                    expected * dot * dot,
                    "{label} on {width}x{height}"
                );
            }
        }
    }

    #[test]
    fn writes_what_it_draws() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("effusion.map");
        std::fs::write(&path, "an older file").unwrap();
        effusion().write(&path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let read = image::load_from_memory_with_format(&bytes, ImageFormat::Png).unwrap();
        assert_eq!(read, effusion().draw().unwrap().into());
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    }

    #[test]
    fn an_unwritable_file_is_named_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let taken = folder.path().join("taken.png");
        std::fs::create_dir(&taken).unwrap();
        for path in [taken, folder.path().join("missing").join("effusion.png")] {
            let error = effusion().write(&path).unwrap_err();
            assert!(matches!(error, HeatMapError::Write { .. }));
            let message = error.to_string();
            assert!(message.contains(&path.display().to_string()), "{message}");
            assert!(!message.contains('\n'), "{message}");
        }
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    }
}
