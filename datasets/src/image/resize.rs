//! Grey pixels at another size.

use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::{InnerPixel, U8, U16};
use fast_image_resize::{FilterType, PixelTrait, ResizeAlg, ResizeOptions, Resizer};

use super::{GrayImage, ImageError, Pixels};

/// The largest side of a resized image: far beyond any network's input.
const LARGEST: usize = u16::MAX as usize;

pub(super) fn resize(image: &GrayImage, size: usize) -> Result<Vec<u8>, ImageError> {
    if size == 0 || size > LARGEST {
        return Err(refuse(
            image,
            size,
            format!("the size must be from 1 to {LARGEST}"),
        ));
    }
    let unchanged = image.width as usize == size && image.height as usize == size;
    match &image.pixels {
        Pixels::U8(pixels) if unchanged => Ok(pixels.clone()),
        Pixels::U16(pixels) if unchanged => Ok(pixels.iter().copied().map(to_8_bit).collect()),
        Pixels::U8(pixels) => {
            let pixels: Vec<U8> = pixels.iter().copied().map(U8::new).collect();
            let resized = convolve(image, &pixels, size)?;
            Ok(resized.iter().map(|pixel| pixel.0).collect())
        }
        Pixels::U16(pixels) => {
            let pixels: Vec<U16> = pixels.iter().copied().map(U16::new).collect();
            let resized = convolve(image, &pixels, size)?;
            Ok(resized.iter().map(|pixel| to_8_bit(pixel.0)).collect())
        }
    }
}

/// 65535 is 255 = 65535 / 257; an integer division that rounds.
fn to_8_bit(value: u16) -> u8 {
    ((u32::from(value) + 128) / 257) as u8
}

/// The triangle filter with a support that grows with the reduction: Pillow's `BILINEAR`.
fn convolve<P: InnerPixel + PixelTrait>(
    image: &GrayImage,
    pixels: &[P],
    size: usize,
) -> Result<Vec<P>, ImageError> {
    let side = size as u32;
    let source = TypedImageRef::new(image.width, image.height, pixels)
        .map_err(|error| refuse(image, size, error.to_string()))?;
    let mut target = vec![P::default(); size * size];
    let mut view = TypedImage::from_pixels_slice(side, side, &mut target)
        .map_err(|error| refuse(image, size, error.to_string()))?;
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear));
    Resizer::new()
        .resize_typed(&source, &mut view, &options)
        .map_err(|error| refuse(image, size, error.to_string()))?;
    Ok(target)
}

fn refuse(image: &GrayImage, size: usize, reason: String) -> ImageError {
    ImageError::Resize {
        width: image.width,
        height: image.height,
        size,
        reason,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn an_image_of_the_size_keeps_its_pixels() {
        let pixels: Vec<u8> = (0..9).map(|value| value * 28).collect();
        let image = GrayImage::new(3, 3, Pixels::U8(pixels.clone())).unwrap();
        assert_eq!(image.resize(3).unwrap(), pixels);
    }

    #[test]
    fn halving_is_the_triangle_filter() {
        // The filter spans 4 pixels with weights 1, 3, 3, 1; at the edges what is left of them.
        let image = GrayImage::new(8, 1, Pixels::U8(vec![0, 0, 0, 0, 0, 0, 160, 160])).unwrap();
        let resized = image.resize(4).unwrap();
        assert_eq!(resized[..4], [0, 0, 20, 137]);
        assert_eq!(resized[12..], resized[..4]);
    }

    #[test]
    fn sixteen_bit_is_scaled_by_its_full_range_after_resizing() {
        assert_eq!(
            [0, 128, 129, 385, 386, 65406, 65407, 65535].map(to_8_bit),
            [0, 0, 1, 1, 2, 254, 255, 255]
        );
        // 300 and 0 are both 1 and 0 in 8 bit, their mean 150 is 1: the depth is kept until last.
        let image = GrayImage::new(2, 2, Pixels::U16(vec![300, 0, 300, 0])).unwrap();
        assert_eq!(image.resize(1).unwrap(), [1]);
    }

    #[test]
    fn a_size_of_zero_is_refused() {
        let image = GrayImage::new(2, 1, Pixels::U8(vec![0, 1])).unwrap();
        assert_eq!(
            image.resize(0).unwrap_err().to_string(),
            "an image of 2x1 cannot be resized to 0x0: the size must be from 1 to 65535"
        );
    }
}
