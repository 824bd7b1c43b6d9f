//! The radiograph with the colours of the map and the outline of what the network saw. Knows no
//! text and no file.

use image::{Rgb, RgbImage};

use super::resample::{places, sample};
use super::scale::Scale;
use super::{BACKGROUND, FOREGROUND, HeatMap};

/// A radiograph whose longer side has fewer pixels is enlarged.
const LEAST_SIDE: u32 = 512;
/// The longer side of the picture is so many dots of a glyph or more.
const DOTS: u32 = 256;

pub(super) struct Picture<'a> {
    heat_map: &'a HeatMap<'a>,
    /// Width and height of a pixel of the radiograph.
    zoom: u32,
}

impl<'a> Picture<'a> {
    pub(super) fn of(heat_map: &'a HeatMap<'a>) -> Self {
        let side = heat_map.width.max(heat_map.height);
        Self {
            heat_map,
            zoom: LEAST_SIDE.div_ceil(side),
        }
    }

    pub(super) fn width(&self) -> u32 {
        self.heat_map.width * self.zoom
    }

    pub(super) fn height(&self) -> u32 {
        self.heat_map.height * self.zoom
    }

    /// Width and height of a dot of a glyph that suits the picture.
    pub(super) fn dot(&self) -> u32 {
        self.width().max(self.height()) / DOTS
    }

    pub(super) fn draw(&self, scale: &Scale, canvas: &mut RgbImage, left: u32, top: u32) {
        let HeatMap {
            pixels,
            map,
            rows,
            columns,
            rectangle,
            ..
        } = *self.heat_map;
        let image_width = self.heat_map.width;
        let grey = |x, y| {
            let index = y / self.zoom * image_width + x / self.zoom;
            pixels[index as usize]
        };
        for y in 0..self.height() {
            for x in 0..self.width() {
                canvas.put_pixel(left + x, top + y, Rgb([grey(x, y); 3]));
            }
        }
        let zoom = f64::from(self.zoom);
        let down = places(
            self.height(),
            zoom * rectangle.top,
            zoom * rectangle.height,
            rows,
        );
        let across = places(
            self.width(),
            zoom * rectangle.left,
            zoom * rectangle.width,
            columns,
        );
        let whole = down.len() == self.height() as usize && across.len() == self.width() as usize;
        let thickness = (self.dot() / 2) as usize;
        let rings = |index: usize, count: usize| index.min(count - 1 - index) / thickness;
        for (y, row) in down.iter().enumerate() {
            for (x, column) in across.iter().enumerate() {
                let ring = rings(y, down.len()).min(rings(x, across.len()));
                let colour = match ring {
                    // White and black, so that one of them stands out from any grey.
                    0 if !whole => FOREGROUND,
                    1 if !whole => BACKGROUND,
                    _ => {
                        let value = sample(map, columns, row, column);
                        scale.overlay(grey(column.pixel, row.pixel), value)
                    }
                };
                canvas.put_pixel(left + column.pixel, top + row.pixel, colour);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heat_map::Rectangle;
    use crate::heat_map::tests::effusion;

    /// The picture alone.
    fn drawn(heat_map: &HeatMap) -> RgbImage {
        let picture = Picture::of(heat_map);
        let mut canvas = RgbImage::new(picture.width(), picture.height());
        picture.draw(&Scale::of(heat_map.map), &mut canvas, 0, 0);
        canvas
    }

    #[test]
    fn least_and_greatest_value_have_the_ends_of_the_colours() {
        // Its least value is in the upper right corner, its greatest in the lower left.
        let picture = drawn(&HeatMap {
            map: &[0.0, 0.5, -1.0, 2.0, 1.0, 0.0],
            pixels: &[100; 80 * 64],
            ..effusion()
        });
        let (right, bottom) = (picture.width() - 1, picture.height() - 1);
        assert_eq!((right, bottom), (559, 447));
        assert_eq!(*picture.get_pixel(right, 0), Rgb([95, 85, 98]));
        assert_eq!(*picture.get_pixel(0, bottom), Rgb([184, 172, 65]));
    }

    #[test]
    fn an_enlarged_picture_has_the_map_at_its_own_size() {
        let map: Vec<f32> = (0..49)
            .map(|index| ((index * 5) % 12) as f32 * 0.5 - 2.0)
            .collect();
        let pixels: Vec<u8> = (0..64 * 64).map(|index| (index % 251) as u8).collect();
        let picture = drawn(&HeatMap {
            map: &map,
            rows: 7,
            columns: 7,
            pixels: &pixels,
            width: 64,
            height: 64,
            rectangle: Rectangle {
                left: 0.0,
                top: 0.0,
                width: 64.0,
                height: 64.0,
            },
            ..effusion()
        });
        let scale = Scale::of(&map);
        // PyTorch's interpolate of this map to 512x512, as in the tests of `resample`.
        for (y, x, torch) in [
            (0, 0, -2.0),
            (37, 91, -0.109937668),
            (100, 411, -1.622070312),
            (256, 256, -1.945592880),
            (170, 495, 0.084472656),
        ] {
            let grey = pixels[y / 8 * 64 + x / 8];
            let colour = picture.get_pixel(x as u32, y as u32);
            assert_eq!(*colour, scale.overlay(grey, torch), "({y}, {x})");
        }
    }

    #[test]
    fn outside_of_the_rectangle_the_grey_is_untouched() {
        let pixels: Vec<u8> = (0..80 * 64).map(|index| (index * 7 % 256) as u8).collect();
        let picture = drawn(&HeatMap {
            pixels: &pixels,
            rectangle: Rectangle {
                left: 10.5,
                top: 20.0,
                width: 40.0,
                height: 30.0,
            },
            ..effusion()
        });
        // Seven pixels of the picture are one of the radiograph; column 73.5 is cut in its centre.
        let (columns, rows) = (73..353, 140..350);
        for (x, y, &colour) in picture.enumerate_pixels() {
            let grey = Rgb([pixels[(y / 7 * 80 + x / 7) as usize]; 3]);
            let inside = |margin: u32| {
                (columns.start + margin..columns.end - margin).contains(&x)
                    && (rows.start + margin..rows.end - margin).contains(&y)
            };
            // The outline is one white and one black pixel wide.
            match (inside(0), inside(1), inside(2)) {
                (false, ..) => assert_eq!(colour, grey, "({x}, {y})"),
                (true, false, _) => assert_eq!(colour, FOREGROUND, "({x}, {y})"),
                (_, true, false) => assert_eq!(colour, BACKGROUND, "({x}, {y})"),
                // No colour of viridis is grey.
                _ => assert_ne!(colour, Rgb([colour[0]; 3]), "({x}, {y})"),
            }
        }
    }

    #[test]
    fn a_flat_map_has_one_colour() {
        let picture = drawn(&HeatMap {
            map: &[1.5; 6],
            ..effusion()
        });
        // 85 % of 90 and 15 % of (68, 1, 84); no outline around the whole.
        assert!(picture.pixels().all(|pixel| *pixel == Rgb([87, 77, 89])));
    }
}
