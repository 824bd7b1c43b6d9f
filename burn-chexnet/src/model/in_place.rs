//! A dense block on one buffer, with a kernel for each layer.

use burn::tensor::Tensor;

use super::{DenseBlock, DenseLayer};
use crate::kernels::{GrowingMap, LayerWeights, know_dense_layer};
use crate::norm::{BatchNorm, values_per_channel};

impl DenseBlock {
    /// Whether all layers are such that a kernel makes them: their convolutions as in the paper, and no norm that
    /// needs, between the two, what other processes have.
    pub(super) fn is_known_to_kernels(&self, input: &Tensor<4>) -> bool {
        self.layers.iter().all(|layer| {
            let mut norms = layer.norms().into_iter();
            know_dense_layer(&layer.conv1, &layer.conv2)
                && !norms.any(|norm| norm.is_synchronised() && norm.is_of_batch(input))
        })
    }

    /// As [`forward`](Self::forward), where kernels serve the input.
    pub(super) fn forward_in_place(&self, input: Tensor<4>) -> Tensor<4> {
        let growth = |layer: &DenseLayer| layer.conv2.weight.val().dims()[0];
        let channels = input.dims()[1] + self.layers.iter().map(growth).sum::<usize>();
        let values = values_per_channel(&input);
        let mut norms = self.layers.iter().flat_map(DenseLayer::norms);
        let of_batch = norms.any(|norm| norm.is_of_batch(&input));
        let map = GrowingMap::new(input.clone(), channels, of_batch);
        let complete = self.layers.iter().fold(map, |map, layer| {
            let norms = layer
                .norms()
                .map(|norm| norm.weights(norm.is_of_batch(&input)));
            let (map, used) = map.append(LayerWeights {
                norms,
                convolutions: [layer.conv1.weight.val(), layer.conv2.weight.val()],
            });
            for (norm, used) in layer.norms().into_iter().zip(used.into_iter().flatten()) {
                if norm.is_of_batch(&input) {
                    norm.learn(used.mean, used.variance, values);
                }
            }
            map
        });
        complete.complete()
    }
}

impl DenseLayer {
    fn norms(&self) -> [&BatchNorm; 2] {
        [&self.norm1, &self.norm2]
    }
}
