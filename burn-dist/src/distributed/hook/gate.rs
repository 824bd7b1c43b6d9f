//! The operation behind a parameter.

use std::fmt::{Debug, Formatter};
use std::sync::Arc;

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{
    Backend, BackendTensor, Dispatch, DispatchDevice, DispatchKindConversion, DispatchTensor,
    backend_extension,
};
use burn::tensor::Device;

/// What takes the complete gradient of a parameter, on the thread that runs the backward pass. It holds that up, and may
/// not touch a tensor of the same graph.
#[derive(Clone)]
pub struct OnGradient(Arc<dyn Fn(DispatchTensor) + Send + Sync>);

impl OnGradient {
    pub fn new(take: impl Fn(DispatchTensor) + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }
}

impl Debug for OnGradient {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnGradient")
    }
}

/// From the tensor of one backend to that of any. (A bound on [`DispatchTensor`] cannot be implied by [`GradientGate`].)
pub trait IntoAny: Backend {
    fn into_any(tensor: FloatTensor<Self>) -> DispatchTensor;
}

macro_rules! backends {
    ($($feature:literal: $backend:ident),*) => {
        $(
            #[cfg(feature = $feature)]
            impl IntoAny for burn::backend::$backend {
                fn into_any(tensor: FloatTensor<Self>) -> DispatchTensor {
                    <DispatchTensor as DispatchKindConversion<burn::backend::$backend>>::from_backend(
                        BackendTensor::Float(tensor),
                    )
                }
            }

            #[cfg(feature = $feature)]
            impl GradientGate for burn::backend::$backend {}
        )*

        /// Whether the backend of `device` is one of those that have these operations: on any other they panic.
        pub fn is_served(device: &Device) -> bool {
            match device.clone().inner().as_dispatch() {
                $(
                    #[cfg(feature = $feature)]
                    DispatchDevice::$backend(_) => true,
                )*
                _ => false,
            }
        }
    };
}

backends!("flex": Flex);

impl<B: IntoAny, C: CheckpointStrategy> IntoAny for Autodiff<B, C> {
    fn into_any(tensor: FloatTensor<Self>) -> DispatchTensor {
        B::into_any(tensor.into_primitive())
    }
}

impl IntoAny for Dispatch {
    fn into_any(tensor: FloatTensor<Self>) -> DispatchTensor {
        tensor
    }
}

/// Operations that change no number and have a place on autodiff's tape.
#[backend_extension(Autodiff, Flex: cfg(feature = "flex"))]
pub trait GradientGate: IntoAny {
    /// `parameter`, whose gradient goes to `take` and no further. `mark` gets no gradient; it is there for its depth.
    fn gate(
        parameter: FloatTensor<Self>,
        mark: FloatTensor<Self>,
        take: OnGradient,
    ) -> FloatTensor<Self> {
        let _ = (mark, take);
        parameter
    }

    /// `mark`, `levels` deeper.
    fn deepen(mark: FloatTensor<Self>, levels: usize) -> FloatTensor<Self> {
        let _ = levels;
        mark
    }
}

#[derive(Debug)]
struct Gate;

#[derive(Debug)]
struct Level;

impl<B: GradientGate> Backward<B, 2> for Gate {
    type State = OnGradient;

    fn backward(self, ops: Ops<Self::State, 2>, gradients: &mut Gradients, _: &mut Checkpointer) {
        // All that use the parameter lie deeper, so this is the whole sum.
        let gradient = gradients.consume::<B>(&ops.node);
        (ops.state.0)(B::into_any(gradient));
    }
}

impl<B: GradientGate> Backward<B, 1> for Level {
    type State = ();

    // A mark requires no gradient, so nothing comes here.
    fn backward(self, _: Ops<(), 1>, _: &mut Gradients, _: &mut Checkpointer) {}
}

impl<B: GradientGate, C: CheckpointStrategy> GradientGate for Autodiff<B, C> {
    fn gate(
        parameter: FloatTensor<Self>,
        mark: FloatTensor<Self>,
        take: OnGradient,
    ) -> FloatTensor<Self> {
        let nodes = [parameter.node(), mark.node()];
        let value = parameter.into_primitive();
        let prepared = <Gate as Backward<B, 2>>::prepare::<C>(Gate, nodes);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(tracked) => tracked.finish(take, value),
            OpsKind::UnTracked(untracked) => untracked.finish(value),
        }
    }

    fn deepen(mut mark: FloatTensor<Self>, levels: usize) -> FloatTensor<Self> {
        for _ in 0..levels {
            let node = mark.node();
            let value = mark.into_primitive();
            let prepared = <Level as Backward<B, 1>>::prepare::<C>(Level, [node]);
            mark = match prepared.compute_bound().stateful() {
                OpsKind::Tracked(tracked) => tracked.finish((), value),
                OpsKind::UnTracked(untracked) => untracked.finish(value),
            };
        }
        mark
    }
}
