//! Shapes and weights of tensors as the kernels take them.

use burn::backend::Flex;

use super::super::cpu::affine::NormParameters;
use super::super::cpu::convolution::Convolution;
use super::super::cpu::dense_layer::Parameters;
use super::super::cpu::norm::NormalisedMap;
use super::super::cpu::window::Window;
use super::super::operations::{LayerTensors, NormStep, NormTensors, Slide};
use super::memory::{floats, ordered};

pub(super) fn convolution(input: [usize; 4], weight: [usize; 4], slide: Slide) -> Convolution {
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

/// `[batch, channels, height, width]` of a convolution's result.
pub(super) fn result(geometry: &Convolution) -> [usize; 4] {
    let window = &geometry.window;
    let (height, width) = (window.output_height(), window.output_width());
    [window.batch, geometry.outputs, height, width]
}

pub(super) fn normalised(input: [usize; 4], step: NormStep) -> NormalisedMap {
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
    pub(super) fn ordered(self) -> Self {
        Self {
            weight: ordered(self.weight),
            bias: ordered(self.bias),
            mean: ordered(self.mean),
            variance: ordered(self.variance),
        }
    }

    /// Of ordered tensors.
    pub(super) fn parameters(&self) -> NormParameters<'_> {
        NormParameters {
            weight: floats(&self.weight),
            bias: floats(&self.bias),
            mean: floats(&self.mean),
            variance: floats(&self.variance),
        }
    }
}

impl LayerTensors<Flex> {
    pub(super) fn ordered(self) -> Self {
        Self {
            norm_1: self.norm_1.ordered(),
            convolution_1: ordered(self.convolution_1),
            norm_2: self.norm_2.ordered(),
            convolution_2: ordered(self.convolution_2),
        }
    }

    /// Of ordered tensors.
    pub(super) fn parameters(&self) -> Parameters<'_> {
        Parameters {
            norms: [self.norm_1.parameters(), self.norm_2.parameters()],
            convolutions: [floats(&self.convolution_1), floats(&self.convolution_2)],
        }
    }
}
