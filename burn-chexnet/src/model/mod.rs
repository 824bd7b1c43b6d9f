//! The networks: DenseNet-121/161/169/201 and ResNet-50 with torchvision's structure,
//! initialisation and key names, behind one small trait.
//!
//! May use `norm` and `kernels`; may not know data, loss or training.

mod count;
mod densenet;
#[cfg(feature = "flex")]
mod in_place;
mod init;
mod resnet;

use std::fmt::Display;

use burn::module::{Module, ModuleDisplay};
use burn::nn::Linear;
use burn::tensor::{Tensor, activation::sigmoid};
use serde::{Deserialize, Serialize};

use crate::norm::SumOfAll;

pub use count::parameter_count;
pub use densenet::{
    DenseBlock, DenseLayer, DenseNet, DenseNetConfig, DenseNetFeatures, Transition,
};
pub use resnet::{Bottleneck, Downsample, ResNet, ResNetConfig};

/// A multi-label classifier: a convolutional backbone, the mean over its last feature map and
/// one linear layer.
pub trait Classifier: Module + ModuleDisplay + 'static {
    /// The last feature map, `[batch, channels, height / 32, width / 32]`, after its activation:
    /// what the classifier averages, and what a class activation map weighs.
    ///
    /// `images` is `[batch, in_channels, height, width]`, normalised as the
    /// [`Preprocessing`](crate::Preprocessing) of the model says.
    fn features(&self, images: Tensor<4>) -> Tensor<4>;

    /// The name of the linear layer's field; every other parameter belongs to the backbone.
    const CLASSIFIER: &'static str;

    /// The linear layer on the averaged features.
    fn classifier(&self) -> &Linear;

    /// The name that torchvision's `state_dict` has for the tensor at `path` in this module.
    fn torchvision_key(path: &str) -> String;

    /// The same network with norms that see, in training, the batches of all processes together.
    fn synchronised(self, sum_of_all: &SumOfAll) -> Self;

    /// Logits, `[batch, outputs]`, of normalised images, `[batch, in_channels, height, width]`.
    /// [`probabilities`] turns them into probabilities.
    fn logits(&self, images: Tensor<4>) -> Tensor<2> {
        self.classify(self.features(images))
    }

    /// Logits, `[batch, outputs]`, of [`features`](Self::features).
    fn classify(&self, features: Tensor<4>) -> Tensor<2> {
        let [batch, channels, _, _] = features.dims();
        let pooled = features.mean_dim(3).mean_dim(2).reshape([batch, channels]);
        self.classifier().forward(pooled)
    }

    /// Weights of the classifier, `[outputs, channels]`: w of M_c = Σₖ w_{c,k} f_k, the class
    /// activation map of the paper.
    fn classifier_weights(&self) -> Tensor<2> {
        self.classifier().weight.val().transpose()
    }
}

/// Probabilities of logits, `[batch, outputs]`: the only sigmoid of the project.
pub fn probabilities(logits: Tensor<2>) -> Tensor<2> {
    sigmoid(logits)
}

/// The architectures that this crate builds.
///
/// ```
/// use burn_chexnet::model::Architecture;
/// assert_eq!("densenet121".parse(), Ok(Architecture::DenseNet121));
/// assert!("densenet122".parse::<Architecture>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Architecture {
    /// DenseNet-121: growth rate 32, blocks of 6, 12, 24 and 16 layers. CheXNet's backbone.
    #[default]
    DenseNet121,
    /// DenseNet-161: growth rate 48, blocks of 6, 12, 36 and 24 layers.
    DenseNet161,
    /// DenseNet-169: growth rate 32, blocks of 6, 12, 32 and 32 layers.
    DenseNet169,
    /// DenseNet-201: growth rate 32, blocks of 6, 12, 48 and 32 layers.
    DenseNet201,
    /// ResNet-50 with the stride in the 3×3 convolution, as torchvision's.
    ResNet50,
}

impl Architecture {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::DenseNet121,
        Self::DenseNet161,
        Self::DenseNet169,
        Self::DenseNet201,
        Self::ResNet50,
    ];

    /// The shape of a DenseNet, with 3 channels and 14 outputs; `None` for ResNet-50.
    pub fn densenet(self) -> Option<DenseNetConfig> {
        match self {
            Self::DenseNet121 => Some(DenseNetConfig::densenet121()),
            Self::DenseNet161 => Some(DenseNetConfig::densenet161()),
            Self::DenseNet169 => Some(DenseNetConfig::densenet169()),
            Self::DenseNet201 => Some(DenseNetConfig::densenet201()),
            Self::ResNet50 => None,
        }
    }

    /// The name in options, files and torchvision.
    pub fn name(self) -> &'static str {
        match self {
            Self::DenseNet121 => "densenet121",
            Self::DenseNet161 => "densenet161",
            Self::DenseNet169 => "densenet169",
            Self::DenseNet201 => "densenet201",
            Self::ResNet50 => "resnet50",
        }
    }
}

impl Display for Architecture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no [`Architecture`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown model `{0}`: expected densenet121, densenet161, densenet169, densenet201 or resnet50"
)]
pub struct UnknownArchitecture(pub String);

impl std::str::FromStr for Architecture {
    type Err = UnknownArchitecture;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|architecture| architecture.name() == name)
            .ok_or_else(|| UnknownArchitecture(name.to_string()))
    }
}

/// Replaces each `name.i` of `path` by `torchvision_name{i + 1}`: Burn numbers the elements of a
/// vector from 0 behind a dot, torchvision names each one, from 1.
fn number_from_one(path: &str, names: &[(&str, &str)]) -> String {
    let mut segments = path.split('.').peekable();
    let mut key: Vec<String> = Vec::new();
    while let Some(segment) = segments.next() {
        let renamed = names.iter().find(|(name, _)| *name == segment);
        let index = segments.peek().and_then(|next| next.parse::<usize>().ok());
        match (renamed, index) {
            (Some((_, torchvision)), Some(index)) => {
                segments.next();
                key.push(format!("{torchvision}{}", index + 1));
            }
            _ => key.push(segment.to_string()),
        }
    }
    key.join(".")
}
