//! Batch normalisation as PyTorch computes and stores it.
//!
//! Burn's own layer keeps the *biased* batch variance in its running statistics; PyTorch keeps
//! the *unbiased* one. Weights that travel between the two only agree in evaluation when the
//! stored statistics mean the same, so the model uses this layer. It may use `kernels`, and may not
//! know the model.

use std::fmt::{Debug, Formatter};
use std::sync::Arc;

use burn::module::{Flag, Module, Param, RunningState};
use burn::tensor::module::{batch_norm, batch_norm_train};
use burn::tensor::{Device, Tensor};

#[cfg(feature = "flex")]
use crate::kernels::NormWeights;
use crate::kernels::{self, Pool};

/// Momentum of the running statistics, PyTorch's default.
pub const MOMENTUM: f64 = 0.1;
/// Added to the variance, PyTorch's default.
pub const EPSILON: f64 = 1e-5;

/// Sums over all processes that train a model together: the values that it is given, `[count]`, of each of them. The
/// gradient of such a sum is the sum of the gradients of all.
#[derive(Clone)]
pub struct SumOfAll(Arc<Sum>);

type Sum = dyn Fn(Tensor<1>) -> Tensor<1> + Send + Sync;

impl SumOfAll {
    /// What `sum` does, which all processes call in the same order.
    pub fn new(sum: impl Fn(Tensor<1>) -> Tensor<1> + Send + Sync + 'static) -> Self {
        Self(Arc::new(sum))
    }
}

impl Debug for SumOfAll {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("SumOfAll")
    }
}

/// Batch normalisation over the channels of `[batch, channels, height, width]`
/// (Ioffe and Szegedy, arXiv 1502.03167).
///
/// On an autodiff device with `training` enabled it normalises with the statistics of the batch
/// and moves the running ones towards them; otherwise it normalises with the running ones.
/// `weight`, `bias`, `running_mean` and `running_var` carry PyTorch's names.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use burn_chexnet::norm::BatchNorm;
///
/// let device = Device::flex();
/// let norm = BatchNorm::new(8, &device);
/// let output = norm.forward(Tensor::<4>::ones([2, 8, 4, 4], &device));
/// assert_eq!(output.dims(), [2, 8, 4, 4]);
/// ```
#[derive(Module, Debug)]
pub struct BatchNorm {
    /// Scale, `[channels]`, one at the start.
    pub weight: Param<Tensor<1>>,
    /// Shift, `[channels]`, zero at the start.
    pub bias: Param<Tensor<1>>,
    /// Whether the layer takes part in training; disabled by freezing it.
    pub training: Param<Flag>,
    /// Running mean, `[channels]`.
    pub running_mean: RunningState<Tensor<1>>,
    /// Running **unbiased** variance, `[channels]`.
    pub running_var: RunningState<Tensor<1>>,
    /// Share of the batch in each update of the running statistics.
    pub momentum: f64,
    /// Added to the variance before the square root.
    pub epsilon: f64,
    /// Where a batch is shared by processes: what makes its statistics those of all of it.
    #[module(skip)]
    sum_of_all: Option<SumOfAll>,
}

impl BatchNorm {
    /// A layer over `channels` channels with PyTorch's defaults.
    pub fn new(channels: usize, device: &Device) -> Self {
        Self {
            weight: Param::from_tensor(Tensor::ones([channels], device)),
            bias: Param::from_tensor(Tensor::zeros([channels], device)),
            training: Param::from_bool(true),
            running_mean: RunningState::new(Tensor::zeros([channels], device)),
            running_var: RunningState::new(Tensor::ones([channels], device)),
            momentum: MOMENTUM,
            epsilon: EPSILON,
            sum_of_all: None,
        }
    }

    /// The same layer with another epsilon than PyTorch's: what is added to the variance.
    pub fn with_epsilon(self, epsilon: f64) -> Self {
        Self { epsilon, ..self }
    }

    /// The same layer with the statistics of the batches of all processes together in training (what PyTorch calls
    /// `SyncBatchNorm`): two sums in each forward pass and two in each backward pass.
    pub fn synchronised(self, sum_of_all: &SumOfAll) -> Self {
        Self {
            sum_of_all: Some(sum_of_all.clone()),
            ..self
        }
    }

    /// Normalises `input`, `[batch, channels, height, width]`; the shape is kept.
    ///
    /// A batch with a single value per channel has no unbiased variance; its mean is still
    /// learnt and the running variance stays as it is. (PyTorch refuses such a batch.)
    ///
    /// # Panics
    ///
    /// If the second axis is not the number of channels of the layer.
    pub fn forward(&self, input: Tensor<4>) -> Tensor<4> {
        self.forward_then(input, false, Pool::None)
    }

