//! Why a training run ends early.

use super::ReplicaError;

/// Why a training run ended before its last epoch.
#[derive(Debug, thiserror::Error)]
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
    /// A loader gave no batch.
    #[error("there is no {phase} data: the loader gave no batch")]
    NoData {
        /// `training` or `validation`.
        phase: &'static str,
    },
    /// The other processes of the run cannot be reached.
    #[error(transparent)]
    Replica(#[from] ReplicaError),
    /// What the observer does at the end of an epoch failed.
    #[error("{0}")]
    Observer(String),
    /// burn-train gave up.
    #[error("{0}")]
    Burn(String),
}
