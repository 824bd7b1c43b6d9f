//! ResNet-50 (He et al., arXiv 1512.03385) as torchvision builds it: the stride of a stage sits
//! in its first 3×3 convolution.

use burn::module::Module;
use burn::nn::Linear;
use burn::nn::conv::Conv2d;
use burn::tensor::{Device, Tensor, activation::relu};

use super::Classifier;
use super::init::{Fan, convolution, linear};
use crate::kernels::{self, Pool};
use crate::norm::{BatchNorm, EPSILON, SumOfAll};

/// Output channels of a bottleneck for each channel of its 3×3 convolution.
const EXPANSION: usize = 4;

/// Shape of a ResNet of bottlenecks.
///
/// ```
/// use burn::tensor::Device;
/// use burn_chexnet::model::{ResNetConfig, parameter_count};
///
/// let model = ResNetConfig::resnet50().init(&Device::flex());
/// assert_eq!(parameter_count(&model), 23_536_718);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ResNetConfig {
    /// Bottlenecks in each of the four stages.
    pub stages: [usize; 4],
    /// Channels of the images, 1 or 3.
    pub in_channels: usize,
    /// Logits.
    pub outputs: usize,
    /// What the norms add to the variance: 1e-5 as in PyTorch.
    pub norm_epsilon: f64,
}

impl ResNetConfig {
    /// ResNet-50 with 3 channels and 14 outputs.
    pub fn resnet50() -> Self {
        Self {
            stages: [3, 4, 6, 3],
            in_channels: 3,
            outputs: 14,
            norm_epsilon: EPSILON,
        }
    }

    /// The same network for images of `in_channels` channels.
    pub fn with_in_channels(self, in_channels: usize) -> Self {
        Self {
            in_channels,
            ..self
        }
    }

    /// The same network with `outputs` logits.
    pub fn with_outputs(self, outputs: usize) -> Self {
        Self { outputs, ..self }
    }

    /// The same network with norms that add `norm_epsilon` to the variance.
    pub fn with_norm_epsilon(self, norm_epsilon: f64) -> Self {
        Self {
            norm_epsilon,
            ..self
        }
    }

    fn norm(&self, channels: usize, device: &Device) -> BatchNorm {
        BatchNorm::new(channels, device).with_epsilon(self.norm_epsilon)
    }

    /// Builds the network with torchvision's initialisation.
    pub fn init(&self, device: &Device) -> ResNet {
        let stage = |index: usize| {
            let width = 64 << index;
            let inputs = if index == 0 {
                64
            } else {
                width / 2 * EXPANSION
            };
            let stride = if index == 0 { 1 } else { 2 };
            (0..self.stages[index])
                .map(|block| match block {
                    0 => self.bottleneck(inputs, width, stride, device),
                    _ => self.bottleneck(width * EXPANSION, width, 1, device),
                })
                .collect()
        };
        ResNet {
            conv1: convolution([self.in_channels, 64], 7, 2, Fan::Out, device),
            bn1: self.norm(64, device),
            layer1: stage(0),
            layer2: stage(1),
            layer3: stage(2),
            layer4: stage(3),
            fc: linear(512 * EXPANSION, self.outputs, false, device),
        }
    }

    fn bottleneck(
        &self,
        inputs: usize,
        width: usize,
        stride: usize,
        device: &Device,
    ) -> Bottleneck {
        let outputs = width * EXPANSION;
        let shortcut = stride != 1 || inputs != outputs;
        Bottleneck {
            conv1: convolution([inputs, width], 1, 1, Fan::Out, device),
            bn1: self.norm(width, device),
            conv2: convolution([width, width], 3, stride, Fan::Out, device),
            bn2: self.norm(width, device),
            conv3: convolution([width, outputs], 1, 1, Fan::Out, device),
            bn3: self.norm(outputs, device),
            downsample: shortcut.then(|| Downsample {
                conv: convolution([inputs, outputs], 1, stride, Fan::Out, device),
                norm: self.norm(outputs, device),
            }),
        }
    }
}

