//! DenseNet-BC (Huang et al., arXiv 1608.06993) as torchvision builds it.

use burn::module::Module;
use burn::nn::Linear;
use burn::nn::conv::Conv2d;
use burn::tensor::{Device, Tensor};

use super::init::{Fan, convolution, linear};
use super::{Classifier, number_from_one};
use crate::kernels::{self, Pool};
use crate::norm::{BatchNorm, EPSILON, SumOfAll};

/// Shape of a DenseNet.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use burn_chexnet::model::{Classifier, DenseNetConfig, parameter_count};
///
/// let device = Device::flex();
/// let model = DenseNetConfig::densenet121().init(&device);
/// assert_eq!(parameter_count(&model), 6_968_206);
/// let logits = model.logits(Tensor::zeros([1, 3, 64, 64], &device));
/// assert_eq!(logits.dims(), [1, 14]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct DenseNetConfig {
    /// Channels that each layer adds (k in the paper).
    pub growth_rate: usize,
    /// Layers in each dense block.
    pub blocks: Vec<usize>,
    /// Channels out of the first convolution.
    pub initial_channels: usize,
    /// The bottleneck of a layer has this many times the growth rate.
    pub bottleneck: usize,
    /// Channels of the images, 1 or 3.
    pub in_channels: usize,
    /// Logits.
    pub outputs: usize,
    /// What the norms add to the variance: 1e-5 as in PyTorch.
    pub norm_epsilon: f64,
}

impl DenseNetConfig {
    fn new(growth_rate: usize, blocks: [usize; 4], initial_channels: usize) -> Self {
        Self {
            growth_rate,
            blocks: blocks.to_vec(),
            initial_channels,
            bottleneck: 4,
            in_channels: 3,
            outputs: 14,
            norm_epsilon: EPSILON,
        }
    }

    /// DenseNet-121 with 3 channels and 14 outputs: 6,968,206 parameters.
    pub fn densenet121() -> Self {
        Self::new(32, [6, 12, 24, 16], 64)
    }

    /// DenseNet-161 with 3 channels and 14 outputs.
    pub fn densenet161() -> Self {
        Self::new(48, [6, 12, 36, 24], 96)
    }

    /// DenseNet-169 with 3 channels and 14 outputs.
    pub fn densenet169() -> Self {
        Self::new(32, [6, 12, 32, 32], 64)
    }

    /// DenseNet-201 with 3 channels and 14 outputs.
    pub fn densenet201() -> Self {
        Self::new(32, [6, 12, 48, 32], 64)
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

    /// Builds the network with torchvision's initialisation (He-normal convolutions, linear
    /// weights uniform in ±1/√channels, zero bias). Seed the device before for a fixed start.
    pub fn init(&self, device: &Device) -> DenseNet {
        let mut channels = self.initial_channels;
        let mut denseblocks = Vec::with_capacity(self.blocks.len());
        let mut transitions = Vec::new();
        for (index, &layers) in self.blocks.iter().enumerate() {
            let block = DenseBlock {
                layers: (0..layers)
                    .map(|layer| self.layer(channels + layer * self.growth_rate, device))
                    .collect(),
            };
            denseblocks.push(block);
            channels += layers * self.growth_rate;
            if index + 1 < self.blocks.len() {
                transitions.push(Transition {
                    norm: self.norm(channels, device),
                    conv: convolution([channels, channels / 2], 1, 1, Fan::In, device),
                });
                channels /= 2;
            }
        }
        DenseNet {
            features: DenseNetFeatures {
                conv0: convolution(
                    [self.in_channels, self.initial_channels],
                    7,
                    2,
                    Fan::In,
                    device,
                ),
                norm0: self.norm(self.initial_channels, device),
                denseblocks,
                transitions,
                norm5: self.norm(channels, device),
            },
            classifier: linear(channels, self.outputs, true, device),
        }
    }

    fn layer(&self, channels: usize, device: &Device) -> DenseLayer {
        let bottleneck = self.bottleneck * self.growth_rate;
        DenseLayer {
            norm1: self.norm(channels, device),
            conv1: convolution([channels, bottleneck], 1, 1, Fan::In, device),
            norm2: self.norm(bottleneck, device),
            conv2: convolution([bottleneck, self.growth_rate], 3, 1, Fan::In, device),
        }
    }
}

/// A DenseNet classifier; see [`DenseNetConfig`] for how to build one.
#[derive(Module, Debug)]
pub struct DenseNet {
    /// Everything before the classifier.
    pub features: DenseNetFeatures,
    /// The linear layer on the averaged features.
    pub classifier: Linear,
}

/// The convolutional part of a DenseNet.
#[derive(Module, Debug)]
pub struct DenseNetFeatures {
    /// 7×7 convolution with stride 2.
    pub conv0: Conv2d,
    /// Norm behind it, before a 3×3 maximum with stride 2.
    pub norm0: BatchNorm,
    /// The dense blocks.
    pub denseblocks: Vec<DenseBlock>,
    /// A transition behind each block but the last.
    pub transitions: Vec<Transition>,
    /// Norm behind the last block.
    pub norm5: BatchNorm,
}

/// Layers each of which sees the outputs of all before it.
#[derive(Module, Debug)]
pub struct DenseBlock {
    /// The layers.
    pub layers: Vec<DenseLayer>,
}

/// Norm, ReLU, 1×1 convolution to the bottleneck; norm, ReLU, 3×3 convolution to the growth rate.
#[derive(Module, Debug)]
pub struct DenseLayer {
    /// Norm over all channels so far.
    pub norm1: BatchNorm,
    /// 1×1 convolution to the bottleneck.
    pub conv1: Conv2d,
    /// Norm over the bottleneck.
    pub norm2: BatchNorm,
    /// 3×3 convolution to the growth rate.
    pub conv2: Conv2d,
}

/// A mean over 2×2 pixels behind norm and ReLU, then a 1×1 convolution: halves the channels, the height and the
/// width between two blocks. (The paper has the mean behind the convolution, with which it commutes: here that has a
/// quarter of the pixels.)
#[derive(Module, Debug)]
pub struct Transition {
    /// Norm over the block's channels.
    pub norm: BatchNorm,
    /// 1×1 convolution to half of them.
    pub conv: Conv2d,
}

impl DenseLayer {
    /// The layer's new channels, `[batch, growth_rate, height, width]`.
    pub fn forward(&self, input: Tensor<4>) -> Tensor<4> {
        let bottleneck = self.norm1.forward_relu(input, Pool::None);
        let bottleneck = kernels::convolution(&self.conv1, bottleneck);
        let bottleneck = self.norm2.forward_relu(bottleneck, Pool::None);
        kernels::convolution(&self.conv2, bottleneck)
    }
}

impl DenseBlock {
    fn synchronised(self, sum_of_all: &SumOfAll) -> Self {
        let layers = self.layers.into_iter().map(|layer| DenseLayer {
            norm1: layer.norm1.synchronised(sum_of_all),
            norm2: layer.norm2.synchronised(sum_of_all),
            ..layer
        });
        Self {
            layers: layers.collect(),
        }
    }

