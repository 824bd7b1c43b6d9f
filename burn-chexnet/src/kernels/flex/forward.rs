//! The operations.

use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::DType;

#[cfg(feature = "train")]
use super::super::cpu::adam::AdamStep;
use super::super::cpu::dense_layer::{Block, Layer};
use super::super::cpu::memory::Memory;
use super::super::operations::{
    LayerOutput, LayerTensors, NormOutput, NormStep, NormTensors, Operations, Slide,
};
use super::geometry::{convolution, normalised, result};
use super::memory::{channels_last, floats, in_order, map, map_layout, ordered, writable};
#[cfg(feature = "train")]
use super::memory::{own, own_floats};
use super::packed::packed;

impl Operations for Flex {
    fn convolution(input: FlexTensor, weight: FlexTensor, slide: Slide) -> FlexTensor {
        let geometry = convolution(input.shape().dims(), weight.shape().dims(), slide);
        let (input, weight) = (channels_last(input), ordered(weight));
        let mut output = Memory::take(geometry.output_floats());
        geometry.forward(floats(&input), floats(&weight), &mut output);
        map(output, result(&geometry))
    }

    fn infer_convolution(input: FlexTensor, weight: FlexTensor, slide: Slide) -> FlexTensor {
        let geometry = convolution(input.shape().dims(), weight.shape().dims(), slide);
        let (input, panels) = (channels_last(input), packed(weight, geometry.weights()));
        let mut output = Memory::take(geometry.output_floats());
        geometry.apply(&panels, floats(&input), &mut output);
        map(output, result(&geometry))
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

    fn infer_dense_layer(
        buffer: FlexTensor,
        tensors: LayerTensors<Self>,
        layer: Layer,
    ) -> FlexTensor {
        let panels = [
            packed(tensors.convolution_1, layer.squeeze_weights()),
            packed(tensors.convolution_2, layer.growth_weights()),
        ];
        let [first, second] = [tensors.norm_1, tensors.norm_2].map(NormTensors::ordered);
        // SAFETY: as in `dense_layer`, and there is no tape.
        unsafe {
            layer.infer(
                writable(&buffer),
                [first.parameters(), second.parameters()],
                [&panels[0], &panels[1]],
            );
        }
        buffer
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
