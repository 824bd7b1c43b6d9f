//! One image: from the bytes of a file to grey pixels of a wanted size. It may not depend on
//! tables or labels.

mod crop_region;
mod decode;
#[cfg(feature = "dicom")]
mod dicom;
mod resize;

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

pub use crop_region::CropRegion;

/// The largest width and height that are read; a radiograph has at most about 5000 pixels a side.
const LARGEST_SIDE: u32 = 16_384;

/// The most memory that the pixels of a file may take: a grey 16-bit image of the largest sides.
const LARGEST_BYTES: u64 = 2 * (LARGEST_SIDE as u64).pow(2);

/// What can be wrong with an image. Each that comes of a file names it.
#[derive(Debug, Error)]
pub enum ImageError {
    /// The file cannot be read.
    #[error("{}: the image cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file has no byte.
    #[error("{}: the file is empty (0 bytes): download it again", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The file is of no kind that is read here.
    #[error("{}: this is {found}, and only {supported} are read: convert the file", path.display())]
    UnsupportedKind {
        /// The file.
        path: PathBuf,
        /// What the file is, or how it begins.
        found: String,
        /// The kinds that are read.
        supported: &'static str,
    },
    /// A DICOM object, and the crate was built without the feature `dicom`.
    #[error("{}: this is a DICOM object, and this program was built without the feature `dicom`: build it with `--features dicom`", path.display())]
    NoDicom {
        /// The file.
        path: PathBuf,
    },
    /// The file is of the kind `kind`, but damaged or cut short.
    #[error("{}: the {kind} file is damaged or cut short: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The kind of the file.
        kind: &'static str,
        /// What the decoder says.
        reason: String,
    },
    /// The image is larger than any radiograph.
    #[error("{}: the image is {width}x{height} pixels in {bytes} bytes of memory, and at most {LARGEST_SIDE} pixels a side and {LARGEST_BYTES} bytes are read: make it smaller", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
        /// The memory that its pixels would take.
        bytes: u64,
    },
    /// A DICOM object whose transfer syntax (its way to store pixels) is not read here.
    #[error("{}: DICOM transfer syntax {uid} ({name}) is not read: convert the object to Explicit VR Little Endian (1.2.840.10008.1.2.1)", path.display())]
    TransferSyntax {
        /// The file.
        path: PathBuf,
        /// The unique identifier of the transfer syntax.
        uid: String,
        /// Its name in the DICOM standard.
        name: String,
    },
    /// A DICOM object without one grey image.
    #[error("{}: this DICOM object has no single grey image: {reason}", path.display())]
    NotGreyDicom {
        /// The file.
        path: PathBuf,
        /// What is there instead.
        reason: String,
    },
    /// The number of pixels is not width times height, or zero.
    #[error(
        "{pixels} pixels do not make an image of {width}x{height}: give width times height of them, at least one"
    )]
    PixelCount {
        /// Number of pixels.
        pixels: usize,
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
    },
    /// The image cannot be resized.
    #[error("an image of {width}x{height} cannot be resized to {size}x{size}: {reason}")]
    Resize {
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
        /// The wanted width and height.
        size: usize,
        /// Why.
        reason: String,
    },
    /// The image cannot be resized and then cropped.
    #[error(
        "an image of {width}x{height} cannot be resized to a shorter side of {short_side} and cropped to {size}x{size}: {reason}"
    )]
    Crop {
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
        /// The wanted shorter side of the resized image.
        short_side: usize,
        /// The wanted width and height of the crop.
        size: usize,
        /// Why.
        reason: String,
    },
}

/// Grey values, row by row, as deep as the file has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pixels {
    /// 8 bit: 0 is black, 255 is white.
    U8(Vec<u8>),
    /// 16 bit: 0 is black, 65535 is white.
    U16(Vec<u16>),
}

/// A grey image, `[height, width]`.
///
/// ```
/// use chest_datasets::{GrayImage, Pixels};
///
/// let image = GrayImage::new(2, 2, Pixels::U16(vec![0, 65535, 0, 65535]))?;
/// assert_eq!(image.resize(2)?, [0, 255, 0, 255]);
/// assert_eq!(image.resize(1)?, [128]);
/// # Ok::<(), chest_datasets::ImageError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrayImage {
    width: u32,
    height: u32,
    pixels: Pixels,
}

