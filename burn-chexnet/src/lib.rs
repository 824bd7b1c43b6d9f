//! CheXNet on Burn: DenseNet-121 as a multi-label classifier of the 14 pathologies of
//! NIH ChestX-ray14 (Rajpurkar et al., arXiv 1711.05225).
//!
//! The rooms, in the order in which they may use each other:
//!
//! | room | feature | what it is |
//! |---|---|---|
//! | [`kernels`] | | what the networks are computed with: fused kernels, or Burn's own operations |
//! | [`norm`] | | batch normalisation that stores what PyTorch stores |
//! | [`model`] | | DenseNet-121/161/169/201 and ResNet-50; logits, feature map, classifier weights |
//! | [`explain`] | | class activation maps |
//! | [`loss`] | | binary cross-entropy on logits, weighted and masked |
//! | [`metrics`] | | AUROC with confidence intervals, on plain slices |
//! | [`Preprocessing`] | | how 8-bit grey pixels become the model's input |
//! | [`Predictions`] | | probabilities keyed by image |
//! | `weights` | `weights` | safetensors with torchvision's key names, and their metadata |
//! | `heat_map` | `predict` | a class activation map in colour over the radiograph |
//! | `predict` | `predict` | image files in, probabilities and heat maps out |
//! | `train` | `train` | a training run: data, loop, results, figures |
//!
//! Features: `flex` (default) is Burn's CPU backend with the kernels for it; `weights` (default) reads and writes
//! weights; `images` reads PNG and JPEG files; `predict` adds CSV and heat maps; `train` adds the data sets, the training loop, CSV and plots, which a program that
//! only embeds the model does not need.
//!
//! ```
//! use burn::tensor::Device;
//! use burn_chexnet::model::{Classifier, DenseNetConfig, probabilities};
//! use burn_chexnet::Preprocessing;
//!
//! # fn main() -> Result<(), burn_chexnet::PreprocessingError> {
//! let device = Device::flex();
//! let model = DenseNetConfig::densenet121().init(&device);
//! let grey = vec![128u8; 64 * 64];
//! let images = Preprocessing::imagenet(64, 3)?.tensor(&grey, &device)?;
//! let probabilities = probabilities(model.logits(images));
//! assert_eq!(probabilities.dims(), [1, 14]);
//! # Ok(())
//! # }
//! ```

pub mod explain;
#[cfg(feature = "predict")]
pub mod heat_map;
pub mod kernels;
pub mod loss;
pub mod metrics;
pub mod model;
pub mod norm;
mod normalisation;
#[cfg(feature = "predict")]
pub mod predict;
mod predictions;
mod preprocessing;
#[cfg(feature = "train")]
pub mod train;
#[cfg(feature = "weights")]
pub mod weights;
#[cfg(feature = "weights")]
mod written;

#[cfg(feature = "images")]
pub use chest_datasets::GrayImage;
pub use normalisation::{Normalisation, UnknownNormalisation};
pub use predictions::{DeviceError, Prediction, Predictions};
pub use preprocessing::{Preprocessing, PreprocessingError, Resize};
