//! The operations on Burn's CPU backend: tensors to slices and back.

use std::mem::MaybeUninit;
use std::slice::{from_raw_parts, from_raw_parts_mut};

use burn::backend::flex::{FlexTensor, Layout};
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::{DType, Shape};
use burn_std::{AccessError, AccessPolicy, AllocationController, AllocationProperty, Bytes};

#[cfg(feature = "train")]
use super::cpu::adam::AdamStep;
use super::cpu::affine::NormParameters;
use super::cpu::convolution::Convolution;
use super::cpu::dense_layer::{self, Block, Layer, Parameters};
use super::cpu::matrix::Shared;
use super::cpu::memory::{ALIGNMENT, Memory};
use super::cpu::norm::NormalisedMap;
use super::cpu::window::Window;
use super::operations::{
    Gradients, LayerOutput, LayerTensors, NormOutput, NormStep, NormTensors, Operations, Slide,
};

/// Memory of a tensor, which is used again when the tensor is gone.
struct Reused(Memory);

impl AllocationController for Reused {
    fn alloc_align(&self) -> usize {
        ALIGNMENT
    }

    fn property(&self) -> AllocationProperty {
        AllocationProperty::Other
    }

    unsafe fn memory_mut(
        &mut self,
        _: AccessPolicy,
    ) -> Result<&mut [MaybeUninit<u8>], AccessError> {
        let bytes = size_of_val(&*self.0);
        // SAFETY: the bytes of the floats, which are `self`'s own; the caller writes initialised ones.
        Ok(unsafe { from_raw_parts_mut(self.0.start().cast(), bytes) })
    }

    fn memory(&self, _: AccessPolicy) -> Result<&[MaybeUninit<u8>], AccessError> {
        let bytes = size_of_val(&*self.0);
        // SAFETY: the bytes of the floats, which live as long as `self`.
        Ok(unsafe { from_raw_parts(self.0.start().cast_const().cast(), bytes) })
    }
}

/// A tensor on `memory`.
fn tensor(memory: Memory, layout: Layout) -> FlexTensor {
    let bytes = size_of_val(&*memory);
    debug_assert_eq!(bytes, layout.num_elements() * size_of::<f32>());
    // SAFETY: the controller has so many bytes, all of them initialised.
    let bytes = unsafe { Bytes::from_controller(Box::new(Reused(memory)), bytes) };
    FlexTensor::new(bytes, layout, DType::F32)
}

/// A tensor of the shape, its axes in order.
fn in_order(memory: Memory, shape: impl Into<Shape>) -> FlexTensor {
    tensor(memory, Layout::contiguous(shape.into()))
}

/// `[batch, channels, height, width]` of channels that lie last in memory.
fn map_layout([batch, channels, height, width]: [usize; 4]) -> Layout {
    let strides = [height * width * channels, 1, width * channels, channels];
    Layout::new(
        Shape::from([batch, channels, height, width]),
        strides.map(|stride| stride as isize).to_vec(),
        0,
    )
}

fn map(memory: Memory, shape: [usize; 4]) -> FlexTensor {
    tensor(memory, map_layout(shape))
}

/// The tensor as its floats lie in order; a copy only if they do not.
fn ordered(tensor: FlexTensor) -> FlexTensor {
    if tensor.is_contiguous() {
        tensor
    } else {
        tensor.to_contiguous()
    }
}

/// A feature map with its channels last in memory, `[batch, height, width, channels]`.
fn channels_last(tensor: FlexTensor) -> FlexTensor {
    let layout = tensor.layout();
    let ([batch, channels, height, width], strides) = (tensor.shape().dims(), layout.strides());
    let turned = Layout::new(
        Shape::from([batch, height, width, channels]),
        [0, 2, 3, 1].map(|axis| strides[axis]).to_vec(),
        layout.start_offset(),
    );
    ordered(tensor.with_layout(turned))
}