    /// The ReLU of [`forward`](Self::forward), pooled: with kernels in one operation, which does not keep what is
    /// between.
    ///
    /// # Panics
    ///
    /// As [`forward`](Self::forward).
    pub fn forward_relu(&self, input: Tensor<4>, pool: Pool) -> Tensor<4> {
        self.forward_then(input, true, pool)
    }

    fn forward_then(&self, input: Tensor<4>, with_relu: bool, pool: Pool) -> Tensor<4> {
        let of_batch = self.is_of_batch(&input);
        #[cfg(feature = "flex")]
        if kernels::serve(&input) && !(of_batch && self.is_synchronised()) {
            let values = values_per_channel(&input);
            let (output, used) = kernels::norm(input, self.weights(of_batch), with_relu, pool);
            if of_batch {
                self.learn(used.mean, used.variance, values);
            }
            return output;
        }
        let normalised = match &self.sum_of_all {
            _ if !of_batch => batch_norm(
                input,
                self.weight.val(),
                self.bias.val(),
                self.running_mean.value(),
                self.running_var.value(),
                self.epsilon,
            ),
            Some(sum_of_all) => self.forward_of_all(input, sum_of_all),
            None => self.forward_training(input),
        };
        kernels::plain_after(normalised, with_relu, pool)
    }

    /// Whether `input` is normalised with its own statistics, which are learnt.
    pub(crate) fn is_of_batch(&self, input: &Tensor<4>) -> bool {
        input.device().is_autodiff() && self.training.is_enabled()
    }

    /// Whether the statistics of a batch are those of the batches of all processes.
    #[cfg(feature = "flex")]
    pub(crate) fn is_synchronised(&self) -> bool {
        self.sum_of_all.is_some()
    }

    /// The layer as the kernels take it.
    #[cfg(feature = "flex")]
    pub(crate) fn weights(&self, of_batch: bool) -> NormWeights {
        NormWeights {
            weight: self.weight.val(),
            bias: self.bias.val(),
            running_mean: self.running_mean.value(),
            running_variance: self.running_var.value(),
            epsilon: self.epsilon,
            of_batch,
        }
    }

    fn forward_training(&self, input: Tensor<4>) -> Tensor<4> {
        let values = values_per_channel(&input);
        let result = batch_norm_train(input, self.weight.val(), self.bias.val(), self.epsilon);
        self.learn(result.mean, result.variance, values);
        result.output
    }

    /// Moves the running statistics towards those of a batch with so many `values` for each channel.
    pub(crate) fn learn(&self, mean: Tensor<1>, biased_variance: Tensor<1>, values: usize) {
        update(&self.running_mean, mean, self.momentum);
        if values > 1 {
            let unbiased = values as f64 / (values - 1) as f64;
            let variance = biased_variance.mul_scalar(unbiased);
            update(&self.running_var, variance, self.momentum);
        }
    }

    /// With the mean and then the variance of all processes: the difference of large sums of squares would lose bits.
    fn forward_of_all(&self, input: Tensor<4>, sum_of_all: &SumOfAll) -> Tensor<4> {
        let [batch, channels, height, width] = input.dims();
        let by_channel = |values: Tensor<4>| {
            let sums = values.sum_dim(0).sum_dim(2).sum_dim(3);
            sums.reshape([channels])
        };
        let over_all = |values: Tensor<1>| values.reshape([1, channels, 1, 1]);

        let own = (batch * height * width) as f64;
        let own = Tensor::zeros([1], &input.device()).add_scalar(own);
        let sums = Tensor::cat(vec![by_channel(input.clone()), own], 0);
        let sums = (sum_of_all.0)(sums);
        // The number of values has no gradient.
        let values = sums.clone().narrow(0, channels, 1).detach();
        let mean = sums.narrow(0, 0, channels) / values.clone();
        let centred = input - over_all(mean.clone());
        let squares = (sum_of_all.0)(by_channel(centred.clone().square()));
        let variance = squares.clone() / values.clone();
        update(&self.running_mean, mean, self.momentum);
        let unbiased = squares.detach() / values.sub_scalar(1.0).clamp_min(1.0);
        update(&self.running_var, unbiased, self.momentum);

        let scale = self.weight.val() * variance.add_scalar(self.epsilon).sqrt().recip();
        centred * over_all(scale) + over_all(self.bias.val())
    }
}

