//! The seam between the training loop and the processes it runs on.

use burn::module::Module;
use burn::optim::GradientsParams;

/// One process's part in a data-parallel run, as the training loop sees it.
///
/// Every method is called by all replicas in the same order. The defaults are those of a run on
/// one process; a distributed implementation replaces them and nothing else: there is one loop.
pub trait Replica<M: Module>: Send + Sync {
    /// The model that the last forward and backward pass of a step runs on: `model` itself, or a
    /// copy whose parameters hand over their gradients while backward is still running.
    fn gate(&self, model: M) -> M {
        model
    }

    /// The gradients of the step over all replicas, by parameter of `model`. `gradients` are
    /// those of this replica, summed over the micro-batches of the step, without what
    /// [`gate`](Self::gate) took in the last of them.
    ///
    /// # Errors
    ///
    /// If another replica cannot be reached.
    fn reduce(
        &self,
        model: &M,
        gradients: GradientsParams,
    ) -> Result<GradientsParams, ReplicaError> {
        let _ = model;
        Ok(gradients)
    }

    /// Sums each value over the replicas: losses and sample counts.
    ///
    /// # Errors
    ///
    /// If another replica cannot be reached.
    fn sum(&self, values: &mut [f64]) -> Result<(), ReplicaError> {
        let _ = values;
        Ok(())
    }

    /// Whether any replica wants to stop.
    ///
    /// # Errors
    ///
    /// If another replica cannot be reached.
    fn agree(&self, stop: bool) -> Result<bool, ReplicaError> {
        Ok(stop)
    }

    /// The number of this replica, from 0.
    fn rank(&self) -> usize {
        0
    }

    /// Whether this replica writes files and draws progress.
    fn is_main(&self) -> bool {
        true
    }
}

/// A run on this process alone.
///
/// ```
/// use burn::nn::Linear;
/// use burn_dist::train::{LocalReplica, Replica};
/// assert!(Replica::<Linear>::is_main(&LocalReplica));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalReplica;

impl<M: Module> Replica<M> for LocalReplica {}

/// Why the replicas of a run cannot go on together.
#[derive(Debug, thiserror::Error)]
#[error("rank {rank}: {reason}")]
pub struct ReplicaError {
    /// The rank that reports it.
    pub rank: usize,
    /// What happened and what to do.
    pub reason: String,
}
