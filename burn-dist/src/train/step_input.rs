//! What the training loop reads of a batch.

/// What the loop reads from the input of a training step.
pub trait StepInput {
    /// Samples in the batch.
    fn samples(&self) -> usize;
}
