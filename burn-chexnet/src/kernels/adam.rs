//! Adam with a kernel.

use burn::optim::{LearningRate, Optimizer};
use burn::tensor::{Device, Tensor};
use burn_dist::optimizer::{Adam, AdamState, WeightDecay};

#[cfg(feature = "flex")]
use super::cpu::adam::AdamStep;

/// burn-dist's [`Adam`], with its state, in one pass over the memory where the backend has a kernel for it.
///
/// ```
/// use burn::nn::LinearConfig;
/// use burn::optim::{GradientsParams, ModuleOptimizer};
/// use burn::tensor::{Device, Tensor};
/// use burn_chexnet::kernels::FusedAdam;
/// use burn_dist::optimizer::Adam;
///
/// let device = Device::flex().autodiff();
/// let model = LinearConfig::new(4, 1).init(&device);
/// let loss = model.forward(Tensor::<2>::ones([2, 4], &device)).mean();
/// let gradients = GradientsParams::from_grads(loss.backward(), &model);
/// let mut optimizer = ModuleOptimizer::from(FusedAdam(Adam::default()));
/// let model = optimizer.step(1e-3, model, gradients);
/// # let _ = model;
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct FusedAdam(pub Adam);

impl Optimizer for FusedAdam {
    type State<const D: usize> = AdamState<D>;

    fn step<const D: usize>(
        &self,
        learning_rate: LearningRate,
        parameter: Tensor<D>,
        gradient: Tensor<D>,
        state: Option<AdamState<D>>,
    ) -> (Tensor<D>, Option<AdamState<D>>) {
        #[cfg(feature = "flex")]
        if super::serve(&parameter) && super::serve(&gradient) {
            let (device, shape) = (parameter.device(), parameter.shape());
            let state = state.unwrap_or_else(|| AdamState {
                steps: 0,
                mean: Tensor::zeros(shape.clone(), &device),
                mean_of_squares: Tensor::zeros(shape, &device),
            });
            let steps = state.steps + 1;
            let step = self.step_after(steps, learning_rate);
            let tensors = [parameter, gradient, state.mean, state.mean_of_squares];
            let [parameter, mean, mean_of_squares] = super::tensors::adam(tensors, step);
            let state = AdamState {
                steps,
                mean,
                mean_of_squares,
            };
            return (parameter, Some(state));
        }
        self.0.step(learning_rate, parameter, gradient, state)
    }

    fn to_device<const D: usize>(state: AdamState<D>, device: &Device) -> AdamState<D> {
        Adam::to_device(state, device)
    }
}

#[cfg(feature = "flex")]
impl FusedAdam {
    /// The step that is the `steps`-th, counted from one; all of it in 64 bit until it is complete.
    fn step_after(&self, steps: usize, learning_rate: LearningRate) -> AdamStep {
        let Adam {
            beta_1,
            beta_2,
            epsilon,
            weight_decay,
        } = self.0;
        let steps = steps as f64;
        let (decay, kept) = match weight_decay {
            WeightDecay::Gradient(decay) => (decay, 1.0),
            WeightDecay::Decoupled(decay) => (0.0, 1.0 - learning_rate * decay),
        };
        AdamStep {
            beta: [beta_1 as f32, beta_2 as f32],
            new: [(1.0 - beta_1) as f32, (1.0 - beta_2) as f32],
            rate: (learning_rate / (1.0 - beta_1.powf(steps))) as f32,
            root_correction: (1.0 / (1.0 - beta_2.powf(steps)).sqrt()) as f32,
            epsilon: epsilon as f32,
            decay: decay as f32,
            kept: kept as f32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values<const D: usize>(tensor: &Tensor<D>) -> Vec<f32> {
        tensor.to_data().iter::<f32>().collect()
    }

    #[test]
    fn a_course_of_steps_is_burn_dists() {
        let device = Device::flex();
        let random = |seed| {
            device.seed(seed);
            Tensor::<2>::random([70, 1003], burn::tensor::Distribution::Default, &device)
        };
        let decays = [
            WeightDecay::Gradient(0.0),
            WeightDecay::Gradient(0.1),
            WeightDecay::Decoupled(0.1),
        ];
        for weight_decay in decays {
            let adam = Adam {
                weight_decay,
                ..Adam::default()
            };
            let fused = FusedAdam(adam.clone());
            let start = random(1);
            let (mut one, mut other) = ((start.clone(), None), (start, None));
            for step in 0..5 {
                // Also one that does not lie in order, and one that is zero.
                let gradient = random(2 + step) - 0.5;
                let gradient = match step {
                    3 => random(9).reshape([1003, 70]).transpose(),
                    4 => gradient * 0.0,
                    _ => gradient,
                };
                one = adam.step(0.01, one.0, gradient.clone(), one.1);
                other = fused.step(0.01, other.0, gradient, other.1);
            }
            let pairs = values(&one.0);
            for (one, other) in pairs.iter().zip(values(&other.0)) {
                assert!(
                    (one - other).abs() < 1e-6,
                    "{weight_decay:?}: {one} {other}"
                );
            }
        }
    }

    #[test]
    fn what_others_hold_is_not_moved() {
        let device = Device::flex();
        let start = Tensor::<1>::ones([100], &device);
        let held = start.clone();
        let adam = FusedAdam(Adam::default());
        let (moved, state) = adam.step(0.1, start, Tensor::ones([100], &device), None);
        let mean = state.as_ref().map(|state| state.mean.clone());
        let (_, _) = adam.step(0.1, moved, Tensor::ones([100], &device), state);
        assert!(values(&held).iter().all(|value| *value == 1.0));
        let mean = mean.map(|mean| values(&mean)).unwrap_or_default();
        assert!(mean.iter().all(|value| (value - 0.1).abs() < 1e-6));
    }
}
