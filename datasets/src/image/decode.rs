//! The bytes of a file to grey pixels: what the file is, and what its colours become.

use std::io::Cursor;
use std::path::Path;

use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader};

use super::{GrayImage, ImageError, LARGEST_BYTES, LARGEST_SIDE, Pixels};

/// The kinds of files that are read, for messages.
const SUPPORTED: &str = if cfg!(feature = "dicom") {
    "PNG, JPEG and DICOM"
} else {
    "PNG and JPEG"
};

pub(super) fn decode(bytes: &[u8], path: &Path) -> Result<GrayImage, ImageError> {
    if bytes.is_empty() {
        return Err(ImageError::Empty {
            path: path.to_owned(),
        });
    }
    if is_dicom(bytes) {
        #[cfg(feature = "dicom")]
        return super::dicom::decode(bytes, path);
        #[cfg(not(feature = "dicom"))]
        return Err(ImageError::NoDicom {
            path: path.to_owned(),
        });
    }
    match image::guess_format(bytes) {
        Ok(ImageFormat::Png) => decode_with(ImageFormat::Png, "PNG", bytes, path),
        Ok(ImageFormat::Jpeg) => {
            if !jpeg_is_complete(bytes) {
                return Err(ImageError::Damaged {
                    path: path.to_owned(),
                    kind: "JPEG",
                    reason: "the marker of its end is missing".to_owned(),
                });
            }
            decode_with(ImageFormat::Jpeg, "JPEG", bytes, path)
        }
        Ok(other) => Err(ImageError::UnsupportedKind {
            path: path.to_owned(),
            found: format!("a {other:?} image"),
            supported: SUPPORTED,
        }),
        Err(_) => Err(ImageError::UnsupportedKind {
            path: path.to_owned(),
            found: format!(
                "no known image (it begins \"{}\")",
                bytes[..bytes.len().min(16)].escape_ascii()
            ),
            supported: SUPPORTED,
        }),
    }
}

/// DICOM part 10: a preamble of 128 bytes, then `DICM`.
fn is_dicom(bytes: &[u8]) -> bool {
    bytes.get(128..132) == Some(b"DICM")
}

/// Whether an end-of-image marker follows the last start of a scan.
///
/// The decoder fills what is missing with grey and says nothing; a patient's lung must not end in
/// grey unseen. Neither marker can occur within the data of a scan.
fn jpeg_is_complete(bytes: &[u8]) -> bool {
    let last = |marker: u8| bytes.windows(2).rposition(|pair| pair == [0xFF, marker]);
    last(0xD9) > last(0xDA)
}

fn decode_with(
    format: ImageFormat,
    kind: &'static str,
    bytes: &[u8],
    path: &Path,
) -> Result<GrayImage, ImageError> {
    let damaged = |error: image::ImageError| ImageError::Damaged {
        path: path.to_owned(),
        kind,
        reason: error.to_string().replace(['\r', '\n'], " "),
    };
    let decoder = ImageReader::with_format(Cursor::new(bytes), format)
        .into_decoder()
        .map_err(damaged)?;
    let (width, height) = decoder.dimensions();
    ensure_size(width, height, decoder.total_bytes(), path)?;
    let decoded = DynamicImage::from_decoder(decoder).map_err(damaged)?;
    GrayImage::new(width, height, grey(decoded))
}

/// Refuses an image that would take gigabytes of memory, whatever the file's own size.
pub(super) fn ensure_size(
    width: u32,
    height: u32,
    bytes: u64,
    path: &Path,
) -> Result<(), ImageError> {
    if width > LARGEST_SIDE || height > LARGEST_SIDE || bytes > LARGEST_BYTES {
        return Err(ImageError::TooLarge {
            path: path.to_owned(),
            width,
            height,
            bytes,
        });
    }
    Ok(())
}

/// One grey value a pixel, alpha dropped.
fn grey(decoded: DynamicImage) -> Pixels {
    match decoded {
        DynamicImage::ImageLuma8(image) => Pixels::U8(image.into_raw()),
        DynamicImage::ImageLuma16(image) => Pixels::U16(image.into_raw()),
        DynamicImage::ImageLumaA8(image) => Pixels::U8(image.pixels().map(|p| p.0[0]).collect()),
        DynamicImage::ImageLumaA16(image) => Pixels::U16(image.pixels().map(|p| p.0[0]).collect()),
        DynamicImage::ImageRgb8(image) => Pixels::U8(
            image
                .pixels()
                .map(|p| luma(p.0.map(u32::from)) as u8)
                .collect(),
        ),
        DynamicImage::ImageRgba8(image) => Pixels::U8(
            image
                .pixels()
                .map(|&image::Rgba([r, g, b, _])| luma([r, g, b].map(u32::from)) as u8)
                .collect(),
        ),
        DynamicImage::ImageRgb16(image) => Pixels::U16(
            image
                .pixels()
                .map(|p| luma(p.0.map(u32::from)) as u16)
                .collect(),
        ),
        // RGBA of 16 bit; PNG and JPEG have no floating-point kinds.
        other => Pixels::U16(
            other
                .into_rgba16()
                .pixels()
                .map(|&image::Rgba([r, g, b, _])| luma([r, g, b].map(u32::from)) as u16)
                .collect(),
        ),
    }
}

/// ITU-R BT.601 luma in the fixed point that Pillow's `convert("L")` uses. The weights' sum is
/// 65536, so that the greatest result is the greatest value, and 32 bit hold 16-bit values.
fn luma([r, g, b]: [u32; 3]) -> u32 {
    (19_595 * r + 38_470 * g + 7_471 * b + 0x8000) >> 16
}
