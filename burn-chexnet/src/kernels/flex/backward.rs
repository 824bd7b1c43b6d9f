//! The gradients of the operations.

use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, TensorMetadata};

use super::super::cpu::dense_layer::{self, Block, Layer};
use super::super::cpu::memory::Memory;
use super::super::operations::{
    Gradients, LayerOutput, LayerTensors, NormStep, NormTensors, Slide,
};
use super::geometry::{convolution, normalised};
use super::memory::{channels_last, floats, in_order, map, ordered, own, own_floats};

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
