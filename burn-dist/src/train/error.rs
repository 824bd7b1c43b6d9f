//! Why a training run ends early.

use super::SnapshotError;
use crate::distributed::DistributedError;

/// Why a training run ended before its last epoch.
#[derive(thiserror::Error)]
pub enum TrainError {
    /// The loss of a step is not a number or infinite. The weights of that step were not used.
    #[error(
        "the {phase} loss is {loss} in epoch {epoch}, batch {batch} ({samples}): lower the learning rate or look at these samples"
    )]
    NonFiniteLoss {
        /// `training` or `validation`.
        phase: &'static str,
        /// The loss.
        loss: f64,
        /// Epoch, from 1.
        epoch: usize,
        /// Batch within the epoch, from 1.
        batch: usize,
        /// The samples of the batch, by name.
        samples: String,
    },
    /// The data of a batch could not be had.
    #[error("{0}")]
    Data(String),
    /// A replica has no sample for a step in which all need some.
    #[error(
        "rank {rank} has no usable sample in batch {batch} of epoch {epoch}, and ranks that sum over all within the model, as for synchronised batch normalisation, need some in every step: leave out what cannot be read before the run, or do without these sums"
    )]
    Empty {
        /// The rank.
        rank: usize,
        /// Epoch, from 1.
        epoch: usize,
        /// Batch of the rank within the epoch, from 1.
        batch: usize,
    },
    /// A loader gave no batch.
    #[error("there is no {phase} data: the loader gave no batch")]
    NoData {
        /// `training` or `validation`.
        phase: &'static str,
    },
    /// The processes of the run cannot go on together.
    #[error(transparent)]
    Replica(#[from] DistributedError),
    /// A snapshot cannot be written or used.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The loader does not stop where the snapshot was taken.
    #[error(
        "the run stopped after {wanted} items of epoch {epoch}, but its loader now gives batches that end at {found}: resume with the data and the batch size that it began with"
    )]
    Position {
        /// The epoch.
        epoch: usize,
        /// Items behind the snapshot.
        wanted: usize,
        /// Items behind the batch that reaches it.
        found: usize,
    },
    /// What the observer does at the end of an epoch failed.
    #[error("{0}")]
    Observer(String),
    /// burn-train gave up.
    #[error("{0}")]
    Burn(String),
}

burn_dist_core::debug_as_display!(TrainError);
