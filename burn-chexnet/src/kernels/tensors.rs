//! The operations on Burn's tensors. Whoever calls has asked [`serve`](super::serve).

use burn::backend::Dispatch;
use burn::backend::tensor::FloatTensor;
use burn::tensor::Tensor;

#[cfg(feature = "train")]
use super::cpu::adam::AdamStep;
use super::cpu::affine::Norm;
use super::cpu::dense_layer::{Block, Layer};
use super::operations::{LayerTensors, NormStep, NormTensors, Operations, Slide};
use super::pool::Pool;

/// A norm as the kernels take it: its weights and running statistics, all of them `[channels]`.
pub(crate) struct NormWeights {
    pub weight: Tensor<1>,
    pub bias: Tensor<1>,
    pub running_mean: Tensor<1>,
    pub running_variance: Tensor<1>,
    /// Added to the variance.
    pub epsilon: f64,
    /// With the statistics of the batch; otherwise with the running ones.
    pub of_batch: bool,
}

impl NormWeights {
    fn norm(&self) -> Norm {
        Norm {
            epsilon: self.epsilon as f32,
            of_batch: self.of_batch,
        }
    }

    fn assert_channels(&self, channels: usize) {
        for tensor in [
            &self.weight,
            &self.bias,
            &self.running_mean,
            &self.running_variance,
        ] {
            assert_eq!(
                tensor.dims(),
                [channels],
                "the norm is one over other channels"
            );
        }
    }

    fn into_tensors(self) -> NormTensors<Dispatch> {
        NormTensors {
            weight: self.weight.into_dispatch(),
            bias: self.bias.into_dispatch(),
            mean: self.running_mean.into_dispatch(),
            variance: self.running_variance.into_dispatch(),
        }
    }
}

/// Mean and biased variance, `[channels]`, that a norm used.
pub(crate) struct Statistics {
    pub mean: Tensor<1>,
    pub variance: Tensor<1>,
}

fn statistics(mean: FloatTensor<Dispatch>, variance: FloatTensor<Dispatch>) -> Statistics {
    Statistics {
        mean: Tensor::from_dispatch(mean),
        variance: Tensor::from_dispatch(variance),
    }
}

/// A convolution with a square kernel, without groups, dilation and bias.
pub(super) fn convolution(input: Tensor<4>, weight: Tensor<4>, slide: Slide) -> Tensor<4> {
    let infers = !input.device().is_autodiff();
    let (input, weight) = (input.into_dispatch(), weight.into_dispatch());
    Tensor::from_dispatch(match infers {
        true => Dispatch::infer_convolution(input, weight, slide),
        false => Dispatch::convolution(input, weight, slide),
    })
}

/// `input` normalised, then its ReLU if `relu`, then pooled.
///
/// # Panics
///
/// If the norm is one over other channels.
pub(crate) fn norm(
    input: Tensor<4>,
    weights: NormWeights,
    relu: bool,
    pool: Pool,
) -> (Tensor<4>, Statistics) {
    weights.assert_channels(input.dims()[1]);
    let step = NormStep {
        norm: weights.norm(),
        relu,
        pool,
    };
    let output = Dispatch::norm(input.into_dispatch(), weights.into_tensors(), step);
    (
        Tensor::from_dispatch(output.output),
        statistics(output.mean, output.variance),
    )
}

/// A layer of a dense block: norm, ReLU, 1×1 convolution; norm, ReLU, 3×3 convolution.
pub(crate) struct LayerWeights {
    pub norms: [NormWeights; 2],
    /// `[bottleneck, inputs, 1, 1]` and `[growth, bottleneck, 3, 3]`.
    pub convolutions: [Tensor<4>; 2],
}

/// The feature map of a dense block that grows with each layer. Not `Clone`: a layer writes into its memory.
pub(crate) struct GrowingMap {
    buffer: Tensor<1>,
    block: Block,
    channels: usize,
    infers: bool,
}

impl GrowingMap {
    /// `input`, `[batch, channels, height, width]`, with room for `channels` in all; `of_batch`: whether any norm is
    /// one over the batch.
    pub fn new(input: Tensor<4>, channels: usize, of_batch: bool) -> Self {
        let [batch, inputs, height, width] = input.dims();
        let block = Block {
            batch,
            height,
            width,
            channels,
            statistics: of_batch,
        };
        let infers = !of_batch && !input.device().is_autodiff();
        let buffer = Dispatch::enter_block(input.into_dispatch(), block);
        Self {
            infers,
            buffer: Tensor::from_dispatch(buffer),
            block,
            channels: inputs,
        }
    }

    /// The map with the layer's channels, and the statistics that its norms used if any of the block's is one over the
    /// batch, or there is a tape.
    ///
    /// # Panics
    ///
    /// If the layer or a norm of it does not read the channels that are there, or there is no room for its own.
    pub fn append(self, layer: LayerWeights) -> (Self, Option<[Statistics; 2]>) {
        let [bottleneck, inputs, _, _] = layer.convolutions[0].dims();
        let [growth, _, _, _] = layer.convolutions[1].dims();
        assert_eq!(inputs, self.channels, "the layer reads other channels");
        let channels = inputs + growth;
        assert!(channels <= self.block.channels, "the block is complete");
        let [norm_1, norm_2] = layer.norms;
        norm_1.assert_channels(inputs);
        norm_2.assert_channels(bottleneck);
        let geometry = Layer {
            block: self.block,
            inputs,
            bottleneck,
            growth,
            norms: [norm_1.norm(), norm_2.norm()],
        };
        let [convolution_1, convolution_2] = layer.convolutions.map(Tensor::into_dispatch);
        let tensors = LayerTensors {
            norm_1: norm_1.into_tensors(),
            convolution_1,
            norm_2: norm_2.into_tensors(),
            convolution_2,
        };
        let buffer = self.buffer.into_dispatch();
        let (buffer, statistics) = if self.infers {
            (Dispatch::infer_dense_layer(buffer, tensors, geometry), None)
        } else {
            let output = Dispatch::dense_layer(buffer, tensors, geometry);
            let of_both = [
                statistics(output.mean_1, output.variance_1),
                statistics(output.mean_2, output.variance_2),
            ];
            (output.buffer, Some(of_both))
        };
        let map = Self {
            buffer: Tensor::from_dispatch(buffer),
            channels,
            ..self
        };
        (map, statistics)
    }

    /// All channels, `[batch, channels, height, width]`.
    ///
    /// # Panics
    ///
    /// If layers are missing.
    pub fn complete(self) -> Tensor<4> {
        assert_eq!(self.channels, self.block.channels, "layers are missing");
        let map = Dispatch::leave_block(self.buffer.into_dispatch(), self.block);
        Tensor::from_dispatch(map)
    }
}

/// A step of Adam: the weights, the mean of gradients and that of their squares.
#[cfg(feature = "train")]
pub(super) fn adam<const D: usize>(
    [weights, gradient, mean, squares]: [Tensor<D>; 4],
    step: AdamStep,
) -> [Tensor<D>; 3] {
    let (weights, mean, squares) = Dispatch::adam(
        weights.into_dispatch(),
        gradient.into_dispatch(),
        mean.into_dispatch(),
        squares.into_dispatch(),
        step,
    );
    [weights, mean, squares].map(Tensor::from_dispatch)
}
