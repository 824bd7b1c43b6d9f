//! The check of what a heat map is drawn from, so that the drawing itself cannot fail. Draws nothing.

use super::{HeatMap, HeatMapError};

/// The largest width and height that are drawn; a radiograph has at most about 5000 pixels a side.
pub(super) const LARGEST_SIDE: u32 = 16_384;
pub(super) const LONGEST_LABEL: usize = 256;
/// How far, in pixels, a computed rectangle may reach beyond the radiograph by rounding.
const ROUNDING: f64 = 1e-6;

/// Whether `heat_map` can be drawn.
pub(super) fn check(heat_map: &HeatMap) -> Result<(), HeatMapError> {
    let &HeatMap {
        label,
        probability,
        pixels,
        width,
        height,
        map,
        rows,
        columns,
        rectangle,
    } = heat_map;
    let characters = label.chars().count();
    if !(1..=LONGEST_LABEL).contains(&characters) {
        return Err(HeatMapError::Label { characters });
    }
    let label = label.to_owned();
    if !(0.0..=1.0).contains(&probability) {
        return Err(HeatMapError::Probability { label, probability });
    }
    if pixels.is_empty()
        || u64::from(width) * u64::from(height) != pixels.len() as u64
        || width.max(height) > LARGEST_SIDE
    {
        return Err(HeatMapError::Pixels {
            label,
            pixels: pixels.len(),
            width,
            height,
        });
    }
    if map.is_empty() || rows.checked_mul(columns) != Some(map.len()) {
        return Err(HeatMapError::Map {
            label,
            values: map.len(),
            rows,
            columns,
        });
    }
    if let Some(index) = map.iter().position(|value| !value.is_finite()) {
        return Err(HeatMapError::NotFinite {
            label,
            value: map[index],
            row: index / columns,
            column: index % columns,
        });
    }
    let within = |start: f64, length: f64, side: u32| {
        start >= -ROUNDING && length >= 1.0 && start + length <= f64::from(side) + ROUNDING
    };
    if !within(rectangle.left, rectangle.width, width)
        || !within(rectangle.top, rectangle.height, height)
    {
        return Err(HeatMapError::Rectangle {
            label,
            rectangle,
            width,
            height,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heat_map::Rectangle;
    use crate::heat_map::tests::effusion;

    #[track_caller]
    fn refused(heat_map: HeatMap, message: &str) {
        let error = heat_map.draw().err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some(message));
    }

    #[test]
    fn labels_that_make_no_caption() {
        let label = "a".repeat(257);
        for (label, characters) in [("", 0), (label.as_str(), 257)] {
            let message =
                format!("a label of {characters} characters makes no caption: give 1 to 256");
            refused(
                HeatMap {
                    label,
                    ..effusion()
                },
                &message,
            );
        }
    }

    #[test]
    fn probabilities_that_are_none() {
        for probability in [-0.01, 1.01, f32::NAN, f32::INFINITY] {
            refused(
                HeatMap {
                    probability,
                    ..effusion()
                },
                &format!("\"Effusion\": the probability is {probability}: give 0 to 1"),
            );
        }
        refused(
            HeatMap {
                label: "two\nlines",
                probability: 2.0,
                ..effusion()
            },
            r#""two\nlines": the probability is 2: give 0 to 1"#,
        );
    }

    #[test]
    fn sizes_that_do_not_fit_the_pixels() {
        let wide = vec![0; 16_385];
        let cases: [(&[u8], u32, u32); 5] = [
            (&[], 0, 0),
            (&[], 80, 64),
            (&[0; 79 * 64], 80, 64),
            (&[0; 64], u32::MAX, u32::MAX),
            (&wide, 16_385, 1),
        ];
        for (pixels, width, height) in cases {
            refused(
                HeatMap {
                    pixels,
                    width,
                    height,
                    ..effusion()
                },
                &format!(
                    "\"Effusion\": {} pixels do not make a radiograph of {width}x{height}: \
                     give width times height of them, 1 to 16384 a side",
                    pixels.len()
                ),
            );
        }
    }

    #[test]
    fn sizes_that_do_not_fit_the_map() {
        let cases: [(&[f32], usize, usize); 4] = [
            (&[], 0, 0),
            (&[], 0, 3),
            (&[0.0; 6], 2, 2),
            // Their product is 6 too, after an overflow.
            (&[0.0; 6], usize::MAX / 2 + 4, 2),
        ];
        for (map, rows, columns) in cases {
            refused(
                HeatMap {
                    map,
                    rows,
                    columns,
                    ..effusion()
                },
                &format!(
                    "\"Effusion\": {} values do not make a map of {rows} rows and {columns} columns: \
                     give rows times columns of them, at least one",
                    map.len()
                ),
            );
        }
    }

    #[test]
    fn values_that_are_not_finite() {
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            refused(
                HeatMap {
                    map: &[0.0, 0.0, 0.0, 0.0, value, 0.0],
                    ..effusion()
                },
                &format!(
                    "\"Effusion\": the map is {value} at row 1, column 1 (counted from 0): \
                     check the weights and the image"
                ),
            );
        }
    }

    #[test]
    fn rectangles_that_are_not_within_the_radiograph() {
        for (left, top, width, height) in [
            (-0.1, 0.0, 80.0, 64.0),
            (0.0, -0.1, 80.0, 64.0),
            (0.1, 0.0, 80.0, 64.0),
            (0.0, 0.1, 80.0, 64.0),
            (10.0, 10.0, 0.9, 5.0),
            (10.0, 10.0, 5.0, -1.0),
            (f64::NAN, 0.0, 80.0, 64.0),
            (0.0, 0.0, 80.0, f64::NAN),
            (0.0, 0.0, f64::INFINITY, 64.0),
        ] {
            let rectangle = Rectangle {
                left,
                top,
                width,
                height,
            };
            refused(
                HeatMap {
                    rectangle,
                    ..effusion()
                },
                &format!(
                    "\"Effusion\": the rectangle of {width}x{height} pixels at ({left}, {top}) is not within \
                     the radiograph of 80x64: give a part of it, at least one pixel"
                ),
            );
        }
    }

    #[test]
    fn rounding_is_no_error() {
        let rectangle = Rectangle {
            left: -1e-9,
            top: 0.3,
            width: 80.0 + 1e-9,
            height: 63.7 + 1e-9,
        };
        assert!(
            check(&HeatMap {
                rectangle,
                ..effusion()
            })
            .is_ok()
        );
    }
}
