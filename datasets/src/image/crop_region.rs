//! Where the centre crop of a resized image lies in the original. It may not depend on pixels.

use super::ImageError;
use super::resize::LARGEST;

/// The part of an image that a centre crop shows, in pixels of the original.
///
/// The left edge of the first column is at 0, its right edge at 1. Column `i` of a crop of `size`
/// columns shows the original from `left + i * width / size` to `left + (i + 1) * width / size`;
/// rows likewise. (The anti-aliasing filter takes in up to a pixel of the crop more on each side.)
///
/// ```
/// use chest_datasets::CropRegion;
///
/// let region = CropRegion::centre(1024, 1024, 256, 224)?;
/// assert_eq!((region.left, region.top), (64.0, 64.0));
/// assert_eq!((region.width, region.height), (896.0, 896.0));
/// # Ok::<(), chest_datasets::ImageError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CropRegion {
    /// Left edge, from the left edge of the image.
    pub left: f64,
    /// Upper edge, from the upper edge of the image.
    pub top: f64,
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
}

impl CropRegion {
    /// What torchvision's `Resize(short_side)` and then `CenterCrop(size)` leave of an image of
    /// `width` by `height` pixels.
    ///
    /// The shorter side becomes `short_side`, the longer one `short_side * longer / shorter`,
    /// rounded down; so the scales of the two sides can differ a little. The crop begins at half of
    /// what is left over, and at the even one of the two pixels nearest to it.
    ///
    /// # Errors
    ///
    /// `short_side` is zero, or above 65535; `size` is zero, or above `short_side`; the longer side
    /// would be above 65535; the image has no pixel.
    pub fn centre(
        width: u32,
        height: u32,
        short_side: usize,
        size: usize,
    ) -> Result<Self, ImageError> {
        let refuse = |reason: String| ImageError::Crop {
            width,
            height,
            short_side,
            size,
            reason,
        };
        if width == 0 || height == 0 {
            return Err(refuse("give an image of at least one pixel".to_owned()));
        }
        if short_side == 0 || short_side > LARGEST {
            return Err(refuse(format!(
                "the shorter side must be from 1 to {LARGEST}"
            )));
        }
        if size == 0 || size > short_side {
            return Err(refuse(format!(
                "the crop must be from 1 to the shorter side, {short_side}"
            )));
        }
        let shorter = width.min(height);
        let resized = |side: u32| short_side as u64 * u64::from(side) / u64::from(shorter);
        let longest = resized(width.max(height));
        if longest > LARGEST as u64 {
            return Err(refuse(format!(
                "the longer side would be {longest}, and must be at most {LARGEST}: give a smaller shorter side, or an image that is less elongated"
            )));
        }
        let (left, width) = centre(width, resized(width), size);
        let (top, height) = centre(height, resized(height), size);
        Ok(Self {
            left,
            top,
            width,
            height,
        })
    }
}

/// Begin and length, in pixels of a side of `original`, of the `size` pixels at the centre of the
/// side when it is `resized`.
fn centre(original: u32, resized: u64, size: usize) -> (f64, f64) {
    let offset = ((resized - size as u64) as f64 / 2.0).round_ties_even();
    // Multiplied first: a side of the same size, and a whole side, come out exact.
    let in_original = |pixels: f64| pixels * f64::from(original) / resized as f64;
    (in_original(offset), in_original(size as f64))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    /// Left, top, width and height.
    fn region(width: u32, height: u32, short_side: usize, size: usize) -> [f64; 4] {
        let region = CropRegion::centre(width, height, short_side, size).unwrap();
        [region.left, region.top, region.width, region.height]
    }

    #[test]
    fn half_a_pixel_goes_to_the_even_offset() {
        // Nothing is resized. Left over are 7 and 1, 8 and 2, 9 and 3 pixels.
        for (size, long, short) in [(3, 4.0, 0.0), (2, 4.0, 1.0), (1, 4.0, 2.0)] {
            let side = size as f64;
            assert_eq!(region(10, 4, 4, size), [long, short, side, side]);
            assert_eq!(region(4, 10, 4, size), [short, long, side, side]);
        }
    }

    #[test]
    fn the_longer_side_is_rounded_down() {
        // 256 * 2500 / 2048 is 312.5. Left over are 88 and 32 pixels of the resized image.
        let (left, width) = (44.0 * 2500.0 / 312.0, 224.0 * 2500.0 / 312.0);
        assert_eq!(
            region(2500, 2048, 256, 224),
            [left, 128.0, width, 224.0 * 8.0]
        );
        assert_eq!(
            region(2048, 2500, 256, 224),
            [128.0, left, 224.0 * 8.0, width]
        );
    }

    #[test]
    fn a_crop_of_the_shorter_side_shows_all_of_that_side() {
        assert_eq!(region(1000, 1000, 224, 224), [0.0, 0.0, 1000.0, 1000.0]);
        assert_eq!(region(900, 300, 224, 224), [300.0, 0.0, 300.0, 300.0]);
        assert_eq!(region(300, 900, 224, 224), [0.0, 300.0, 300.0, 300.0]);
    }

    #[test]
    fn a_region_is_inside_its_image() {
        for width in 1..40 {
            for height in 1..40 {
                for (short_side, size) in [(1, 1), (7, 7), (7, 6), (7, 1), (50, 49)] {
                    let [left, top, across, down] = region(width, height, short_side, size);
                    let case = format!("{width}x{height}, {short_side}, {size}");
                    assert!(left >= 0.0 && left + across <= f64::from(width), "{case}");
                    assert!(top >= 0.0 && top + down <= f64::from(height), "{case}");
                }
            }
        }
    }

    #[test]
    fn a_crop_that_cannot_be_made_says_what_to_give() {
        let message = |width, height, short_side, size| {
            CropRegion::centre(width, height, short_side, size)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            message(3, 2, 224, 256),
            "an image of 3x2 cannot be resized to a shorter side of 224 and cropped to 256x256: \
             the crop must be from 1 to the shorter side, 224"
        );
        for (width, height, short_side, size, reason) in [
            (3, 2, 224, 0, "the crop must be from 1 to"),
            (3, 2, 0, 0, "the shorter side must be from 1 to 65535"),
            (3, 2, 65536, 224, "the shorter side must be from 1 to 65535"),
            (3, 2, usize::MAX, 224, "the shorter side must be from"),
            (256, 1, 256, 224, "would be 65536, and must be at most"),
            (1, 256, 256, 224, "would be 65536, and must be at most"),
            (u32::MAX, 1, 65535, 1, "give a smaller shorter side"),
            (0, 2, 256, 224, "give an image of at least one pixel"),
            (2, 0, 256, 224, "give an image of at least one pixel"),
        ] {
            let message = message(width, height, short_side, size);
            assert!(message.contains(reason), "{message}");
        }
        assert!(CropRegion::centre(257, 257, 65535, 65535).is_ok());
        assert!(CropRegion::centre(255, 1, 256, 224).is_ok());
    }
}
