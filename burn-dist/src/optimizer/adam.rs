//! Adam and AdamW.

use burn::optim::{LearningRate, Optimizer, RecordState, StateSink, StateSource};
use burn::tensor::{Device, Tensor, TensorData};

/// How weights are kept small.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WeightDecay {
    /// λ times the weights is added to the gradient: `torch.optim.Adam(weight_decay=λ)`.
    Gradient(f64),
    /// The weights are multiplied by 1 − learning rate · λ: `torch.optim.AdamW(weight_decay=λ)`
    /// (Loshchilov and Hutter, arXiv 1711.05101).
    Decoupled(f64),
}

/// Adam (Kingma and Ba, arXiv 1412.6980) as `torch.optim.Adam` and `AdamW` compute it.
///
/// ```
/// use burn::nn::LinearConfig;
/// use burn::optim::{GradientsParams, ModuleOptimizer};
/// use burn::tensor::{Device, Tensor};
/// use burn_dist::optimizer::Adam;
///
/// let device = Device::flex().autodiff();
/// let model = LinearConfig::new(4, 1).init(&device);
/// let loss = model.forward(Tensor::<2>::ones([2, 4], &device)).mean();
/// let gradients = GradientsParams::from_grads(loss.backward(), &model);
/// let mut optimizer = ModuleOptimizer::from(Adam::default());
/// let model = optimizer.step(1e-3, model, gradients);
/// # let _ = model;
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Adam {
    /// Decay of the mean of gradients.
    pub beta_1: f64,
    /// Decay of the mean of squared gradients.
    pub beta_2: f64,
    /// Added to the root of the mean of squares.
    pub epsilon: f64,
    /// How weights are kept small.
    pub weight_decay: WeightDecay,
}

impl Default for Adam {
    /// PyTorch's: β 0.9 and 0.999, ε 1e-8, no weight decay.
    fn default() -> Self {
        Self {
            beta_1: 0.9,
            beta_2: 0.999,
            epsilon: 1e-8,
            weight_decay: WeightDecay::Gradient(0.0),
        }
    }
}

/// What Adam keeps of a parameter.
#[derive(Clone, Debug)]
pub struct AdamState<const D: usize> {
    /// Steps so far.
    pub steps: usize,
    /// Mean of gradients.
    pub mean: Tensor<D>,
    /// Mean of squared gradients.
    pub mean_of_squares: Tensor<D>,
}

// By hand: Burn's derive only works inside Burn.
impl<const D: usize> RecordState for AdamState<D> {
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        out.push_scalar(prefix, "steps", self.steps.into());
        out.push_tensor(prefix, "mean", self.mean.to_data());
        out.push_tensor(prefix, "mean_of_squares", self.mean_of_squares.to_data());
    }

    fn state_unflatten(prefix: &str, source: &mut StateSource, device: &Device) -> Option<Self> {
        let steps = source.take_scalar(prefix, "steps")?;
        let mean = source.take_tensor(prefix, "mean")?;
        let mean_of_squares = source.take_tensor(prefix, "mean_of_squares")?;
        Some(Self {
            steps: steps.try_into().ok()?,
            mean: stored(mean, device),
            mean_of_squares: stored(mean_of_squares, device),
        })
    }
}

/// A tensor of a state, in the type that it was stored in.
pub(super) fn stored<const D: usize>(data: TensorData, device: &Device) -> Tensor<D> {
    let dtype = data.dtype();
    Tensor::from_data(data, (device, dtype))
}

impl Optimizer for Adam {
    type State<const D: usize> = AdamState<D>;

    fn step<const D: usize>(
        &self,
        learning_rate: LearningRate,
        parameter: Tensor<D>,
        gradient: Tensor<D>,
        state: Option<AdamState<D>>,
    ) -> (Tensor<D>, Option<AdamState<D>>) {
        let (parameter, gradient) = match self.weight_decay {
            WeightDecay::Gradient(0.0) | WeightDecay::Decoupled(0.0) => (parameter, gradient),
            WeightDecay::Gradient(decay) => {
                let gradient = gradient + parameter.clone().mul_scalar(decay);
                (parameter, gradient)
            }
            WeightDecay::Decoupled(decay) => {
                (parameter.mul_scalar(1.0 - learning_rate * decay), gradient)
            }
        };
        let new = gradient.clone().mul_scalar(1.0 - self.beta_1);
        let new_square = gradient.square().mul_scalar(1.0 - self.beta_2);
        let state = match state {
            None => AdamState {
                steps: 1,
                mean: new,
                mean_of_squares: new_square,
            },
            Some(state) => AdamState {
                steps: state.steps + 1,
                mean: state.mean.mul_scalar(self.beta_1) + new,
                mean_of_squares: state.mean_of_squares.mul_scalar(self.beta_2) + new_square,
            },
        };
        // Both means begin at zero; these divide out what is missing of them.
        let steps = state.steps as f64;
        let correction_1 = 1.0 - self.beta_1.powf(steps);
        let correction_2 = 1.0 - self.beta_2.powf(steps);
        let deviation = state
            .mean_of_squares
            .clone()
            .sqrt()
            .div_scalar(correction_2.sqrt())
            .add_scalar(self.epsilon);
        let step = state.mean.clone() / deviation;
        let parameter = parameter - step.mul_scalar(learning_rate / correction_1);
        (parameter, Some(state))
    }

    fn to_device<const D: usize>(state: AdamState<D>, device: &Device) -> AdamState<D> {
        AdamState {
            steps: state.steps,
            mean: state.mean.to_device(device),
            mean_of_squares: state.mean_of_squares.to_device(device),
        }
    }
}
