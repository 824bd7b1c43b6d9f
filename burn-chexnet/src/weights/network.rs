//! A network of whichever architecture its weights are of.

use std::path::Path;

use burn::tensor::{Device, Tensor};

use super::checkpoint::Checkpoint;
use super::{Head, Metadata, Report, WeightsError, metadata, save};
use crate::explain::maps_of_features;
use crate::model::{Classifier, ResNetConfig};

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
    report: Report,
}

/// The part of a [`Classifier`] that does not name its type.
trait Forward {
    fn features(&self, images: Tensor<4>) -> Tensor<4>;
    fn classify(&self, features: Tensor<4>) -> Tensor<2>;
    fn maps(&self, features: Tensor<4>) -> Tensor<4>;
    fn save(&self, metadata: &Metadata, path: &Path) -> Result<(), WeightsError>;
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

    fn save(&self, metadata: &Metadata, path: &Path) -> Result<(), WeightsError> {
        save(self, metadata, path)
    }
}

impl Network {
    /// Loads the weights at `path`, a file or the folder of a run, onto `device`; their metadata says
    /// which network they are of.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, has no metadata of this project, or its tensors are not exactly
    /// those of the network.
    pub fn open(path: impl AsRef<Path>, device: &Device) -> Result<Self, WeightsError> {
        let checkpoint = Checkpoint::open(path)?;
        let metadata = checkpoint.metadata().cloned();
        let metadata = metadata.ok_or_else(|| metadata::none(checkpoint.path()))?;
        Self::of_checkpoint(&checkpoint, metadata, &Head::Whole, device)
    }

    /// The weights of `checkpoint` on `device`, in the network that `metadata` describes.
    ///
    /// # Errors
    ///
    /// If the tensors are not exactly those of the network.
    pub fn of_checkpoint(
        checkpoint: &Checkpoint,
        metadata: Metadata,
        head: &Head,
        device: &Device,
    ) -> Result<Self, WeightsError> {
        let (channels, outputs) = (metadata.preprocessing.channels(), metadata.labels.len());
        let found = checkpoint.outputs().unwrap_or(0);
        if *head == Head::Whole && found != outputs {
            return Err(WeightsError::outputs(
                checkpoint.path(),
                format!("{found} of them, but {outputs} labels"),
            ));
        }
        let epsilon = metadata.norm_epsilon;
        let (classifier, report) = match metadata.architecture.densenet() {
            Some(shape) => {
                let shape = shape.with_in_channels(channels).with_outputs(outputs);
                let network = shape.with_norm_epsilon(epsilon).init(device);
                loaded(network, checkpoint, head)?
            }
            None => {
                let shape = ResNetConfig::resnet50().with_in_channels(channels);
                let shape = shape.with_outputs(outputs).with_norm_epsilon(epsilon);
                loaded(shape.init(device), checkpoint, head)?
            }
        };
        Ok(Self {
            classifier,
            metadata,
            report,
        })
    }

    /// Labels, preprocessing and origin of the weights.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// What was loaded: all tensors of the network.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Writes weights and metadata as [`save`] does.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), WeightsError> {
        self.classifier.save(&self.metadata, path.as_ref())
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
    checkpoint: &Checkpoint,
    head: &Head,
) -> Result<(Box<dyn Forward>, Report), WeightsError> {
    let report = checkpoint.load_into(&mut network, head)?;
    Ok((Box::new(network), report))
}
