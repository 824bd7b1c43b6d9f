//! What changes in a run beside the model and its optimiser.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::{EpochSummary, LearningRate};

/// The state of a run after a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::train) struct RunState {
    /// The epoch that it is in, from 1.
    pub epoch: usize,
    /// Items of the epoch that are behind it.
    pub items: usize,
    /// Batches of the epoch that are behind it.
    pub batches: usize,
    /// Steps of the optimiser since the start of training.
    pub steps: usize,
    /// The training side of the epoch so far.
    pub totals: Totals,
    /// Seconds spent on it.
    pub seconds: f64,
    /// The lowest validation loss; `None` before the first.
    pub best: Option<f64>,
    /// The learning rate, with what its schedule has learnt.
    pub learning_rate: LearningRate,
    /// The epochs that have ended.
    pub epochs: Vec<EpochSummary>,
    /// What the observer needs to go on.
    pub observer: Value,
    /// The replicas of the run.
    #[serde(default = "one")]
    pub replicas: usize,
}

/// Of a snapshot that does not say.
fn one() -> usize {
    1
}

/// Sums over the batches of one side of an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::train) struct Totals {
    /// Sum of the losses by weight.
    pub loss: f64,
    /// What they are means of: samples, mostly.
    pub weight: f64,
    /// Samples.
    pub samples: f64,
}

impl RunState {
    /// Before the first step.
    pub fn new(learning_rate: LearningRate) -> Self {
        Self {
            epoch: 1,
            items: 0,
            batches: 0,
            steps: 0,
            totals: Totals::default(),
            seconds: 0.0,
            best: None,
            learning_rate,
            epochs: Vec::new(),
            observer: Value::Null,
            replicas: 1,
        }
    }

    /// At the start of an epoch.
    pub fn begin(&mut self, epoch: usize) {
        self.epoch = epoch;
        self.items = 0;
        self.batches = 0;
        self.totals = Totals::default();
        self.seconds = 0.0;
    }
}

/// What each replica of a run has of its own.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::train) struct ReplicaState {
    /// Its part of the training side of the epoch.
    pub totals: Totals,
    /// Its running statistics.
    pub statistics: Vec<u8>,
}

impl ReplicaState {
    pub fn to_bytes(&self) -> Vec<u8> {
        let Totals {
            loss,
            weight,
            samples,
        } = self.totals;
        let numbers = [loss, weight, samples].map(f64::to_le_bytes);
        [numbers.as_flattened(), &self.statistics].concat()
    }

    /// `None` if they are not of such a state.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (loss, rest) = bytes.split_first_chunk()?;
        let (weight, rest) = rest.split_first_chunk()?;
        let (samples, statistics) = rest.split_first_chunk()?;
        Some(Self {
            totals: Totals {
                loss: f64::from_le_bytes(*loss),
                weight: f64::from_le_bytes(*weight),
                samples: f64::from_le_bytes(*samples),
            },
            statistics: statistics.to_vec(),
        })
    }
}
