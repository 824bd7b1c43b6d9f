//! Why a model says what it says: where in the image the evidence lies.
//!
//! May use `model`; may not know files or training.

use burn::tensor::Tensor;

use crate::model::Classifier;

/// Class activation maps (Zhou et al., arXiv 1512.04150; section 5 of the CheXNet paper),
/// `[batch, outputs, height / 32, width / 32]`, of normalised images,
/// `[batch, in_channels, height, width]`.
///
/// The map of an output is Σₖ w_{c,k} f_k with the weights w of the classifier and the last
/// feature map f. Its mean plus the bias of the classifier is the logit of that output, so a
/// positive place speaks for the finding and a negative one against it.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use burn_chexnet::{explain::class_activation_maps, model::DenseNetConfig};
///
/// let device = Device::flex();
/// let model = DenseNetConfig::densenet121().init(&device);
/// let maps = class_activation_maps(&model, Tensor::zeros([1, 3, 96, 64], &device));
/// assert_eq!(maps.dims(), [1, 14, 3, 2]);
/// ```
pub fn class_activation_maps<C: Classifier>(model: &C, images: Tensor<4>) -> Tensor<4> {
    maps_of_features(model, model.features(images))
}

/// As [`class_activation_maps`], of a feature map that is there already.
pub fn maps_of_features<C: Classifier>(model: &C, features: Tensor<4>) -> Tensor<4> {
    let [batch, channels, height, width] = features.dims();
    let weights = model.classifier_weights();
    let outputs = weights.dims()[0];
    weights
        .unsqueeze::<3>()
        .matmul(features.reshape([batch, channels, height * width]))
        .reshape([batch, outputs, height, width])
}
