//! One image in use, from its file to the pixels of a batch. It may not know of batches or caches.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::bad_image::BadImage;
use crate::image::{GrayImage, ImageError};
use crate::load_error::LoadError;
use crate::panic_message::panic_message;
use crate::source::ImageSource;

/// Raise it with every change of what [`decode`] makes of one file: of a decoder, of how colours
/// become grey, of the resizing, of what makes an image bad. Caches made before are then not used.
pub(crate) const VERSION: u32 = 2;

/// The largest size that [`GrayImage::resize`] makes.
const LARGEST_SIZE: usize = u16::MAX as usize;

/// What came of the file of an image.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// 8-bit grey, `[size, size]`.
    Pixels(Vec<u8>),
    /// The image is bad; why, without the path of the file.
    Bad(String),
}

/// Refuses a size that no image can be resized to, or every image would be bad.
pub(crate) fn ensure_size(image_size: usize) -> Result<(), LoadError> {
    match image_size {
        0 => Err(LoadError::Zero {
            option: "image_size",
        }),
        1..=LARGEST_SIZE => Ok(()),
        _ => Err(LoadError::TooLarge {
            image_size,
            largest: LARGEST_SIZE,
        }),
    }
}

/// Reads, decodes and resizes the image of the record `index`.
///
/// A file that cannot be read is an error, and no bad image: see
/// [`OnBadImage`](crate::OnBadImage).
pub(crate) fn decode(
    source: &ImageSource,
    index: usize,
    size: usize,
) -> Result<Decoded, LoadError> {
    let path = source.path(index).ok_or(LoadError::NotInUse { index })?;
    run(path, || {
        GrayImage::open(path).and_then(|image| image.resize(size))
    })
    .map_err(|reason| LoadError::Image(BadImage::new(source, index, &reason)))
}

/// What `decoder` makes of the file `path`; why, if the file cannot be read.
fn run(
    path: &Path,
    decoder: impl FnOnce() -> Result<Vec<u8>, ImageError>,
) -> Result<Decoded, String> {
    // The decoder shares nothing that its panic could leave half done.
    let error = match catch_unwind(AssertUnwindSafe(decoder)) {
        Ok(Ok(pixels)) => return Ok(Decoded::Pixels(pixels)),
        Ok(Err(error)) => error,
        Err(panic) => {
            let message = panic_message(&*panic);
            return Ok(Decoded::Bad(format!("the decoder panicked: {message}")));
        }
    };
    // Without the path, under which a cache may not find the file again.
    let text = error.to_string();
    let reason = text
        .strip_prefix(&format!("{}: ", path.display()))
        .unwrap_or(&text)
        .to_owned();
    match error {
        ImageError::Read { .. } => Err(reason),
        _ => Ok(Decoded::Bad(reason)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_decoder_makes_a_bad_image() {
        let path = Path::new("a.png");
        let bad = |reason: &str| Ok(Decoded::Bad(reason.to_owned()));
        let index = 7;
        assert_eq!(
            run(path, || panic!("index {index}")),
            bad("the decoder panicked: index 7")
        );
        assert_eq!(
            run(path, || panic!("overflow")),
            bad("the decoder panicked: overflow")
        );
        assert_eq!(
            run(path, || std::panic::panic_any(1)),
            bad("the decoder panicked: no message")
        );
    }

    #[test]
    fn a_file_that_is_damaged_is_bad_and_one_that_cannot_be_read_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.png");
        let open = || run(&path, || GrayImage::open(&path)?.resize(1));
        let error = open().unwrap_err();
        assert!(
            error.starts_with("the image cannot be read: No such file"),
            "{error}"
        );
        std::fs::write(&path, "").unwrap();
        assert_eq!(
            open(),
            Ok(Decoded::Bad(
                "the file is empty (0 bytes): download it again".to_owned()
            ))
        );
    }

    #[test]
    fn a_reason_without_the_path_stays_whole() {
        let tall = || GrayImage::new(1, 2, crate::Pixels::U8(vec![0]))?.resize(1);
        let Ok(Decoded::Bad(reason)) = run(Path::new("a.png"), tall) else {
            panic!("one pixel does not make two");
        };
        assert!(
            reason.starts_with("1 pixels do not make an image"),
            "{reason}"
        );
    }

    /// A cache holds such pixels, and takes them for those of the decoder as long as `VERSION` is the
    /// same.
    #[test]
    fn other_pixels_need_another_version() {
        let colours = image::RgbImage::from_fn(37, 29, |x, y| {
            image::Rgb([7 * x, 8 * y, x * y].map(|v| v as u8))
        });
        let mut png = std::io::Cursor::new(vec![]);
        colours.write_to(&mut png, image::ImageFormat::Png).unwrap();
        let jpeg = include_bytes!("../tests/reference/colours.jpg");
        let checksum = |bytes: &[u8]| {
            let image = GrayImage::from_bytes(bytes, "colours").unwrap();
            assert_eq!((image.width(), image.height()), (37, 29));
            // Smaller and larger.
            [16, 48].map(|size| crc32fast::hash(&image.resize(size).unwrap()))
        };
        assert_eq!(
            (VERSION, [checksum(png.get_ref()), checksum(jpeg)]),
            (
                2,
                [
                    [2_861_732_371, 1_272_234_105],
                    [2_209_416_096, 2_142_571_491]
                ]
            ),
            "the same files make other pixels: raise decoding::VERSION, so that caches made before \
             are not used, and pin it here with the new checksums"
        );
    }

    #[test]
    fn sizes_are_from_1_to_65535() {
        assert!(ensure_size(1).is_ok() && ensure_size(65_535).is_ok());
        assert_eq!(
            ensure_size(65_536).unwrap_err().to_string(),
            "image_size is 65536: it must be at most 65535"
        );
        assert_eq!(
            ensure_size(0).unwrap_err().to_string(),
            "image_size is 0: it must be at least 1"
        );
    }
}
