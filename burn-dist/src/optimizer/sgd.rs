//! Stochastic gradient descent with momentum.

use burn::optim::{LearningRate, Optimizer, RecordState, StateSink, StateSource};
use burn::tensor::{Device, Tensor};

use super::adam::stored;

/// Stochastic gradient descent as `torch.optim.SGD` computes it, without dampening.
///
/// ```
/// use burn::optim::ModuleOptimizer;
/// use burn_dist::optimizer::Sgd;
/// let optimizer = ModuleOptimizer::from(Sgd {
///     momentum: 0.9,
///     nesterov: true,
///     weight_decay: 1e-4,
/// });
/// # let _ = optimizer;
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sgd {
    /// Share of the last step's velocity that is kept; 0 for none.
    pub momentum: f64,
    /// Whether to look ahead along the velocity (Sutskever et al., ICML 2013).
    pub nesterov: bool,
    /// This times the weights is added to the gradient.
    pub weight_decay: f64,
}

/// What SGD keeps of a parameter.
#[derive(Clone, Debug)]
pub struct SgdState<const D: usize> {
    /// The decaying sum of gradients.
    pub velocity: Tensor<D>,
}

// By hand: Burn's derive only works inside Burn.
impl<const D: usize> RecordState for SgdState<D> {
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        out.push_tensor(prefix, "velocity", self.velocity.to_data());
    }

    fn state_unflatten(prefix: &str, source: &mut StateSource, device: &Device) -> Option<Self> {
        let velocity = source.take_tensor(prefix, "velocity")?;
        Some(Self {
            velocity: stored(velocity, device),
        })
    }
}

impl Optimizer for Sgd {
    type State<const D: usize> = SgdState<D>;

    fn step<const D: usize>(
        &self,
        learning_rate: LearningRate,
        parameter: Tensor<D>,
        gradient: Tensor<D>,
        state: Option<SgdState<D>>,
    ) -> (Tensor<D>, Option<SgdState<D>>) {
        let gradient = match self.weight_decay {
            0.0 => gradient,
            decay => gradient + parameter.clone().mul_scalar(decay),
        };
        if self.momentum == 0.0 {
            return (parameter - gradient.mul_scalar(learning_rate), None);
        }
        let velocity = match state {
            None => gradient.clone(),
            Some(state) => state.velocity.mul_scalar(self.momentum) + gradient.clone(),
        };
        let step = match self.nesterov {
            true => gradient + velocity.clone().mul_scalar(self.momentum),
            false => velocity.clone(),
        };
        let parameter = parameter - step.mul_scalar(learning_rate);
        (parameter, Some(SgdState { velocity }))
    }

    fn to_device<const D: usize>(state: SgdState<D>, device: &Device) -> SgdState<D> {
        SgdState {
            velocity: state.velocity.to_device(device),
        }
    }
}
