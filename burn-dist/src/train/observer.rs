//! What the crate of a model does at the end of an epoch.

use burn::train::{InferenceStep, LearnerModel};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Figures of an epoch, over all replicas.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochSummary {
    /// Epoch, from 1.
    pub epoch: usize,
    /// Steps since the start of training.
    pub steps: usize,
    /// Mean training loss by sample.
    pub training_loss: f64,
    /// Mean validation loss by sample.
    pub validation_loss: f64,
    /// Learning rate of its last step.
    pub learning_rate: f64,
    /// Training samples seen in the epoch.
    pub samples: usize,
    /// Seconds spent in training steps and in waiting for their data.
    pub seconds: f64,
    /// Whether the validation loss is the lowest so far.
    pub best: bool,
}

/// Follows a run: collects validation outputs and keeps what an epoch leaves behind (weights,
/// tables). Errors end the run.
///
/// Where a run has several replicas each has an observer, which sees what that replica validates;
/// [`share`](Self::share) and [`merge`](Self::merge) bring it to that of the main replica.
pub trait Observer<M: LearnerModel>: Send {
    /// A validation batch was computed.
    ///
    /// # Errors
    ///
    /// A message that names what failed.
    fn validated(&mut self, output: &<M as InferenceStep>::Output) -> Result<(), String>;

    /// An epoch ended; `model` holds its weights. Called on the main replica only.
    ///
    /// # Errors
    ///
    /// A message that names what failed.
    fn epoch_ended(&mut self, summary: &EpochSummary, model: &M) -> Result<(), String>;

    /// What it knows that the main replica's observer does not, as bytes, and does not need any more itself: the
    /// predictions of a validation. Called at the end of each validation and before each snapshot where there are
    /// several replicas, and on all of them.
    ///
    /// # Errors
    ///
    /// A message that names what failed.
    fn share(&mut self) -> Result<Vec<u8>, String> {
        Ok(Vec::new())
    }

    /// Takes up what the observers of all replicas have [shared](Self::share), in the order of their ranks, its own as
    /// well. Called on the main replica only.
    ///
    /// # Errors
    ///
    /// A message that names what makes no sense.
    fn merge(&mut self, shared: Vec<Vec<u8>>) -> Result<(), String> {
        let _ = shared;
        Ok(())
    }

    /// What it needs to go on after the epochs that have ended; every snapshot holds it.
    fn state(&self) -> Value {
        Value::Null
    }

    /// Takes up the state of a snapshot. `best` is the lowest validation loss until then, if an epoch
    /// has ended.
    ///
    /// # Errors
    ///
    /// A message that names what is missing or makes no sense.
    fn resume(&mut self, state: &Value, best: Option<f64>) -> Result<(), String> {
        let _ = (state, best);
        Ok(())
    }
}
