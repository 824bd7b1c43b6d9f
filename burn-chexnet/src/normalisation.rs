//! What pixels are normalised for: the one place where ImageNet's mean and deviation stand.

use serde::{Deserialize, Serialize};

use crate::Preprocessing;

/// Mean of ImageNet's red, green and blue on the scale 0 to 1, as torchvision's models expect.
const IMAGENET_MEAN: [f32; 3] = [0.485, 0.456, 0.406];
/// Standard deviation of ImageNet's red, green and blue on the same scale.
const IMAGENET_DEVIATION: [f32; 3] = [0.229, 0.224, 0.225];

/// Mean of TorchXRayVision's pixels on the same scale.
const XRAY_VISION_MEAN: f32 = 0.5;
/// What makes them reach from -1024 to 1024 after the mean.
const XRAY_VISION_DEVIATION: f32 = 1.0 / 2048.0;

/// What is subtracted from the pixels of each channel on the scale 0 to 1, and what divides them then.
///
/// ```
/// use burn_chexnet::{Normalisation, Preprocessing};
/// let preprocessing = Preprocessing::new(224, 1, &Normalisation::TorchXRayVision)?;
/// assert_eq!((preprocessing.mean, preprocessing.deviation), (vec![0.5], vec![1.0 / 2048.0]));
/// # Ok::<(), burn_chexnet::PreprocessingError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Normalisation {
    /// Mean and deviation of ImageNet's colours; their means for one channel.
    #[default]
    ImageNet,
    /// Pixels from -1024 to 1024.
    TorchXRayVision,
    /// Others, one of each for every channel.
    Custom {
        /// Subtracted.
        mean: Vec<f32>,
        /// Divides the rest.
        deviation: Vec<f32>,
    },
}

impl Normalisation {
    /// That of `preprocessing`.
    pub fn of(preprocessing: &Preprocessing) -> Self {
        let statistics = (preprocessing.mean.clone(), preprocessing.deviation.clone());
        let named = [Self::ImageNet, Self::TorchXRayVision].into_iter();
        let (mean, deviation) = statistics.clone();
        named
            .clone()
            .find(|one| one.statistics(preprocessing.channels()) == statistics)
            .unwrap_or(Self::Custom { mean, deviation })
    }

    /// Mean and deviation for `channels`: those of one channel are repeated, those of three averaged.
    pub(crate) fn statistics(&self, channels: usize) -> (Vec<f32>, Vec<f32>) {
        let (mean, deviation) = match self {
            Self::ImageNet => (IMAGENET_MEAN.to_vec(), IMAGENET_DEVIATION.to_vec()),
            Self::TorchXRayVision => (vec![XRAY_VISION_MEAN], vec![XRAY_VISION_DEVIATION]),
            Self::Custom { mean, deviation } => (mean.clone(), deviation.clone()),
        };
        let for_channels = |values: Vec<f32>| match values.len() {
            1 => vec![values[0]; channels],
            count if channels == 1 => vec![values.iter().sum::<f32>() / count as f32],
            _ => values,
        };
        (for_channels(mean), for_channels(deviation))
    }
}

/// A name that is no [`Normalisation`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown normalisation `{0}`: expected imagenet or torchxrayvision")]
pub struct UnknownNormalisation(pub String);

impl std::str::FromStr for Normalisation {
    type Err = UnknownNormalisation;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "imagenet" => Ok(Self::ImageNet),
            "torchxrayvision" => Ok(Self::TorchXRayVision),
            _ => Err(UnknownNormalisation(name.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_normalisation_is_found_again_in_its_preprocessing() {
        let custom = |values: &[f32]| Normalisation::Custom {
            mean: values.to_vec(),
            deviation: values.to_vec(),
        };
        for (normalisation, channels) in [
            (Normalisation::ImageNet, 1),
            (Normalisation::ImageNet, 3),
            (Normalisation::TorchXRayVision, 1),
            (Normalisation::TorchXRayVision, 3),
            (custom(&[0.25]), 1),
            (custom(&[0.25, 0.5, 0.75]), 3),
        ] {
            let preprocessing = Preprocessing::new(64, channels, &normalisation).unwrap();
            assert_eq!(Normalisation::of(&preprocessing), normalisation);
        }
        let averaged = Preprocessing::new(64, 1, &custom(&[0.25, 0.5, 0.75])).unwrap();
        assert_eq!(averaged.mean, [0.5]);
        let repeated = Preprocessing::new(64, 3, &custom(&[0.25])).unwrap();
        assert_eq!(repeated.deviation, [0.25; 3]);
    }

    #[test]
    fn torchxrayvisions_pixels_reach_from_minus_to_plus_1024() {
        let preprocessing = Preprocessing::new(32, 1, &Normalisation::TorchXRayVision).unwrap();
        let mut pixels = vec![0u8; 32 * 32];
        pixels[1] = 255;
        let device = burn::tensor::Device::flex();
        let input = preprocessing.tensor(&pixels, &device).unwrap();
        let values = input.into_data().try_to_vec::<f32>().unwrap();
        assert_eq!(values[..2], [-1024.0, 1024.0]);
    }
}
