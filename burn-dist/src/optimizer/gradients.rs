//! What is done to all gradients of a step at once.

use std::collections::HashSet;

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{ExecutionError, Tensor};

/// Multiplies every gradient of `model` by `factor`.
pub fn scale<M: Module>(model: &M, gradients: GradientsParams, factor: f64) -> GradientsParams {
    let mut visitor = Scale {
        gradients,
        scaled: GradientsParams::new(),
        factor,
    };
    model.visit(&mut visitor);
    visitor.scaled
}

/// Scales all gradients of `model` down so that their common L2 norm is at most `largest`, as
/// `torch.nn.utils.clip_grad_norm_`; returns them and their norm before.
///
/// The direction of the step is kept, unlike with a limit on each parameter.
///
/// ```
/// use burn::nn::LinearConfig;
/// use burn::optim::GradientsParams;
/// use burn::tensor::{Device, Tensor};
/// use burn_dist::optimizer::clip_norm;
///
/// let device = Device::flex().autodiff();
/// let model = LinearConfig::new(4, 1).with_bias(false).init(&device);
/// let loss = model.forward(Tensor::<2>::ones([1, 4], &device)).sum();
/// let gradients = GradientsParams::from_grads(loss.backward(), &model); // four ones
/// let (clipped, norm) = clip_norm(&model, gradients, 1.0)?;
/// assert_eq!(norm, 2.0);
/// let clipped = clipped.get::<2>(model.weight.id).map(|gradient| gradient.sum().into_scalar::<f32>());
/// assert!((clipped.unwrap_or(0.0) - 2.0).abs() < 1e-5); // four halves
/// # Ok::<(), burn::tensor::ExecutionError>(())
/// ```
///
/// # Errors
///
/// If the device failed.
pub fn clip_norm<M: Module>(
    model: &M,
    gradients: GradientsParams,
    largest: f64,
) -> Result<(GradientsParams, f64), ExecutionError> {
    /// PyTorch's guard against a division by zero.
    const GUARD: f64 = 1e-6;
    let mut visitor = SumsOfSquares {
        gradients: &gradients,
        seen: HashSet::new(),
        sums: Vec::new(),
    };
    model.visit(&mut visitor);
    if visitor.sums.is_empty() {
        return Ok((gradients, 0.0));
    }
    // One read for all parameters: on a GPU each would wait for the device.
    let sums = Tensor::cat(visitor.sums, 0).try_into_data()?;
    let norm = sums.iter::<f64>().sum::<f64>().sqrt();
    let factor = largest / (norm + GUARD);
    let clipped = match factor < 1.0 {
        true => scale(model, gradients, factor),
        false => gradients,
    };
    Ok((clipped, norm))
}

struct Scale {
    gradients: GradientsParams,
    scaled: GradientsParams,
    factor: f64,
}

impl ModuleVisitor for Scale {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.remove::<D>(param.id) {
            self.scaled
                .register(param.id, gradient.mul_scalar(self.factor));
        }
    }
}

struct SumsOfSquares<'a> {
    gradients: &'a GradientsParams,
    /// A parameter that two layers share has one gradient.
    seen: HashSet<ParamId>,
    sums: Vec<Tensor<1>>,
}

impl ModuleVisitor for SumsOfSquares<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.seen.insert(param.id)
            && let Some(gradient) = self.gradients.get::<D>(param.id)
        {
            self.sums.push(gradient.square().sum());
        }
    }
}