    /// `input` with the channels of every layer behind it.
    pub fn forward(&self, input: Tensor<4>) -> Tensor<4> {
        #[cfg(feature = "flex")]
        if kernels::serve(&input) && self.is_known_to_kernels(&input) {
            return self.forward_in_place(input);
        }
        self.layers.iter().fold(input, |features, layer| {
            let new = layer.forward(features.clone());
            Tensor::cat(vec![features, new], 1)
        })
    }
}

impl Transition {
    fn synchronised(self, sum_of_all: &SumOfAll) -> Self {
        Self {
            norm: self.norm.synchronised(sum_of_all),
            ..self
        }
    }

    /// `[batch, channels, height, width]` → `[batch, channels / 2, height / 2, width / 2]`.
    pub fn forward(&self, input: Tensor<4>) -> Tensor<4> {
        kernels::convolution(&self.conv, self.norm.forward_relu(input, Pool::Mean))
    }
}

impl Classifier for DenseNet {
    const CLASSIFIER: &'static str = "classifier";

    fn features(&self, images: Tensor<4>) -> Tensor<4> {
        let features = &self.features;
        let stem = kernels::convolution(&features.conv0, images);
        let mut map = features.norm0.forward_relu(stem, Pool::Maximum);
        for (index, block) in features.denseblocks.iter().enumerate() {
            map = block.forward(map);
            if let Some(transition) = features.transitions.get(index) {
                map = transition.forward(map);
            }
        }
        features.norm5.forward_relu(map, Pool::None)
    }

    fn classifier(&self) -> &Linear {
        &self.classifier
    }

    fn synchronised(self, sum_of_all: &SumOfAll) -> Self {
        let features = self.features;
        let blocks = features.denseblocks.into_iter();
        let transitions = features.transitions.into_iter();
        Self {
            features: DenseNetFeatures {
                norm0: features.norm0.synchronised(sum_of_all),
                denseblocks: blocks.map(|b| b.synchronised(sum_of_all)).collect(),
                transitions: transitions.map(|t| t.synchronised(sum_of_all)).collect(),
                norm5: features.norm5.synchronised(sum_of_all),
                ..features
            },
            ..self
        }
    }

    fn torchvision_key(path: &str) -> String {
        number_from_one(
            path,
            &[
                ("denseblocks", "denseblock"),
                ("layers", "denselayer"),
                ("transitions", "transition"),
            ],
        )
    }
}
