//! A network of whichever architecture its weights are of.

use std::path::Path;

use burn::tensor::{Device, Tensor};

use super::{Metadata, WeightsError, load};
use crate::explain::maps_of_features;
use crate::model::{Architecture, Classifier, DenseNetConfig, ResNetConfig};

/// A network in evaluation mode and all that one must know to use it.
///
/// ```no_run
/// use burn::tensor::Device;
/// use burn_chexnet::weights::Network;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let device = Device::flex();
/// let network = Network::open("best.safetensors", &device)?;
/// let preprocessing = &network.metadata().preprocessing;
/// let grey = vec![128; preprocessing.image_size * preprocessing.image_size];
/// let logits = network.logits(preprocessing.tensor(&grey, &device)?);
/// assert_eq!(logits.dims(), [1, network.metadata().labels.len()]);
/// # Ok(())
/// # }
/// ```
pub struct Network {
    classifier: Box<dyn Forward>,
    metadata: Metadata,
    tensors: usize,
}

/// The part of a [`Classifier`] that does not name its type.
trait Forward {
    fn features(&self, images: Tensor<4>) -> Tensor<4>;
    fn classify(&self, features: Tensor<4>) -> Tensor<2>;
    fn maps(&self, features: Tensor<4>) -> Tensor<4>;
}

impl<C: Classifier> Forward for C {
    fn features(&self, images: Tensor<4>) -> Tensor<4> {
        Classifier::features(self, images)
    }

    fn classify(&self, features: Tensor<4>) -> Tensor<2> {
        Classifier::classify(self, features)
    }

    fn maps(&self, features: Tensor<4>) -> Tensor<4> {
        maps_of_features(self, features)
    }
}

impl Network {
    /// Loads the weights at `path` onto `device`; their metadata says which network they are of.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, has no metadata of this project, or its tensors are not exactly
    /// those of the network.
    pub fn open(path: impl AsRef<Path>, device: &Device) -> Result<Self, WeightsError> {
        let path = path.as_ref();
        let metadata = Metadata::read(path)?;
        let (channels, outputs) = (metadata.preprocessing.channels(), metadata.labels.len());
        let densenet = |shape: DenseNetConfig| {
            let shape = shape.with_in_channels(channels).with_outputs(outputs);
            loaded(shape.init(device), path)
        };
        let (classifier, tensors) = match metadata.architecture {
            Architecture::DenseNet121 => densenet(DenseNetConfig::densenet121())?,
            Architecture::DenseNet161 => densenet(DenseNetConfig::densenet161())?,
            Architecture::DenseNet169 => densenet(DenseNetConfig::densenet169())?,
            Architecture::DenseNet201 => densenet(DenseNetConfig::densenet201())?,
            Architecture::ResNet50 => {
                let shape = ResNetConfig::resnet50().with_in_channels(channels);
                loaded(shape.with_outputs(outputs).init(device), path)?
            }
        };
        Ok(Self {
            classifier,
            metadata,
            tensors,
        })
    }

    /// Labels, preprocessing and origin of the weights.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Tensors that were loaded: all of the network's.
    pub fn tensors(&self) -> usize {
        self.tensors
    }

    /// Logits, `[batch, labels]`, of normalised images, `[batch, channels, height, width]`.
    pub fn logits(&self, images: Tensor<4>) -> Tensor<2> {
        self.classifier.classify(self.classifier.features(images))
    }

    /// Logits as [`logits`](Self::logits), and the [class activation maps](crate::explain) of the
    /// same pass, `[batch, labels, height / 32, width / 32]`.
    pub fn logits_and_maps(&self, images: Tensor<4>) -> (Tensor<2>, Tensor<4>) {
        let features = self.classifier.features(images);
        let logits = self.classifier.classify(features.clone());
        (logits, self.classifier.maps(features))
    }
}

fn loaded<C: Classifier>(
    mut network: C,
    path: &Path,
) -> Result<(Box<dyn Forward>, usize), WeightsError> {
    let tensors = load(&mut network, path)?;
    Ok((Box::new(network), tensors))
}