/// Values of each channel in a batch.
pub(crate) fn values_per_channel(input: &Tensor<4>) -> usize {
    let [batch, _, height, width] = input.dims();
    batch * height * width
}

/// `state ← (1 − momentum) · state + momentum · batch`.
fn update(state: &RunningState<Tensor<1>>, batch: Tensor<1>, momentum: f64) {
    let moved = state
        .value_sync()
        .mul_scalar(1.0 - momentum)
        .add(batch.detach().mul_scalar(momentum));
    state.update(moved.detach());
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use burn::tensor::TensorData;

    /// Two images of one channel, 2×1 pixels: 1, 3, 5, 7. Mean 4, biased variance 5,
    /// unbiased 20/3 (closed form, and what torch.nn.BatchNorm2d stores).
    fn input(device: &Device) -> Tensor<4> {
        Tensor::from_data(
            TensorData::new(vec![1.0f32, 3.0, 5.0, 7.0], [2, 1, 2, 1]),
            device,
        )
    }

    fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
        tensor.into_data().try_to_vec().unwrap()
    }

    /// A batch in one process, of whose statistics there are no others.
    #[test]
    fn statistics_of_all_are_those_of_the_batch_where_there_is_one_process() {
        let device = Device::flex().autodiff();
        let alone = BatchNorm::new(1, &device);
        let of_all = BatchNorm::new(1, &device).synchronised(&SumOfAll::new(|own| own));
        let [(one, gradient), (other, same)] = [&alone, &of_all].map(|norm| {
            let input = input(&device).require_grad();
            let output = norm.forward(input.clone());
            // Not the sum, whose gradient is zero.
            let gradients = output.clone().powi_scalar(3).sum().backward();
            (values(output), values(input.grad(&gradients).unwrap()))
        });
        let pairs = one.iter().chain(&gradient).zip(other.iter().chain(&same));
        for (one, other) in pairs {
            assert!((one - other).abs() < 1e-5, "{one} {other}");
        }
        let state = |norm: &BatchNorm| {
            let [mean, variance] = [&norm.running_mean, &norm.running_var];
            [mean, variance].map(|state| values(state.value_sync())[0])
        };
        let apart: f32 = (0..2)
            .map(|i| (state(&alone)[i] - state(&of_all)[i]).abs())
            .sum();
        assert!(apart < 1e-6, "{:?} {:?}", state(&alone), state(&of_all));
    }

    fn assert_close(found: Vec<f32>, expected: [f32; 4]) {
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
    }

    #[test]
    fn running_variance_is_unbiased() {
        let device = Device::flex().autodiff();
        let norm = BatchNorm::new(1, &device);
        norm.forward(input(&device));
        let mean = values(norm.running_mean.value_sync())[0];
        assert!((mean - 0.4).abs() < 1e-6, "{mean}");
        let variance = values(norm.running_var.value_sync())[0];
        assert!(
            (variance - (0.9 + 0.1 * 20.0 / 3.0)).abs() < 1e-6,
            "{variance}"
        );
    }

    #[test]
    fn training_output_is_normalised_with_the_biased_variance() {
        let device = Device::flex().autodiff();
        let output = BatchNorm::new(1, &device).forward(input(&device));
        let deviation = (5.0f32 + EPSILON as f32).sqrt();
        assert_close(
            values(output),
            [-3.0, -1.0, 1.0, 3.0].map(|v| v / deviation),
        );
    }

    #[test]
    fn evaluation_uses_and_keeps_the_running_statistics() {
        let device = Device::flex();
        let norm = BatchNorm::new(1, &device);
        let output = norm.forward(input(&device));
        let scale = 1.0 / (1.0f32 + EPSILON as f32).sqrt();
        assert_close(values(output), [1.0, 3.0, 5.0, 7.0].map(|v| v * scale));
        assert_eq!(values(norm.running_mean.value_sync()), [0.0]);
    }

    #[test]
    fn frozen_layer_does_not_learn_statistics() {
        let device = Device::flex().autodiff();
        let norm = BatchNorm::new(1, &device).freeze();
        norm.forward(input(&device));
        assert_eq!(values(norm.running_mean.value_sync()), [0.0]);
    }

    #[test]
    fn one_value_per_channel_leaves_a_finite_variance() {
        let device = Device::flex().autodiff();
        let norm = BatchNorm::new(1, &device);
        norm.forward(Tensor::ones([1, 1, 1, 1], &device));
        assert_eq!(values(norm.running_var.value_sync()), [1.0]);
    }
}
