//! The backward passes of the operations, by hand: each asks the backend for the gradients at once, and
//! keeps no more for them than it needs. Second derivatives are not to be had: the plain path has them.

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients as Tape;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{AutodiffBackend, TensorMetadata};

#[cfg(feature = "train")]
use super::cpu::adam::AdamStep;
use super::cpu::dense_layer::{Block, Layer};
use super::operations::{
    Gradients, LayerOutput, LayerTensors, NormOutput, NormStep, NormTensors, Operations, Slide,
};

#[derive(Debug)]
struct ConvolutionGradient;

impl<B: Gradients> Backward<B, 2> for ConvolutionGradient {
    /// Input and weight.
    type State = (FloatTensor<B>, FloatTensor<B>, Slide);

    fn backward(self, ops: Ops<Self::State, 2>, tape: &mut Tape, _: &mut Checkpointer) {
        let gradient = tape.consume::<B>(&ops.node);
        let (input, weight, slide) = ops.state;
        let [of_input, of_weight] = ops.parents;
        if let Some(node) = of_input {
            let (input, weight) = (input.clone(), weight.clone());
            let gradient = B::convolution_input(input, weight, gradient.clone(), slide);
            tape.register::<B>(node.id, gradient);
        }
        if let Some(node) = of_weight {
            let gradient = B::convolution_weight(input, weight, gradient, slide);
            tape.register::<B>(node.id, gradient);
        }
    }
}

#[derive(Debug)]
struct NormGradient;

impl<B: Gradients> Backward<B, 3> for NormGradient {
    type State = (
        FloatTensor<B>,
        NormTensors<B>,
        [FloatTensor<B>; 2],
        NormStep,
    );

    fn backward(self, ops: Ops<Self::State, 3>, tape: &mut Tape, _: &mut Checkpointer) {
        let gradient = tape.consume::<B>(&ops.node);
        let (input, tensors, statistics, step) = ops.state;
        let gradients = B::norm_gradients(input, tensors, statistics, gradient, step);
        for (node, gradient) in ops.parents.into_iter().zip(gradients) {
            if let Some(node) = node {
                tape.register::<B>(node.id, gradient);
            }
        }
    }
}

#[derive(Debug)]
struct EnterGradient;

impl<B: Gradients> Backward<B, 1> for EnterGradient {
    /// The buffer, and how many channels came in.
    type State = (FloatTensor<B>, Block, usize);

    fn backward(self, ops: Ops<Self::State, 1>, tape: &mut Tape, _: &mut Checkpointer) {
        let gradient = tape.consume::<B>(&ops.node);
        let (buffer, block, channels) = ops.state;
        if let [Some(node)] = ops.parents {
            let gradient = B::enter_block_gradient(buffer, gradient, block, channels);
            tape.register::<B>(node.id, gradient);
        }
    }
}

#[derive(Debug)]
struct LeaveGradient;

impl<B: Gradients> Backward<B, 1> for LeaveGradient {
    type State = Block;

    fn backward(self, ops: Ops<Self::State, 1>, tape: &mut Tape, _: &mut Checkpointer) {
        let gradient = tape.consume::<B>(&ops.node);
        if let [Some(node)] = ops.parents {
            tape.register::<B>(node.id, B::leave_block_gradient(gradient, ops.state));
        }
    }
}

#[derive(Debug)]
struct LayerGradient;

impl<B: Gradients> Backward<B, 7> for LayerGradient {
    type State = (LayerTensors<B>, LayerOutput<B>, Layer);

    fn backward(self, ops: Ops<Self::State, 7>, tape: &mut Tape, _: &mut Checkpointer) {
        let gradient = tape.consume::<B>(&ops.node);
        let (tensors, output, layer) = ops.state;
        let gradients = B::dense_layer_gradients(tensors, output, gradient, layer);
        for (node, gradient) in ops.parents.into_iter().zip(gradients) {
            if let Some(node) = node {
                tape.register::<B>(node.id, gradient);
            }
        }
    }
}

impl<B: Gradients> NormTensors<B> {
    /// Of a backend with a tape, the tensors behind it.
    fn inner<C: CheckpointStrategy>(tensors: NormTensors<Autodiff<B, C>>) -> Self {
        Self {
            weight: tensors.weight.into_primitive(),
            bias: tensors.bias.into_primitive(),
            mean: tensors.mean.into_primitive(),
            variance: tensors.variance.into_primitive(),
        }
    }
}