/// The floats of an ordered tensor.
fn floats(tensor: &FlexTensor) -> &[f32] {
    let Some(floats) = tensor.as_slice() else {
        unreachable!("only ordered tensors of 32 bit come here");
    };
    floats
}

/// The floats of a block's buffer, to write where the tape has it too.
///
/// # Safety
///
/// The tensor was made by [`tensor`], and nothing else uses its memory meanwhile.
unsafe fn writable<'a>(buffer: &FlexTensor) -> Shared<'a> {
    let address = buffer.bytes().as_ptr().addr();
    let start = std::ptr::with_exposed_provenance_mut(address);
    let floats = buffer.bytes().len() / size_of::<f32>();
    // SAFETY: `Memory::start` exposed the provenance, and the caller vouches for the rest.
    unsafe { Shared::from_raw(start, floats) }
}

fn convolution(input: [usize; 4], weight: [usize; 4], slide: Slide) -> Convolution {
    let [batch, channels, height, width] = input;
    let [outputs, _, kernel, _] = weight;
    Convolution {
        window: Window {
            batch,
            height,
            width,
            channels,
            kernel,
            stride: slide.stride,
            padding: slide.padding,
        },
        outputs,
    }
}

fn normalised(input: [usize; 4], step: NormStep) -> NormalisedMap {
    let [batch, channels, height, width] = input;
    NormalisedMap {
        batch,
        height,
        width,
        channels,
        norm: step.norm,
        relu: step.relu,
        pool: step.pool,
    }
}

impl NormTensors<Flex> {
    fn ordered(self) -> Self {
        Self {
            weight: ordered(self.weight),
            bias: ordered(self.bias),
            mean: ordered(self.mean),
            variance: ordered(self.variance),
        }
    }

    /// Of ordered tensors.
    fn parameters(&self) -> NormParameters<'_> {
        NormParameters {
            weight: floats(&self.weight),
            bias: floats(&self.bias),
            mean: floats(&self.mean),
            variance: floats(&self.variance),
        }
    }
}

impl LayerTensors<Flex> {
    fn ordered(self) -> Self {
        Self {
            norm_1: self.norm_1.ordered(),
            convolution_1: ordered(self.convolution_1),
            norm_2: self.norm_2.ordered(),
            convolution_2: ordered(self.convolution_2),
        }
    }

    /// Of ordered tensors.
    fn parameters(&self) -> Parameters<'_> {
        Parameters {
            norms: [self.norm_1.parameters(), self.norm_2.parameters()],
            convolutions: [floats(&self.convolution_1), floats(&self.convolution_2)],
        }
    }
}

/// A tensor with the same floats, which is written in place if nobody else has it.
fn own(tensor: FlexTensor) -> FlexTensor {
    let mut tensor = ordered(tensor);
    let whole = tensor.layout().start_offset() == 0
        && tensor.bytes().len() == tensor.layout().num_elements() * size_of::<f32>();
    if whole && tensor.try_storage_mut::<f32>().is_some() {
        return tensor;
    }
    let mut memory = Memory::take(tensor.layout().num_elements());
    memory.copy_from_slice(floats(&tensor));
    in_order(memory, tensor.shape())
}

/// The floats of a tensor that [`own`] returned.
fn own_floats(tensor: &mut FlexTensor) -> &mut [f32] {
    tensor.storage_mut()
}

impl Operations for Flex {
    fn convolution(input: FlexTensor, weight: FlexTensor, slide: Slide) -> FlexTensor {
        let [batch, channels, height, width] = input.shape().dims();
        let geometry = convolution(
            [batch, channels, height, width],
            weight.shape().dims(),
            slide,
        );
        let (input, weight) = (channels_last(input), ordered(weight));
        let mut output = Memory::take(geometry.output_floats());
        geometry.forward(floats(&input), floats(&weight), &mut output);
        let window = geometry.window;
        let (height, width) = (window.output_height(), window.output_width());
        map(output, [batch, geometry.outputs, height, width])
    }