impl GrayImage {
    /// Makes an image of `width * height` pixels, row by row.
    ///
    /// # Errors
    ///
    /// The number of pixels is another, or zero.
    pub fn new(width: u32, height: u32, pixels: Pixels) -> Result<Self, ImageError> {
        let given = match &pixels {
            Pixels::U8(values) => values.len(),
            Pixels::U16(values) => values.len(),
        };
        if given == 0 || u64::from(width) * u64::from(height) != given as u64 {
            return Err(ImageError::PixelCount {
                pixels: given,
                width,
                height,
            });
        }
        Ok(Self {
            width,
            height,
            pixels,
        })
    }

    /// Reads and decodes the image file at `path`: see [`from_bytes`](Self::from_bytes).
    ///
    /// # Errors
    ///
    /// The file cannot be read, and the errors of [`from_bytes`](Self::from_bytes).
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ImageError> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|source| ImageError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::from_bytes(&bytes, path)
    }

    /// Decodes the bytes of an image file; `path` names it in messages.
    ///
    /// The first bytes say what the file is, never its name: PNG of 1 to 16 bit, JPEG and, with the
    /// feature `dicom`, DICOM. Colours and palettes become grey with the luma of ITU-R BT.601, as
    /// Pillow's `convert("L")` computes it; alpha is dropped, as there. 16-bit images stay 16-bit.
    ///
    /// Of a DICOM object the modality's rescale slope and intercept are applied, then the first
    /// window (VOI LUT), or the range of its values where it has none; MONOCHROME1, in which high
    /// values are dark, is inverted. Uncompressed and JPEG baseline objects are read.
    ///
    /// # Errors
    ///
    /// An empty file; one of another kind; one that is damaged or cut short; an image of more
    /// than 16384 pixels a side, or 512 MiB; a DICOM object with another transfer syntax or without one grey
    /// image.
    pub fn from_bytes(bytes: &[u8], path: impl AsRef<Path>) -> Result<Self, ImageError> {
        decode::decode(bytes, path.as_ref())
    }

    /// Width in pixels.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Height in pixels.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// The grey values, `[height, width]`, row by row.
    pub fn pixels(&self) -> &Pixels {
        &self.pixels
    }

    /// The whole image at `size` by `size` pixels in 8-bit grey: `[size, size]`, row by row.
    ///
    /// Bilinear with anti-aliasing, as Pillow and torchvision's `Resize((size, size))` do on an
    /// image. A 16-bit image is resized at 16 bit and then rounded to 8 bit, 65535 to 255. An image
    /// of this size keeps its pixels.
    ///
    /// # Errors
    ///
    /// `size` is zero, or above 65535.
    pub fn resize(&self, size: usize) -> Result<Vec<u8>, ImageError> {
        resize::resize(self, size)
    }

    /// The centre of the resized image, `size` by `size` pixels in 8-bit grey: `[size, size]`, row
    /// by row.
    ///
    /// The shorter side becomes `short_side` and the aspect ratio is kept, as torchvision's
    /// `Resize(short_side)` does; then the centre is cut out, as its `CenterCrop(size)` does.
    /// [`CropRegion::centre`] says which part of the original that is, and how the sides are
    /// rounded. Filter and depth are those of [`resize`](Self::resize).
    ///
    /// ```
    /// use chest_datasets::{GrayImage, Pixels};
    ///
    /// let image = GrayImage::new(4, 2, Pixels::U8(vec![0, 10, 20, 30, 0, 10, 20, 30]))?;
    /// assert_eq!(image.resize_and_crop(2, 2)?, [10, 20, 10, 20]);
    /// # Ok::<(), chest_datasets::ImageError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`CropRegion::centre`]: `short_side` is zero, or above 65535; `size` is zero, or
    /// above `short_side`; the longer side would be above 65535.
    pub fn resize_and_crop(&self, short_side: usize, size: usize) -> Result<Vec<u8>, ImageError> {
        resize::resize_and_crop(self, short_side, size)
    }
}
