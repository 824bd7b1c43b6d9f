//! Sums over all ranks within a model: of values in its forward pass, of their gradients in its backward pass.
//!
//! What a model needs whose output for a sample depends on the samples of other ranks, as that of a synchronised batch
//! normalisation. Knows no model.

use std::fmt::{Debug, Formatter};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind, unary};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Dispatch, TensorMetadata, backend_extension};
use burn::tensor::{DType, Tensor, TensorData};
use burn_dist_core::World;
use burn_dist_core::collective::Reduction;

use super::DistributedError;
use super::hook::IntoAny;

/// Sums over the ranks of a world, for the passes of a model; clones are one.
///
/// [`DataParallelConfig::sums_over_ranks`](super::DataParallelConfig::sums_over_ranks) makes one. All ranks have to do
/// the same sums in the same order, so every rank needs data for every step. A sum that fails leaves its values as they
/// are, and [`DataParallel::reduce`](super::DataParallel::reduce) says why.
#[derive(Clone)]
pub struct SumOverRanks(Arc<Shared>);

struct Shared {
    world: Arc<World>,
    /// Sums of forward passes so far.
    calls: AtomicU64,
    /// What the loss of this rank counts in the pass under way.
    weight: AtomicU64,
    /// Why the first that failed has.
    failure: Mutex<Option<DistributedError>>,
}

impl Debug for SumOverRanks {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("SumOverRanks")
    }
}

impl PartialEq for SumOverRanks {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SumOverRanks {}

impl SumOverRanks {
    pub(super) fn new(world: &Arc<World>) -> Self {
        Self(Arc::new(Shared {
            world: world.clone(),
            calls: AtomicU64::new(0),
            weight: AtomicU64::new(1),
            failure: Mutex::new(None),
        }))
    }

    /// The ranks of its world.
    pub fn ranks(&self) -> usize {
        self.0.world.size()
    }

    /// Says what the loss of this rank counts among those of all in the passes that follow: what its
    /// [`Contribution`](super::Contribution) will say, where that is not the same on all ranks. The training loop says it. A loss that counts 0 has to be 0.
    pub fn weigh(&self, weight: usize) {
        self.0.weight.store(weight.max(1) as u64, Ordering::Relaxed);
    }

    /// The sum of `values`, `[count]`, of all ranks, which all call it: the same bits on each, added in 64 bits. In the
    /// backward pass its gradient is the sum of those of all ranks, of each as often as its loss [counts](Self::weigh).
    pub fn sum(&self, values: Tensor<1>) -> Tensor<1> {
        let number = self.0.calls.fetch_add(1, Ordering::Relaxed);
        let exchange = Exchange {
            sums: self.clone(),
            number,
            is_back: false,
        };
        Tensor::from_dispatch(Dispatch::sum_over_ranks(values.into_dispatch(), exchange))
    }

    /// The failure of the first sum that has failed.
    pub(super) fn failure(&self) -> Option<DistributedError> {
        let failure = self.0.failure.lock();
        failure.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// One sum: its way forward and its way back.
#[derive(Clone, Debug)]
pub struct Exchange {
    sums: SumOverRanks,
    number: u64,
    /// Of the backward pass.
    is_back: bool,
}

impl Exchange {
    /// `values` of all ranks together; unchanged if that fails, since nothing can be said from within a pass.
    fn carry_out(&self, values: TensorData) -> TensorData {
        let of_all = self.try_to(&values);
        of_all.unwrap_or_else(|error| {
            self.fail(error);
            values
        })
    }

    /// The first cause counts.
    fn fail(&self, error: DistributedError) {
        let failure = self.sums.0.failure.lock();
        let mut failure = failure.unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(error);
    }

    fn try_to(&self, values: &TensorData) -> Result<TensorData, DistributedError> {
        let (dtype, shape) = (values.dtype(), values.shape().clone());
        let wide = values.clone().convert_dtype(DType::F64);
        let wide = wide.try_into_vec::<f64>();
        let mut wide = wide.map_err(|error| unreadable(format!("{error:?}")))?;
        // All gradients of this rank are going to count so often, and this has parts that count as those of others do.
        let weight = match self.is_back {
            true => self.sums.0.weight.load(Ordering::Relaxed) as f64,
            false => 1.0,
        };
        wide.iter_mut().for_each(|value| *value *= weight);
        // What tells this sum from others, for ranks whose passes take another order.
        wide.push(self.number as f64);
        let world = &self.sums.0.world;
        world.all_reduce(&mut wide, Reduction::Sum)?;
        if wide.pop() != Some(self.number as f64 * world.size() as f64) {
            return Err(DistributedError::Option(format!(
                "ranks do their sums in another order: rank {} was at number {}; a model that has them side by side cannot be trained so",
                world.rank(),
                self.number
            )));
        }
        wide.iter_mut().for_each(|value| *value /= weight);
        Ok(TensorData::new(wide, shape).convert_dtype(dtype))
    }
}

fn unreadable(reason: String) -> DistributedError {
    DistributedError::Unreadable {
        tensor: "a sum over ranks".to_owned(),
        reason,
    }
}

/// The operation behind a sum.
#[backend_extension(Autodiff, Flex: cfg(feature = "flex"))]
pub trait RankSum: IntoAny {
    /// `values` of all ranks together.
    fn sum_over_ranks(values: FloatTensor<Self>, exchange: Exchange) -> FloatTensor<Self> {
        let device = values.device();
        let read = Tensor::<1>::from_dispatch(Self::into_any(values.clone())).try_into_data();
        match read {
            Ok(data) => Self::float_from_data(exchange.carry_out(data), &device),
            // The other ranks wait for this one, and learn that it has failed when it leaves.
            Err(error) => {
                exchange.fail(unreadable(error.to_string()));
                values
            }
        }
    }
}

#[cfg(feature = "flex")]
impl RankSum for burn::backend::Flex {}

#[derive(Debug)]
struct Sum;

impl<B: RankSum> Backward<B, 1> for Sum {
    type State = Exchange;

    fn backward(self, ops: Ops<Exchange, 1>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let exchange = Exchange {
            is_back: true,
            ..ops.state
        };
        unary::<B, _>(ops.parents, ops.node, gradients, |gradient| {
            B::sum_over_ranks(gradient, exchange)
        });
    }
}

impl<B: RankSum, C: CheckpointStrategy> RankSum for Autodiff<B, C> {
    fn sum_over_ranks(values: FloatTensor<Self>, exchange: Exchange) -> FloatTensor<Self> {
        let node = values.node();
        let sum = B::sum_over_ranks(values.into_primitive(), exchange.clone());
        let prepared = <Sum as Backward<B, 1>>::prepare::<C>(Sum, [node]);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(tracked) => tracked.finish(exchange, sum),
            OpsKind::UnTracked(untracked) => untracked.finish(sum),
        }
    }
}
