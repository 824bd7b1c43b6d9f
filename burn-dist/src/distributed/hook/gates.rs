//! A model with a gate behind each parameter.

use std::fmt::{Debug, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use burn::backend::{Dispatch, DispatchTensor};
use burn::module::{Module, ModuleMapper, Param, ParamId};
use burn::tensor::{Device, Tensor};

use super::gate::{GradientGate, OnGradient};
use super::ruler::Ruler;

/// Takes the gradient of a parameter.
type Take = Arc<dyn Fn(ParamId, DispatchTensor) + Send + Sync>;

/// Makes gated copies of a model.
pub(in crate::distributed) struct Gates {
    ruler: Arc<Ruler>,
    take: Take,
}

impl Gates {
    /// Gates for a model on `device`, which has autodiff. `take` gets each gradient, without its shape, once.
    pub fn new(
        device: &Device,
        take: impl Fn(ParamId, DispatchTensor) + Send + Sync + 'static,
    ) -> Self {
        Self {
            ruler: Arc::new(Ruler::new(device)),
            take: Arc::new(take),
        }
    }

    /// A copy for one forward and one backward pass. It shares numbers and running statistics with `model`; its
    /// parameters get no gradients.
    pub fn gate<M: Module>(&self, model: &M) -> M {
        model.clone().map(&mut Gating {
            gates: self,
            used: Arc::default(),
        })
    }
}

impl Debug for Gates {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gates").finish_non_exhaustive()
    }
}

struct Gating<'a> {
    gates: &'a Gates,
    /// Parameters that the forward pass has used so far.
    used: Arc<AtomicUsize>,
}

impl ModuleMapper for Gating<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let value = param.base();
        if !value.is_require_grad() {
            // Frozen, or a running statistic.
            return param;
        }
        let id = param.id;
        let (device, shape) = (value.device(), value.shape());
        let (ruler, take) = (self.gates.ruler.clone(), self.gates.take.clone());
        let used = self.used.clone();
        // Made when it is first used: so its mark follows the forward pass, and not the fields of the model.
        let gate = move |_: &Device, _: bool| {
            let mark = ruler.mark(used.fetch_add(1, Ordering::Relaxed));
            let take = OnGradient::new(move |gradient| take(id, gradient));
            Tensor::from_dispatch(Dispatch::gate(
                value.into_dispatch(),
                mark.into_dispatch(),
                take,
            ))
        };
        Param::uninitialized(id, gate, device, true, shape)
    }
}
