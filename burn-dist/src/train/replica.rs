//! The seam between the training loop and the processes it runs on.

use burn::module::Module;

use crate::distributed::{Contribution, DistributedError, Reduced, Vote};

/// One process's part in a data-parallel run, as the training loop sees it.
///
/// Every method that returns a [`Result`] is called by all replicas in the same order. The defaults are those of
/// a run on one process; [`WorldReplica`](super::WorldReplica) replaces them and nothing else: there is one loop.
pub trait Replica<M: Module>: Send + Sync {
    /// The number of this replica, from 0.
    fn rank(&self) -> usize {
        0
    }

    /// The number of replicas.
    fn count(&self) -> usize {
        1
    }

    /// Whether this replica writes files and draws progress.
    fn is_main(&self) -> bool {
        self.rank() == 0
    }

    /// `model` with what the main replica has, before the first step.
    ///
    /// # Errors
    ///
    /// If models differ, or another replica cannot be reached.
    fn join(&self, model: M) -> Result<M, DistributedError> {
        Ok(model)
    }

    /// Whether the last forward and backward pass of a step is to run on a [`gate`](Self::gate)d model.
    fn overlaps(&self) -> bool {
        false
    }

    /// Whether all replicas need samples in a step in which one has some, since they meet within their passes.
    fn needs_data(&self) -> bool {
        false
    }

    /// What the loss of the next passes counts among those of all replicas.
    fn weigh(&self, weight: usize) {
        let _ = weight;
    }

    /// A copy of `model` for one forward and one backward pass, which hands its gradients over while the pass goes
    /// on. `contribution` is what the step has besides.
    ///
    /// # Errors
    ///
    /// If a gradient cannot be read.
    fn gate(&self, model: &M, contribution: Contribution) -> Result<M, DistributedError> {
        let _ = contribution;
        Ok(model.clone())
    }

    /// The gradients of the step over all replicas, by parameter of `model`. `contribution` is `None` after the
    /// backward pass of a gated model.
    ///
    /// # Errors
    ///
    /// If gradients cannot be read, replicas have parted, or another cannot be reached.
    fn reduce(
        &self,
        model: &M,
        contribution: Option<Contribution>,
        vote: Vote,
    ) -> Result<Reduced, DistributedError> {
        let _ = model;
        let contribution = contribution.unwrap_or_else(Contribution::nothing);
        Ok(contribution.alone(vote))
    }

    /// Gives the running statistics of `model` the mean of all replicas.
    ///
    /// # Errors
    ///
    /// If another replica cannot be reached.
    fn average_statistics(&self, model: &M) -> Result<(), DistributedError> {
        let _ = model;
        Ok(())
    }

    /// The running statistics of this replica alone, as bytes; empty where there is no other.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    fn statistics(&self, model: &M) -> Result<Vec<u8>, DistributedError> {
        let _ = model;
        Ok(Vec::new())
    }

    /// Gives `model` the [`statistics`](Self::statistics) that this replica had.
    ///
    /// # Errors
    ///
    /// If they are of another model.
    fn set_statistics(&self, model: &M, statistics: &[u8]) -> Result<(), DistributedError> {
        let _ = (model, statistics);
        Ok(())
    }

    /// Sums each value over the replicas: losses and sample counts.
    ///
    /// # Errors
    ///
    /// If another replica cannot be reached.
    fn sum(&self, values: &mut [f64]) -> Result<(), DistributedError> {
        let _ = values;
        Ok(())
    }

    /// Whether any replica wants to stop.
    ///
    /// # Errors
    ///
    /// If another replica cannot be reached.
    fn agree(&self, stop: bool) -> Result<bool, DistributedError> {
        Ok(stop)
    }

    /// What all replicas have, in their order.
    ///
    /// # Errors
    ///
    /// If another replica cannot be reached.
    fn gather(&self, own: Vec<u8>) -> Result<Vec<Vec<u8>>, DistributedError> {
        Ok(vec![own])
    }

    /// What the main replica has.
    ///
    /// # Errors
    ///
    /// If another replica cannot be reached.
    fn broadcast(&self, own: Vec<u8>) -> Result<Vec<u8>, DistributedError> {
        Ok(own)
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
