//! How 8-bit grey pixels become the input of a model. Saved with the weights, so that who loads them feeds them the same way.
//!
//! May not know where pixels come from.

use std::fmt::{Display, Formatter};
use std::ops::RangeInclusive;

use burn::tensor::{Device, Tensor, TensorData};
use serde::{Deserialize, Serialize};

use crate::Normalisation;

/// Sizes that a network can take: its stride is 32, and beyond the upper end one image alone takes
/// gigabytes in training.
pub(crate) const SIZES: RangeInclusive<usize> = 32..=4096;

/// From `[batch, size, size]` 8-bit grey pixels to `[batch, channels, size, size]`:
/// each channel is `(pixel / 255 − mean) / deviation`.
///
/// The X-ray was resized to `image_size` × `image_size` before, as [`Resize`] says.
///
/// ```
/// use burn_chexnet::Preprocessing;
/// let preprocessing = Preprocessing::imagenet(224, 3)?;
/// let device = burn::tensor::Device::flex();
/// let images = preprocessing.tensor(&vec![0; 2 * 224 * 224], &device)?;
/// assert_eq!(images.dims(), [2, 3, 224, 224]);
/// # Ok::<(), burn_chexnet::PreprocessingError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Preprocessing {
    /// Height and width of the model's input, pixels.
    pub image_size: usize,
    /// How an image gets this size.
    pub resize: Resize,
    /// Subtracted from each channel on the scale 0 to 1; its length is the number of channels.
    pub mean: Vec<f32>,
    /// Each channel is divided by it after the mean.
    pub deviation: Vec<f32>,
}

/// How an image gets the size of the input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resize {
    /// The whole image to a square, its aspect ratio lost: bilinear with anti-aliasing, on 8-bit
    /// grey, as torchvision's `Resize((size, size))` of a Pillow image.
    #[default]
    Whole,
    /// The shorter side to `short_side`, then the square in the centre: torchvision's
    /// `Resize(short_side)` and `CenterCrop(image_size)`, as many published CheXNets were trained
    /// (256, then 224).
    CentreCrop {
        /// Length of the shorter side before the crop, pixels.
        short_side: usize,
    },
}

/// Why pixels cannot become an input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PreprocessingError {
    /// Not a size that a network with stride 32 can take.
    #[error("image size {0}: give 32 to 4096 pixels")]
    ImageSize(usize),
    /// Neither grey nor three channels.
    #[error("{0} input channels: give 1 or 3")]
    Channels(usize),
    /// The crop is larger than what it is cut out of.
    #[error("a crop of {size} pixels out of a shorter side of {short_side}: give at least {size}")]
    Crop {
        /// The shorter side.
        short_side: usize,
        /// Height and width of the crop.
        size: usize,
    },
    /// Mean and deviation differ in length, or a deviation is not positive.
    #[error("mean and deviation must be finite, one each per channel, with positive deviations")]
    Statistics,
    /// The pixels are no whole number of images.
    #[error("{pixels} pixels are no whole number of {size}×{size} images")]
    Pixels {
        /// Pixels given.
        pixels: usize,
        /// Height and width of an image.
        size: usize,
    },
}

impl Preprocessing {
    /// Whole images of `image_size`, for a network with `channels`.
    ///
    /// # Errors
    ///
    /// If `image_size` is not from 32 to 4096, `channels` is neither 1 nor 3, or the normalisation is
    /// for other channels or not finite with positive deviations.
    pub fn new(
        image_size: usize,
        channels: usize,
        normalisation: &Normalisation,
    ) -> Result<Self, PreprocessingError> {
        if channels != 1 && channels != 3 {
            return Err(PreprocessingError::Channels(channels));
        }
        let (mean, deviation) = normalisation.statistics(channels);
        let preprocessing = Self {
            image_size,
            resize: Resize::Whole,
            mean,
            deviation,
        };
        preprocessing.check()?;
        match preprocessing.channels() == channels {
            true => Ok(preprocessing),
            false => Err(PreprocessingError::Statistics),
        }
    }

    /// ImageNet's statistics for 3 channels (grey repeated), their means for 1.
    ///
    /// # Errors
    ///
    /// If `image_size` is not from 32 to 4096, or `channels` is neither 1 nor 3.
    pub fn imagenet(image_size: usize, channels: usize) -> Result<Self, PreprocessingError> {
        Self::new(image_size, channels, &Normalisation::ImageNet)
    }

    /// Channels of the model's input.
    pub fn channels(&self) -> usize {
        self.mean.len()
    }

