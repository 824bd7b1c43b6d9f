//! Pools that follow a norm.

use burn::nn::PaddingConfig2d;
use burn::nn::pool::{AvgPool2dConfig, MaxPool2dConfig};
use burn::tensor::Tensor;

/// How pixels are pooled behind a norm and its ReLU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// Not at all.
    None,
    /// The mean of 2×2 pixels, two apart; a last odd row or column is left out.
    Mean,
    /// The maximum of 3×3 pixels, two apart, with a border of one.
    Maximum,
}

impl Pool {
    /// With Burn's own operations.
    pub(super) fn plain(self, input: Tensor<4>) -> Tensor<4> {
        match self {
            Self::None => input,
            Self::Mean => {
                let pool = AvgPool2dConfig::new([2, 2]).with_strides([2, 2]);
                pool.init().forward(input)
            }
            Self::Maximum => {
                let pool = MaxPool2dConfig::new([3, 3])
                    .with_strides([2, 2])
                    .with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1));
                pool.init().forward(input)
            }
        }
    }
}