impl<B: Gradients, C: CheckpointStrategy> Operations for Autodiff<B, C> {
    fn convolution(
        input: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        slide: Slide,
    ) -> FloatTensor<Self> {
        let nodes = [input.node(), weight.node()];
        let (input, weight) = (input.into_primitive(), weight.into_primitive());
        match ConvolutionGradient
            .prepare::<C>(nodes)
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(tape) => {
                let output = B::convolution(input.clone(), weight.clone(), slide);
                tape.finish((input, weight, slide), output)
            }
            OpsKind::UnTracked(tape) => tape.finish(B::convolution(input, weight, slide)),
        }
    }

    /// With one: whoever has a tape asks for it.
    fn infer_convolution(
        input: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        slide: Slide,
    ) -> FloatTensor<Self> {
        Self::convolution(input, weight, slide)
    }

    fn norm(
        input: FloatTensor<Self>,
        tensors: NormTensors<Self>,
        step: NormStep,
    ) -> NormOutput<Self> {
        let nodes = [input.node(), tensors.weight.node(), tensors.bias.node()];
        let input = input.into_primitive();
        let tensors = NormTensors::inner(tensors);
        let NormOutput {
            output,
            mean,
            variance,
        } = B::norm(input.clone(), tensors.clone(), step);
        let output = match NormGradient.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(tape) => {
                let statistics = [mean.clone(), variance.clone()];
                tape.finish((input, tensors, statistics, step), output)
            }
            OpsKind::UnTracked(tape) => tape.finish(output),
        };
        NormOutput {
            output,
            mean: Self::from_inner(mean),
            variance: Self::from_inner(variance),
        }
    }

    fn enter_block(input: FloatTensor<Self>, block: Block) -> FloatTensor<Self> {
        let nodes = [input.node()];
        let input = input.into_primitive();
        let channels = input.shape()[1];
        let buffer = B::enter_block(input, block);
        let prepared = Backward::<B, 1>::prepare::<C>(EnterGradient, nodes);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(tape) => tape.finish((buffer.clone(), block, channels), buffer),
            OpsKind::UnTracked(tape) => tape.finish(buffer),
        }
    }

    fn dense_layer(
        buffer: FloatTensor<Self>,
        tensors: LayerTensors<Self>,
        layer: Layer,
    ) -> LayerOutput<Self> {
        let nodes = [
            &buffer,
            &tensors.norm_1.weight,
            &tensors.norm_1.bias,
            &tensors.convolution_1,
            &tensors.norm_2.weight,
            &tensors.norm_2.bias,
            &tensors.convolution_2,
        ]
        .map(|tensor| tensor.node());
        let tensors = LayerTensors {
            norm_1: NormTensors::inner(tensors.norm_1),
            convolution_1: tensors.convolution_1.into_primitive(),
            norm_2: NormTensors::inner(tensors.norm_2),
            convolution_2: tensors.convolution_2.into_primitive(),
        };
        let output = B::dense_layer(buffer.into_primitive(), tensors.clone(), layer);
        let buffer = output.buffer.clone();
        let prepared = Backward::<B, 7>::prepare::<C>(LayerGradient, nodes);
        let buffer = match prepared.compute_bound().stateful() {
            OpsKind::Tracked(tape) => tape.finish((tensors, output.clone(), layer), buffer),
            OpsKind::UnTracked(tape) => tape.finish(buffer),
        };
        LayerOutput {
            buffer,
            hidden: Self::from_inner(output.hidden),
            mean_1: Self::from_inner(output.mean_1),
            variance_1: Self::from_inner(output.variance_1),
            mean_2: Self::from_inner(output.mean_2),
            variance_2: Self::from_inner(output.variance_2),
        }
    }

    /// As [`infer_convolution`](Operations::infer_convolution).
    fn infer_dense_layer(
        buffer: FloatTensor<Self>,
        tensors: LayerTensors<Self>,
        layer: Layer,
    ) -> FloatTensor<Self> {
        Self::dense_layer(buffer, tensors, layer).buffer
    }

    fn leave_block(buffer: FloatTensor<Self>, block: Block) -> FloatTensor<Self> {
        let nodes = [buffer.node()];
        let output = B::leave_block(buffer.into_primitive(), block);
        let prepared = Backward::<B, 1>::prepare::<C>(LeaveGradient, nodes);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(tape) => tape.finish(block, output),
            OpsKind::UnTracked(tape) => tape.finish(output),
        }
    }

    /// Without a tape: an optimiser moves weights behind it.
    #[cfg(feature = "train")]
    fn adam(
        weights: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        squares: FloatTensor<Self>,
        step: AdamStep,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let (weights, mean, squares) = B::adam(
            weights.into_primitive(),
            gradient.into_primitive(),
            mean.into_primitive(),
            squares.into_primitive(),
            step,
        );
        (
            Self::from_inner(weights),
            Self::from_inner(mean),
            Self::from_inner(squares),
        )
    }
}