    /// Whether the values make sense: they may come from a file.
    ///
    /// # Errors
    ///
    /// If the size is not from 32 to 4096, the crop larger than its image, the channels are neither 1 nor 3, or the statistics are not
    /// finite with positive deviations.
    pub fn check(&self) -> Result<(), PreprocessingError> {
        if !SIZES.contains(&self.image_size) {
            return Err(PreprocessingError::ImageSize(self.image_size));
        }
        if let Resize::CentreCrop { short_side } = self.resize
            && short_side < self.image_size
        {
            return Err(PreprocessingError::Crop {
                short_side,
                size: self.image_size,
            });
        }
        if self.mean.len() != 1 && self.mean.len() != 3 {
            return Err(PreprocessingError::Channels(self.mean.len()));
        }
        let sound = self.deviation.len() == self.mean.len()
            && self.mean.iter().all(|mean| mean.is_finite())
            && self.deviation.iter().all(|d| d.is_finite() && *d > 0.0);
        sound.then_some(()).ok_or(PreprocessingError::Statistics)
    }

    /// The pixels of an original at the size of the input, `[size, size]`.
    ///
    /// # Errors
    ///
    /// If it cannot be resized.
    #[cfg(feature = "images")]
    pub fn resized(
        &self,
        original: &chest_datasets::GrayImage,
    ) -> Result<Vec<u8>, chest_datasets::ImageError> {
        match self.resize {
            Resize::Whole => original.resize(self.image_size),
            Resize::CentreCrop { short_side } => {
                original.resize_and_crop(short_side, self.image_size)
            }
        }
    }

    /// The input, `[batch, channels, size, size]`, of `pixels`, `[batch, size, size]` row by row.
    ///
    /// # Errors
    ///
    /// If `pixels` is no whole number of images, or [`check`](Self::check) fails.
    pub fn tensor(&self, pixels: &[u8], device: &Device) -> Result<Tensor<4>, PreprocessingError> {
        self.check()?;
        let (size, area) = (self.image_size, self.image_size * self.image_size);
        if !pixels.len().is_multiple_of(area) {
            return Err(PreprocessingError::Pixels {
                pixels: pixels.len(),
                size,
            });
        }
        let tables: Vec<[f32; 256]> = self
            .mean
            .iter()
            .zip(&self.deviation)
            .map(|(mean, deviation)| {
                std::array::from_fn(|pixel| (pixel as f32 / 255.0 - mean) / deviation)
            })
            .collect();
        let mut values = Vec::with_capacity(pixels.len() * tables.len());
        for image in pixels.chunks_exact(area) {
            for table in &tables {
                values.extend(image.iter().map(|&pixel| table[usize::from(pixel)]));
            }
        }
        let shape = [pixels.len() / area, tables.len(), size, size];
        Ok(Tensor::from_data(TensorData::new(values, shape), device))
    }
}

impl Display for Preprocessing {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{0}×{0}, ", self.image_size)?;
        match self.resize {
            Resize::Whole => write!(f, "the whole image, ")?,
            Resize::CentreCrop { short_side } => {
                write!(f, "the centre of a shorter side of {short_side}, ")?
            }
        }
        match Normalisation::of(self) {
            Normalisation::ImageNet => write!(f, "normalised for ImageNet"),
            Normalisation::TorchXRayVision => write!(f, "pixels from -1024 to 1024"),
            Normalisation::Custom { mean, deviation } => {
                write!(f, "mean {mean:?}, deviation {deviation:?}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_channel_is_normalised_once() {
        let preprocessing = Preprocessing::imagenet(32, 3).unwrap();
        let mut pixels = vec![0u8; 2 * 32 * 32];
        pixels[0] = 255;
        pixels[32 * 32] = 51;
        let values = preprocessing
            .tensor(&pixels, &Device::flex())
            .unwrap()
            .into_data()
            .try_to_vec::<f32>()
            .unwrap();
        let area = 32 * 32;
        // torchvision: Normalize(mean, std)(ToTensor()(image)) of white, then of 51/255 = 0.2.
        let white = [2.248_908_3, 2.428_571_5, 2.64];
        for channel in 0..3 {
            assert!((values[channel * area] - white[channel]).abs() < 1e-6);
            let second = (0.2 - preprocessing.mean[channel]) / preprocessing.deviation[channel];
            assert!((values[(3 + channel) * area] - second).abs() < 1e-6);
        }
    }

    #[test]
    fn refuses_what_no_model_takes() {
        for size in [0, 31, 4097, usize::MAX] {
            assert_eq!(
                Preprocessing::imagenet(size, 3),
                Err(PreprocessingError::ImageSize(size))
            );
        }
        assert_eq!(
            Preprocessing::imagenet(224, 2),
            Err(PreprocessingError::Channels(2))
        );
        let preprocessing = Preprocessing::imagenet(32, 1).unwrap();
        let error = preprocessing
            .tensor(&[0; 1000], &Device::flex())
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "1000 pixels are no whole number of 32×32 images"
        );
        let broken = Preprocessing {
            resize: Resize::CentreCrop { short_side: 31 },
            ..preprocessing.clone()
        };
        assert!(matches!(
            broken.check(),
            Err(PreprocessingError::Crop { .. })
        ));
        let broken = Preprocessing {
            deviation: vec![0.0],
            ..preprocessing
        };
        assert_eq!(broken.check(), Err(PreprocessingError::Statistics));
    }
}
