//! Layers with torchvision's initialisation, shared by the networks.

use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{Initializer, Linear, LinearConfig, PaddingConfig2d};
use burn::tensor::{Device, Tensor};

/// Which side of a convolution keeps its variance (He et al., arXiv 1502.01852).
#[derive(Clone, Copy)]
pub(super) enum Fan {
    /// The forward pass: torchvision's DenseNet.
    In,
    /// The backward pass: torchvision's ResNet.
    Out,
}

/// A convolution without bias, its weights drawn from He's normal distribution for ReLU.
pub(super) fn convolution(
    channels: [usize; 2],
    kernel: usize,
    stride: usize,
    fan: Fan,
    device: &Device,
) -> Conv2d {
    let padding = kernel / 2;
    Conv2dConfig::new(channels, [kernel, kernel])
        .with_stride([stride, stride])
        .with_padding(PaddingConfig2d::Explicit(
            padding, padding, padding, padding,
        ))
        .with_bias(false)
        .with_initializer(Initializer::KaimingNormal {
            gain: std::f64::consts::SQRT_2,
            fan_out_only: matches!(fan, Fan::Out),
        })
        .init(device)
}

/// PyTorch's default linear layer: weights uniform in ±1/√inputs, bias likewise or zero.
pub(super) fn linear(inputs: usize, outputs: usize, zero_bias: bool, device: &Device) -> Linear {
    let bound = 1.0 / (inputs as f64).sqrt();
    let mut linear = LinearConfig::new(inputs, outputs)
        .with_initializer(Initializer::Uniform {
            min: -bound,
            max: bound,
        })
        .init(device);
    if zero_bias {
        linear.bias = linear
            .bias
            .map(|bias| bias.map(|bias| Tensor::zeros(bias.shape(), &bias.device())));
    }
    linear
}
