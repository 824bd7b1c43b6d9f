//! Forward, loss and backward of any classifier, as burn-train asks for them.

use burn::module::Module;
use burn::tensor::{ExecutionError, Tensor};
use burn::train::metric::{Adaptor, ItemLazy, LossInput};
use burn::train::{InferenceStep, TrainOutput, TrainStep};
use burn_dist::train::StepOutput;

use super::XrayBatch;
use super::recipe::backbone;
use crate::loss::BinaryCrossEntropy;
use crate::model::Classifier;

/// A classifier with the loss it is trained by.
#[derive(Module, Debug)]
pub struct SupervisedClassifier<C: Classifier> {
    /// The network.
    pub network: C,
    #[module(skip)]
    loss: BinaryCrossEntropy,
    #[module(skip)]
    frozen: bool,
}

/// The name of the network's field.
pub(super) const NETWORK: &str = "network";

/// What a step computed.
#[derive(Clone, Debug)]
pub struct ClassifierOutput {
    /// Loss of the batch, `[1]`.
    pub loss: Tensor<1>,
    /// Logits, `[batch, labels]`.
    pub logits: Tensor<2>,
    /// The labels, `[batch, labels]` row by row; `None` for unknown ones.
    pub truth: Vec<Option<bool>>,
    /// Name of each image.
    pub names: Vec<String>,
    /// What the loss is a mean of: images or known labels.
    pub weight: usize,
}

impl<C: Classifier> SupervisedClassifier<C> {
    /// `network`, trained by `loss`.
    pub fn new(network: C, loss: BinaryCrossEntropy) -> Self {
        Self {
            network,
            loss,
            frozen: false,
        }
    }

    /// The backbone stays as it is, its running statistics too; only the classifier learns.
    pub fn freeze_backbone(self) -> Self {
        // So it is not among what an optimiser or other ranks get.
        let frozen = self.set_require_grad_group(backbone::<C>(), false);
        Self {
            frozen: true,
            ..frozen
        }
    }

    fn output(&self, logits: Tensor<2>, batch: XrayBatch) -> ClassifierOutput {
        ClassifierOutput {
            loss: self
                .loss
                .forward(logits.clone(), batch.targets, batch.known),
            logits,
            truth: batch.truth,
            names: batch.names,
            weight: batch.weight,
        }
    }
}

impl<C: Classifier> TrainStep for SupervisedClassifier<C> {
    type Input = XrayBatch;
    type Output = ClassifierOutput;

    fn step(&self, batch: XrayBatch) -> TrainOutput<ClassifierOutput> {
        let images = batch.images.clone();
        let features = match self.frozen {
            // Without a graph of the backbone there is nothing to remember and nothing to update.
            true => Tensor::from_inner(self.network.valid().features(images.inner())),
            false => self.network.features(images),
        };
        let output = self.output(self.network.classify(features), batch);
        let gradients = output.loss.backward();
        TrainOutput::new(self, gradients, output.without_autodiff())
    }
}

impl<C: Classifier> InferenceStep for SupervisedClassifier<C> {
    type Input = XrayBatch;
    type Output = ClassifierOutput;

    fn step(&self, batch: XrayBatch) -> ClassifierOutput {
        self.output(self.network.logits(batch.images.clone()), batch)
    }
}

impl ClassifierOutput {
    fn without_autodiff(self) -> Self {
        Self {
            loss: self.loss.without_autodiff(),
            logits: self.logits.without_autodiff(),
            ..self
        }
    }
}

impl StepOutput for ClassifierOutput {
    fn loss(&self) -> Tensor<1> {
        self.loss.clone()
    }

    fn samples(&self) -> usize {
        self.names.len()
    }

    fn weight(&self) -> usize {
        self.weight
    }

    fn names(&self) -> String {
        self.names.join(", ")
    }
}

impl ItemLazy for ClassifierOutput {
    fn sync(self) -> Result<Self, ExecutionError> {
        self.loss.device().flush()?;
        Ok(self.without_autodiff())
    }
}

impl Adaptor<LossInput> for ClassifierOutput {
    fn adapt(&self) -> LossInput {
        LossInput::new(self.loss.clone())
    }
}