    fn norm(input: FlexTensor, tensors: NormTensors<Self>, step: NormStep) -> NormOutput<Self> {
        let geometry = normalised(input.shape().dims(), step);
        let (input, tensors) = (channels_last(input), tensors.ordered());
        let mut output = Memory::take(geometry.output_floats());
        let [mut mean, mut variance] = [(); 2].map(|()| Memory::take(geometry.channels));
        geometry.forward(
            floats(&input),
            &tensors.parameters(),
            &mut output,
            [&mut mean, &mut variance],
        );
        let (height, width) = (geometry.output_height(), geometry.output_width());
        NormOutput {
            output: map(output, [geometry.batch, geometry.channels, height, width]),
            mean: in_order(mean, [geometry.channels]),
            variance: in_order(variance, [geometry.channels]),
        }
    }

    fn enter_block(input: FlexTensor, block: Block) -> FlexTensor {
        let channels = input.shape()[1];
        let mut buffer = Memory::take(block.floats());
        block.enter(floats(&channels_last(input)), channels, &mut buffer);
        in_order(buffer, [block.floats()])
    }

    fn dense_layer(
        buffer: FlexTensor,
        tensors: LayerTensors<Self>,
        layer: Layer,
    ) -> LayerOutput<Self> {
        let tensors = tensors.ordered();
        let parameters = tensors.parameters();
        let mut hidden = Memory::take(layer.block.pixels() * layer.bottleneck);
        let [mut mean_2, mut variance_2] = [(); 2].map(|()| Memory::take(layer.bottleneck));
        // SAFETY: `enter_block` made the buffer, and only a block on its way, which is no tensor of
        // anybody's, has it: the tape looks at it in the backward pass, when all layers have written.
        unsafe {
            let buffer = writable(&buffer);
            layer.forward(
                buffer,
                &parameters,
                &mut hidden,
                [&mut mean_2, &mut variance_2],
            );
        }
        let [mean_1, variance_1] = layer
            .statistics(floats(&buffer), &parameters)
            .map(|values| {
                let mut memory = Memory::take(layer.inputs);
                memory.copy_from_slice(values);
                in_order(memory, [layer.inputs])
            });
        LayerOutput {
            buffer,
            hidden: in_order(hidden, [layer.block.pixels(), layer.bottleneck]),
            mean_1,
            variance_1,
            mean_2: in_order(mean_2, [layer.bottleneck]),
            variance_2: in_order(variance_2, [layer.bottleneck]),
        }
    }

    fn leave_block(buffer: FlexTensor, block: Block) -> FlexTensor {
        let shape = [block.batch, block.channels, block.height, block.width];
        FlexTensor::from_arc(buffer.data_arc(), map_layout(shape), DType::F32)
    }

    #[cfg(feature = "train")]
    fn adam(
        weights: FlexTensor,
        gradient: FlexTensor,
        mean: FlexTensor,
        squares: FlexTensor,
        step: AdamStep,
    ) -> (FlexTensor, FlexTensor, FlexTensor) {
        let gradient = ordered(gradient);
        let [mut weights, mut mean, mut squares] = [weights, mean, squares].map(own);
        step.apply(
            own_floats(&mut weights),
            floats(&gradient),
            own_floats(&mut mean),
            own_floats(&mut squares),
        );
        (weights, mean, squares)
    }
}

impl Gradients for Flex {
    fn convolution_input(
        input: FlexTensor,
        weight: FlexTensor,
        gradient: FlexTensor,
        slide: Slide,
    ) -> FlexTensor {
        let shape = input.shape().dims();
        let geometry = convolution(shape, weight.shape().dims(), slide);
        let (weight, gradient) = (ordered(weight), channels_last(gradient));
        let mut of_input = Memory::take(shape.iter().product());
        geometry.input_gradient(floats(&weight), floats(&gradient), &mut of_input);
        map(of_input, shape)
    }

