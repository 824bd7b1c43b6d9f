//! A draw applied to pixels: one affine map, then the grey values.

use super::{Augmentation, Draw};

impl Augmentation {
    /// Changes the 8-bit grey `pixels`, `[size, size]` row by row, by what is drawn for them.
    ///
    /// In this order: the flip, the scale and the rotation about the centre, the translation, the
    /// brightness. The first four are one affine map: each pixel of the result is where the inverse
    /// of the map finds it, interpolated bilinearly between the centres of pixels as Pillow's
    /// `Image.transform` with `BILINEAR` does, and rounded half up. What lies outside of the image
    /// is black, as the collimated border of a radiograph is. A flip alone is exact. The brightness
    /// multiplies, rounds half up and ends at 255.
    ///
    /// # Panics
    ///
    /// If there are not `size * size` pixels, at least one.
    ///
    /// ```
    /// use chest_datasets::{Augmentation, Draw};
    ///
    /// let draw = Draw { flip: 0.3, ..Draw::new(42, 0, "1.png") };
    /// let mut pixels = [1, 2, 3, 4];
    /// Augmentation::paper().apply(&mut pixels, 2, draw);
    /// assert_eq!(pixels, [2, 1, 4, 3]);
    /// ```
    pub fn apply(&self, pixels: &mut [u8], size: usize, draw: Draw) {
        assert!(
            !pixels.is_empty() && size.checked_mul(size) == Some(pixels.len()),
            "{} pixels are not {size} by {size}",
            pixels.len()
        );
        let flip = draw.flip < self.flip;
        let motion = Motion {
            rotation: f64::from(self.rotation * draw.rotation).to_radians(),
            translation: draw
                .translation
                .map(|part| f64::from(self.translation * part) * size as f64),
            scale: 1.0 + f64::from(self.scale * draw.scale),
        };
        if motion != Motion::NONE {
            resample(pixels, size, flip, &motion);
        } else if flip {
            for row in pixels.chunks_exact_mut(size) {
                row.reverse();
            }
        }
        let brightness = 1.0 + self.brightness * draw.brightness;
        if brightness != 1.0 {
            for pixel in pixels {
                // `as` ends at 255.
                *pixel = (f32::from(*pixel) * brightness + 0.5) as u8;
            }
        }
    }
}

/// What one image is moved by, after its flip.
#[derive(Debug, PartialEq)]
struct Motion {
    /// Counter-clockwise, in radians.
    rotation: f64,
    /// To the right and down, in pixels.
    translation: [f64; 2],
    /// The factor.
    scale: f64,
}

impl Motion {
    const NONE: Self = Self {
        rotation: 0.0,
        translation: [0.0; 2],
        scale: 1.0,
    };
}

/// Moves the pixels of a square image.
fn resample(pixels: &mut [u8], size: usize, flip: bool, motion: &Motion) {
    let source = pixels.to_vec();
    let side = size as f64;
    let (sine, cosine) = motion.rotation.sin_cos();
    let (sine, cosine) = (sine / motion.scale, cosine / motion.scale);
    let mirror = if flip { -1.0 } else { 1.0 };
    for (y, row) in pixels.chunks_exact_mut(size).enumerate() {
        let down = y as f64 + 0.5 - side / 2.0 - motion.translation[1];
        for (x, pixel) in row.iter_mut().enumerate() {
            let right = x as f64 + 0.5 - side / 2.0 - motion.translation[0];
            *pixel = sample(
                &source,
                size,
                mirror * (cosine * right - sine * down) + side / 2.0,
                sine * right + cosine * down + side / 2.0,
            );
        }
    }
}

/// The grey value at `x`, `y` in pixels from the upper left corner of the image; the centre of its
/// first pixel is at 0.5, 0.5.
fn sample(pixels: &[u8], size: usize, x: f64, y: f64) -> u8 {
    let inside = 0.0..size as f64;
    if !inside.contains(&x) || !inside.contains(&y) {
        return 0;
    }
    let (left, right, across) = neighbours(x, size);
    let (upper, lower, down) = neighbours(y, size);
    let blend = |row: usize| {
        let first = f64::from(pixels[row * size + left]);
        let second = f64::from(pixels[row * size + right]);
        first + across * (second - first)
    };
    let (upper, lower) = (blend(upper), blend(lower));
    (upper + down * (lower - upper) + 0.5) as u8
}

/// The pixels whose centres lie before and after `position`, which is inside of the image, and how
/// far it is from the first to the second. Beyond the last centre, both are the last pixel.
fn neighbours(position: f64, size: usize) -> (usize, usize, f64) {
    // By way of 32 bit: straight to 64 it is slower.
    let after = (position + 0.5) as u32 as usize;
    (
        after.saturating_sub(1),
        after.min(size - 1),
        position + 0.5 - after as f64,
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_even_image_stays_even_but_for_the_black_outside(
            flip in 0.0_f32..=1.0,
            rotation in 0.0_f32..=45.0,
            translation in 0.0_f32..=0.5,
            scale in 0.0_f32..=0.5,
            brightness in 0.0_f32..=1.0,
            size in 1_usize..20,
            seed: u64,
        ) {
            let augmentation = Augmentation { flip, rotation, translation, scale, brightness };
            prop_assert!(augmentation.check().is_ok());
            let draw = Draw::new(seed, 0, "1.png");
            let mut pixels = vec![200; size * size];
            augmentation.apply(&mut pixels, size, draw);
            let expected = (200.0 * (1.0 + brightness * draw.brightness) + 0.5) as u8;
            for pixel in pixels {
                prop_assert!(pixel == 0 || pixel == expected, "{pixel}, not {expected}");
            }
        }
    }
}
