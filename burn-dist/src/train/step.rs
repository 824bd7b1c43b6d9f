//! What the training loop reads of a step.
//!
//! The outputs that burn-train has for regression and classification are read as they are.

use burn::tensor::Tensor;
use burn::train::{ClassificationOutput, MultiLabelClassificationOutput, RegressionOutput};

/// What the loop reads from the input of a training step.
pub trait StepInput {
    /// Samples in the batch. One without any is no step, and has its place in the epoch: that of samples which cannot be
    /// read, for example. The model does not see it.
    fn samples(&self) -> usize;

    /// What the mean loss of the batch is a mean of: its samples, unless the loss is a mean of something else, as of the
    /// labels that are known. The gradients of several batches count by it.
    fn weight(&self) -> usize {
        self.samples()
    }
}

/// What the loop reads from the output of a training or validation step.
pub trait StepOutput {
    /// The mean loss of the batch, `[1]`.
    fn loss(&self) -> Tensor<1>;

    /// Samples in the batch.
    fn samples(&self) -> usize;

    /// What the mean loss is a mean of, as of [`StepInput::weight`].
    fn weight(&self) -> usize {
        self.samples()
    }

    /// The samples by name, for the message when their loss is not finite.
    fn names(&self) -> String {
        format!("{} samples without names", self.samples())
    }
}

macro_rules! of_burn_train {
    ($($output:ty),*) => {$(
        impl StepOutput for $output {
            fn loss(&self) -> Tensor<1> {
                self.loss.clone()
            }

            fn samples(&self) -> usize {
                self.output.dims()[0]
            }
        }
    )*};
}

of_burn_train!(
    RegressionOutput,
    ClassificationOutput,
    MultiLabelClassificationOutput
);