    fn convolution_weight(
        input: FlexTensor,
        weight: FlexTensor,
        gradient: FlexTensor,
        slide: Slide,
    ) -> FlexTensor {
        let shape = weight.shape();
        let geometry = convolution(input.shape().dims(), shape.dims(), slide);
        let (input, gradient) = (channels_last(input), channels_last(gradient));
        let mut of_weight = Memory::take(shape.num_elements());
        geometry.weight_gradient(floats(&input), floats(&gradient), &mut of_weight);
        in_order(of_weight, shape)
    }

    fn norm_gradients(
        input: FlexTensor,
        tensors: NormTensors<Self>,
        statistics: [FlexTensor; 2],
        gradient: FlexTensor,
        step: NormStep,
    ) -> [FlexTensor; 3] {
        let shape = input.shape().dims();
        let geometry = normalised(shape, step);
        let (input, gradient) = (channels_last(input), channels_last(gradient));
        let tensors = tensors.ordered();
        let [mean, variance] = &statistics;
        let mut of_input = Memory::take(shape.iter().product());
        let [mut weight, mut bias] = [(); 2].map(|()| Memory::take(geometry.channels));
        geometry.backward(
            floats(&input),
            &tensors.parameters(),
            [floats(mean), floats(variance)],
            floats(&gradient),
            &mut of_input,
            [&mut weight, &mut bias],
        );
        [
            map(of_input, shape),
            in_order(weight, [geometry.channels]),
            in_order(bias, [geometry.channels]),
        ]
    }

    fn enter_block_gradient(
        buffer: FlexTensor,
        gradient: FlexTensor,
        block: Block,
        channels: usize,
    ) -> FlexTensor {
        let gradient = ordered(gradient);
        let mut of_input = Memory::take(block.pixels() * channels);
        block.enter_gradient(floats(&buffer), floats(&gradient), channels, &mut of_input);
        map(of_input, [block.batch, channels, block.height, block.width])
    }

    fn dense_layer_gradients(
        tensors: LayerTensors<Self>,
        output: LayerOutput<Self>,
        gradient: FlexTensor,
        layer: Layer,
    ) -> [FlexTensor; 7] {
        let tensors = tensors.ordered();
        let mut gradient = own(gradient);
        let [
            mut weight_1,
            mut bias_1,
            mut convolution_1,
            mut weight_2,
            mut bias_2,
            mut convolution_2,
        ] = [
            layer.inputs,
            layer.inputs,
            layer.bottleneck * layer.inputs,
            layer.bottleneck,
            layer.bottleneck,
            layer.growth * layer.bottleneck * 9,
        ]
        .map(Memory::take);
        layer.backward(
            floats(&output.buffer),
            own_floats(&mut gradient),
            &tensors.parameters(),
            floats(&output.hidden),
            [floats(&output.mean_2), floats(&output.variance_2)],
            dense_layer::Gradients {
                norms: [[&mut weight_1, &mut bias_1], [&mut weight_2, &mut bias_2]],
                convolutions: [&mut convolution_1, &mut convolution_2],
            },
        );
        [
            gradient,
            in_order(weight_1, [layer.inputs]),
            in_order(bias_1, [layer.inputs]),
            in_order(convolution_1, tensors.convolution_1.shape()),
            in_order(weight_2, [layer.bottleneck]),
            in_order(bias_2, [layer.bottleneck]),
            in_order(convolution_2, tensors.convolution_2.shape()),
        ]
    }

    fn leave_block_gradient(gradient: FlexTensor, block: Block) -> FlexTensor {
        let mut of_buffer = Memory::take(block.floats());
        block.exit_gradient(floats(&channels_last(gradient)), &mut of_buffer);
        in_order(of_buffer, [block.floats()])
    }
}