/// A ResNet classifier; see [`ResNetConfig`] for how to build one.
#[derive(Module, Debug)]
pub struct ResNet {
    /// 7×7 convolution with stride 2.
    pub conv1: Conv2d,
    /// Norm behind it.
    pub bn1: BatchNorm,
    /// First stage, 256 channels.
    pub layer1: Vec<Bottleneck>,
    /// Second stage, 512 channels.
    pub layer2: Vec<Bottleneck>,
    /// Third stage, 1024 channels.
    pub layer3: Vec<Bottleneck>,
    /// Fourth stage, 2048 channels.
    pub layer4: Vec<Bottleneck>,
    /// The linear layer on the averaged features.
    pub fc: Linear,
}

/// 1×1, 3×3 and 1×1 convolution around a shortcut.
#[derive(Module, Debug)]
pub struct Bottleneck {
    /// 1×1 convolution to the width.
    pub conv1: Conv2d,
    /// Norm behind it.
    pub bn1: BatchNorm,
    /// 3×3 convolution, with the stage's stride.
    pub conv2: Conv2d,
    /// Norm behind it.
    pub bn2: BatchNorm,
    /// 1×1 convolution to four times the width.
    pub conv3: Conv2d,
    /// Norm behind it.
    pub bn3: BatchNorm,
    /// The shortcut where the shape changes.
    pub downsample: Option<Downsample>,
}

/// A shortcut that changes channels and size.
#[derive(Module, Debug)]
pub struct Downsample {
    /// 1×1 convolution with the stage's stride.
    pub conv: Conv2d,
    /// Norm behind it.
    pub norm: BatchNorm,
}

impl Bottleneck {
    fn synchronised(self, sum_of_all: &SumOfAll) -> Self {
        Self {
            bn1: self.bn1.synchronised(sum_of_all),
            bn2: self.bn2.synchronised(sum_of_all),
            bn3: self.bn3.synchronised(sum_of_all),
            downsample: self.downsample.map(|shortcut| Downsample {
                norm: shortcut.norm.synchronised(sum_of_all),
                ..shortcut
            }),
            ..self
        }
    }

    /// `[batch, channels, height, width]` → `[batch, 4 · width, height / stride, width / stride]`.
    pub fn forward(&self, input: Tensor<4>) -> Tensor<4> {
        let shortcut = match &self.downsample {
            Some(downsample) => {
                let map = kernels::convolution(&downsample.conv, input.clone());
                downsample.norm.forward(map)
            }
            None => input.clone(),
        };
        let map = kernels::convolution(&self.conv1, input);
        let map = self.bn1.forward_relu(map, Pool::None);
        let map = kernels::convolution(&self.conv2, map);
        let map = self.bn2.forward_relu(map, Pool::None);
        let map = self.bn3.forward(kernels::convolution(&self.conv3, map));
        relu(map + shortcut)
    }
}

impl Classifier for ResNet {
    const CLASSIFIER: &'static str = "fc";

    fn features(&self, images: Tensor<4>) -> Tensor<4> {
        let stem = kernels::convolution(&self.conv1, images);
        let stem = self.bn1.forward_relu(stem, Pool::Maximum);
        [&self.layer1, &self.layer2, &self.layer3, &self.layer4]
            .into_iter()
            .flatten()
            .fold(stem, |map, block| block.forward(map))
    }

    fn classifier(&self) -> &Linear {
        &self.fc
    }

    fn synchronised(self, sum_of_all: &SumOfAll) -> Self {
        let of_all = |stage: Vec<Bottleneck>| {
            let blocks = stage.into_iter();
            blocks.map(|b| b.synchronised(sum_of_all)).collect()
        };
        Self {
            bn1: self.bn1.synchronised(sum_of_all),
            layer1: of_all(self.layer1),
            layer2: of_all(self.layer2),
            layer3: of_all(self.layer3),
            layer4: of_all(self.layer4),
            ..self
        }
    }

    fn torchvision_key(path: &str) -> String {
        path.replace(".downsample.conv.", ".downsample.0.")
            .replace(".downsample.norm.", ".downsample.1.")
    }
}
