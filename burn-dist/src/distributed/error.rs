//! Why ranks cannot train together.

use burn_dist_core::CollectiveError;

/// Why ranks cannot train together.
#[derive(Clone, thiserror::Error)]
pub enum DistributedError {
    /// An operation between ranks has failed.
    #[error(transparent)]
    Collective(#[from] CollectiveError),
    /// Models differ.
    #[error(
        "the model of rank {rank} differs from that of rank 0: {difference}; build the same model on all ranks"
    )]
    Model {
        /// The first rank whose model differs.
        rank: usize,
        /// The first tensor that differs, and how.
        difference: String,
    },
    /// Two fields of a model have one parameter.
    #[error(
        "{one} and {other} share one parameter, which an optimiser of Burn updates in the first of them only: keep it in one field, and use that twice in the forward pass"
    )]
    Tied {
        /// The first field.
        one: String,
        /// The other.
        other: String,
    },
    /// Parameters were the same and are not any more.
    #[error(
        "{tensor} of rank {rank} differs from that of rank 0 after {steps} steps since the run was started or resumed: ranks have trained apart, resume from a snapshot before"
    )]
    Diverged {
        /// The first tensor that differs.
        tensor: String,
        /// The first rank on which it does.
        rank: usize,
        /// Steps of the optimiser in these processes.
        steps: u64,
    },
    /// A model has changed since [`DataParallel`](super::DataParallel) has seen it.
    #[error("the model has changed: {0}; make another DataParallel of it")]
    Changed(String),
    /// A tensor cannot be had from its device.
    #[error("{tensor} cannot be read: {reason}")]
    Unreadable {
        /// The tensor.
        tensor: String,
        /// What the device says.
        reason: String,
    },
    /// A gradient cannot be had from its device.
    #[error("the gradient of {tensor} cannot be read: {reason}")]
    Gradient {
        /// The parameter.
        tensor: String,
        /// What the device says.
        reason: String,
    },
    /// Two gradients of one parameter in a step.
    #[error(
        "{tensor} has got a second gradient in one step: a gated model is for one backward pass; with more, give their gradients together to reduce, as a Contribution"
    )]
    Twice {
        /// The parameter.
        tensor: String,
    },
    /// Running statistics are not those of the model.
    #[error("these running statistics have {found} bytes, those of the model {wanted}")]
    Statistics {
        /// Bytes that were given.
        found: usize,
        /// Bytes that the model has.
        wanted: usize,
    },
    /// A rank wants what cannot be.
    #[error("{0}")]
    Option(String),
}

burn_dist_core::debug_as_display!(DistributedError);
