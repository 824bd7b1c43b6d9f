//! What the training loop reads of a step.

use burn::tensor::Tensor;

/// What the loop reads from the output of a training or validation step.
pub trait StepOutput {
    /// The mean loss of the batch, `[1]`.
    fn loss(&self) -> Tensor<1>;

    /// Samples in the batch.
    fn samples(&self) -> usize;

    /// The samples by name, for the message when their loss is not finite.
    fn names(&self) -> String;
}
