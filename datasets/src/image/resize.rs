//! Grey pixels at another size.

use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::{InnerPixel, U8, U16};
use fast_image_resize::{FilterType, PixelTrait, ResizeAlg, ResizeOptions, Resizer};

use super::{CropRegion, GrayImage, ImageError, Pixels};

/// The largest side of a resized image: far beyond any network's input.
pub(super) const LARGEST: usize = u16::MAX as usize;

pub(super) fn resize(image: &GrayImage, size: usize) -> Result<Vec<u8>, ImageError> {
    let refuse = |reason| ImageError::Resize {
        width: image.width,
        height: image.height,
        size,
        reason,
    };
    if size == 0 || size > LARGEST {
        return Err(refuse(format!("the size must be from 1 to {LARGEST}")));
    }
    let whole = CropRegion {
        left: 0.0,
        top: 0.0,
        width: f64::from(image.width),
        height: f64::from(image.height),
    };
    resample(image, whole, size).map_err(refuse)
}

pub(super) fn resize_and_crop(
    image: &GrayImage,
    short_side: usize,
    size: usize,
) -> Result<Vec<u8>, ImageError> {
    let region = CropRegion::centre(image.width, image.height, short_side, size)?;
    // The same filter at the same places as in the whole resized image, of which only the crop is
    // made: at the edges of the region it sees the pixels beyond.
    resample(image, region, size).map_err(|reason| ImageError::Crop {
        width: image.width,
        height: image.height,
        short_side,
        size,
        reason,
    })
}

/// The `region` of the image at `size` by `size` pixels.
fn resample(image: &GrayImage, region: CropRegion, size: usize) -> Result<Vec<u8>, String> {
    match &image.pixels {
        Pixels::U8(pixels) => {
            let pixels: Vec<U8> = pixels.iter().copied().map(U8::new).collect();
            let resized = convolve(image, &pixels, region, size)?;
            Ok(resized.iter().map(|pixel| pixel.0).collect())
        }
        Pixels::U16(pixels) => {
            let pixels: Vec<U16> = pixels.iter().copied().map(U16::new).collect();
            let resized = convolve(image, &pixels, region, size)?;
            Ok(resized.iter().map(|pixel| to_8_bit(pixel.0)).collect())
        }
    }
}

/// 65535 is 255 = 65535 / 257; an integer division that rounds.
fn to_8_bit(value: u16) -> u8 {
    ((u32::from(value) + 128) / 257) as u8
}

/// The triangle filter with a support that grows with the reduction: Pillow's `BILINEAR`.
///
/// In Pillow's order, rows first and then columns, each rounded to the depth of the pixels. In one call
/// the crate begins with the columns of 8-bit images: the same filter, but one pixel in seven comes out
/// a grey level apart.
///
/// A region of whole pixels at its own size is copied.
fn convolve<P: InnerPixel + PixelTrait>(
    image: &GrayImage,
    pixels: &[P],
    region: CropRegion,
    size: usize,
) -> Result<Vec<P>, String> {
    let (side, height) = (size as u32, image.height);
    let rows = CropRegion {
        top: 0.0,
        height: f64::from(height),
        ..region
    };
    let columns = CropRegion {
        left: 0.0,
        width: f64::from(side),
        ..region
    };
    let narrow = pass(pixels, [image.width, height], rows, [side, height])?;
    pass(&narrow, [side, height], columns, [side, side])
}

