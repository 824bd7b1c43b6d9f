//! The operations that have kernels, as an extension of Burn's backends. A backend that is not listed
//! panics in them: whoever calls asks [`is_served`] before.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, DispatchDevice, ExtensionType, backend_extension};
use burn::tensor::Device;

#[cfg(feature = "train")]
use super::cpu::adam::AdamStep;
use super::cpu::affine::Norm;
use super::cpu::dense_layer::{Block, Layer};
use super::pool::Pool;

/// What a norm does with a feature map, and what follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormStep {
    pub norm: Norm,
    /// Whether negative values become zero.
    pub relu: bool,
    pub pool: Pool,
}

/// How a convolution slides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slide {
    pub stride: usize,
    pub padding: usize,
}

/// Weights and running statistics of a norm, all of them `[channels]`.
#[derive(Clone, Debug, ExtensionType)]
pub struct NormTensors<B: Backend> {
    pub weight: FloatTensor<B>,
    pub bias: FloatTensor<B>,
    pub mean: FloatTensor<B>,
    pub variance: FloatTensor<B>,
}

/// A norm's result, and the statistics that it used.
#[derive(Clone, Debug, ExtensionType)]
pub struct NormOutput<B: Backend> {
    /// `[batch, channels, height, width]`
    pub output: FloatTensor<B>,
    /// `[channels]`
    pub mean: FloatTensor<B>,
    /// `[channels]`
    pub variance: FloatTensor<B>,
}

/// Weights of a layer of a dense block.
#[derive(Clone, Debug, ExtensionType)]
pub struct LayerTensors<B: Backend> {
    #[extension_type]
    pub norm_1: NormTensors<B>,
    /// `[bottleneck, inputs, 1, 1]`
    pub convolution_1: FloatTensor<B>,
    #[extension_type]
    pub norm_2: NormTensors<B>,
    /// `[growth, bottleneck, 3, 3]`
    pub convolution_2: FloatTensor<B>,
}

/// What a layer of a dense block made.
#[derive(Clone, Debug, ExtensionType)]
pub struct LayerOutput<B: Backend> {
    /// The block's buffer, with the new channels.
    pub buffer: FloatTensor<B>,
    /// The bottleneck: for the backward pass alone.
    pub hidden: FloatTensor<B>,
    /// The statistics that the first norm used.
    pub mean_1: FloatTensor<B>,
    pub variance_1: FloatTensor<B>,
    /// And the second one.
    pub mean_2: FloatTensor<B>,
    pub variance_2: FloatTensor<B>,
}

/// The operations. Feature maps are `[batch, channels, height, width]`, in memory best channels last.
#[backend_extension(Autodiff, Flex: cfg(feature = "flex"))]
pub trait Operations: Backend {
    /// A convolution without groups, dilation and bias, with a square kernel.
    fn convolution(
        input: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        slide: Slide,
    ) -> FloatTensor<Self>;

    /// As [`convolution`](Operations::convolution) without a backward pass. The weight is kept as the kernels take it
    /// for as long as it is there.
    fn infer_convolution(
        input: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        slide: Slide,
    ) -> FloatTensor<Self>;

    /// Batch normalisation with what follows it.
    fn norm(
        input: FloatTensor<Self>,
        #[extension_type] tensors: NormTensors<Self>,
        step: NormStep,
    ) -> NormOutput<Self>;

    /// The buffer of a dense block, one axis long, with `input` in its first channels.
    fn enter_block(input: FloatTensor<Self>, block: Block) -> FloatTensor<Self>;

    /// A layer of a dense block. It writes into the memory of `buffer`: nobody else may have that.
    fn dense_layer(
        buffer: FloatTensor<Self>,
        #[extension_type] tensors: LayerTensors<Self>,
        layer: Layer,
    ) -> LayerOutput<Self>;

    /// The buffer as [`dense_layer`](Operations::dense_layer) makes it, where no norm is one over the batch and no
    /// backward pass follows. The weights of the convolutions are kept as by
    /// [`infer_convolution`](Operations::infer_convolution).
    fn infer_dense_layer(
        buffer: FloatTensor<Self>,
        #[extension_type] tensors: LayerTensors<Self>,
        layer: Layer,
    ) -> FloatTensor<Self>;

    /// The channels of a complete buffer.
    fn leave_block(buffer: FloatTensor<Self>, block: Block) -> FloatTensor<Self>;

    /// A step of Adam: weights, mean of gradients, mean of squares.
    #[cfg(feature = "train")]
    fn adam(
        weights: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        squares: FloatTensor<Self>,
        step: AdamStep,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);
}

/// What the backward passes need of a backend that has the operations.
pub trait Gradients: Operations {
    /// Of the input of a convolution, whose shape `input` has.
    fn convolution_input(
        input: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        slide: Slide,
    ) -> FloatTensor<Self>;

    /// Of the weight of a convolution, whose shape `weight` has.
    fn convolution_weight(
        input: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        slide: Slide,
    ) -> FloatTensor<Self>;

    /// Of a norm's input, weight and bias; `mean` and `variance` are what it used.
    fn norm_gradients(
        input: FloatTensor<Self>,
        tensors: NormTensors<Self>,
        statistics: [FloatTensor<Self>; 2],
        gradient: FloatTensor<Self>,
        step: NormStep,
    ) -> [FloatTensor<Self>; 3];

    /// Of what a block was entered with, from its buffer and that one's gradient.
    fn enter_block_gradient(
        buffer: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        block: Block,
        channels: usize,
    ) -> FloatTensor<Self>;

    /// Of the buffer before a layer, in the memory of the `gradient` behind it if nobody else has that; then
    /// of the weights in the order of [`LayerTensors`], for each norm of weight and bias.
    fn dense_layer_gradients(
        tensors: LayerTensors<Self>,
        output: LayerOutput<Self>,
        gradient: FloatTensor<Self>,
        layer: Layer,
    ) -> [FloatTensor<Self>; 7];

    /// Of the buffer, from that of its channels.
    fn leave_block_gradient(gradient: FloatTensor<Self>, block: Block) -> FloatTensor<Self>;
}

/// Whether the backend of `device` has the operations: any other panics in them.
pub fn is_served(device: &Device) -> bool {
    match device.clone().inner().as_dispatch() {
        #[cfg(feature = "flex")]
        DispatchDevice::Flex(_) => true,
        _ => false,
    }
}