/// The `region` of an image of `from` pixels at the size of `to`, both width and height.
fn pass<P: InnerPixel + PixelTrait>(
    pixels: &[P],
    from: [u32; 2],
    region: CropRegion,
    to: [u32; 2],
) -> Result<Vec<P>, String> {
    let source = TypedImageRef::new(from[0], from[1], pixels).map_err(|e| e.to_string())?;
    let mut target = vec![P::default(); to[0] as usize * to[1] as usize];
    let mut view = TypedImage::from_pixels_slice(to[0], to[1], &mut target)
        .map_err(|error| error.to_string())?;
    let options = ResizeOptions::new()
        .resize_alg(ResizeAlg::Convolution(FilterType::Bilinear))
        .crop(region.left, region.top, region.width, region.height);
    Resizer::new()
        .resize_typed(&source, &mut view, &options)
        .map_err(|error| error.to_string())?;
    Ok(target)
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
        let deep = pixels.iter().map(|&value| u16::from(value) * 257);
        let image = GrayImage::new(3, 3, Pixels::U16(deep.collect())).unwrap();
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

    #[test]
    fn a_crop_is_the_centre_of_the_resized_image() {
        let pixels = (0..90 * 90).map(|at: u32| (at * at / 7 % 251) as u8);
        let image = GrayImage::new(90, 90, Pixels::U8(pixels.collect())).unwrap();
        for (short_side, size, offset) in [(45, 45, 0), (40, 33, 4), (64, 11, 26), (200, 101, 50)] {
            let resized = image.resize(short_side).unwrap();
            let rows = resized.chunks(short_side).skip(offset).take(size);
            let centre: Vec<u8> = rows
                .flat_map(|row| &row[offset..offset + size])
                .copied()
                .collect();
            let crop = image.resize_and_crop(short_side, size).unwrap();
            assert_eq!(crop.len(), centre.len());
            // The filter's weights have a bit more where the image's edges are not among them; an
            // enlargement shows it.
            let close = |(a, b): (&u8, &u8)| a.abs_diff(*b) <= u8::from(short_side > 90);
            assert!(crop.iter().zip(&centre).all(close), "{short_side}, {size}");
        }
    }

    #[test]
    fn a_crop_that_is_not_resized_keeps_its_pixels() {
        let pixels: Vec<u8> = (0..15).collect();
        let wide = GrayImage::new(5, 3, Pixels::U8(pixels.clone())).unwrap();
        assert_eq!(wide.resize_and_crop(3, 2).unwrap(), [2, 3, 7, 8]);
        let tall = GrayImage::new(3, 5, Pixels::U8(pixels)).unwrap();
        assert_eq!(tall.resize_and_crop(3, 2).unwrap(), [6, 7, 9, 10]);
    }

    #[test]
    fn an_image_of_one_column_is_cropped() {
        let column = Pixels::U8((0..8).map(|value| value * 16).collect());
        let image = GrayImage::new(1, 8, column).unwrap();
        assert_eq!(image.resize_and_crop(1, 1).unwrap(), [64]);
        // 16 rows, of which the 8th and 9th have their middles at 3.75 and 4.25 of the column.
        assert_eq!(image.resize_and_crop(2, 2).unwrap(), [52, 52, 60, 60]);
    }

    #[test]
    fn the_region_is_where_the_pixels_come_from() {
        for (width, height) in [(250, 190), (190, 250), (199, 199)] {
            let region = CropRegion::centre(width, height, 50, 41).unwrap();
            // Grey is the column, and then the row: the middle of a pixel is half a pixel on.
            let at = |position: u32, side: u32, down: bool| {
                let (column, row) = (position % side, position / side);
                if down { row } else { column }
            };
            for (down, begin, length) in [
                (false, region.left, region.width),
                (true, region.top, region.height),
            ] {
                let grey = (0..width * height).map(|position| at(position, width, down) as u8);
                let deep = grey.clone().map(|value| u16::from(value) * 257);
                for pixels in [Pixels::U8(grey.collect()), Pixels::U16(deep.collect())] {
                    let image = GrayImage::new(width, height, pixels).unwrap();
                    let crop = image.resize_and_crop(50, 41).unwrap();
                    assert_eq!(crop.len(), 41 * 41);
                    for (position, grey) in crop.into_iter().enumerate() {
                        let middle = f64::from(at(position as u32, 41, down)) + 0.5;
                        let expected = begin + middle * length / 41.0 - 0.5;
                        assert!(
                            (f64::from(grey) - expected).abs() <= 1.0,
                            "{width}x{height}, {position}: {grey} for {expected}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_crop_larger_than_the_shorter_side_is_refused() {
        let image = GrayImage::new(2, 1, Pixels::U8(vec![0, 1])).unwrap();
        assert_eq!(
            image.resize_and_crop(4, 5).unwrap_err().to_string(),
            "an image of 2x1 cannot be resized to a shorter side of 4 and cropped to 5x5: \
             the crop must be from 1 to the shorter side, 4"
        );
    }
}
