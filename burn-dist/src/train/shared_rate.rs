//! A scheduler whose learning rate somebody else sets.
//!
//! Burn's schedulers count steps and never see a loss, and burn-train keeps the scheduler to
//! itself once a run has begun. A handle shared with the training loop bridges the two.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use burn::lr_scheduler::{LrScheduler, LrSchedulerRecord};

/// A learning rate that all clones share; as a scheduler it answers with the current value.
///
/// ```
/// use burn::lr_scheduler::LrScheduler;
/// use burn_dist::train::SharedLearningRate;
///
/// let handle = SharedLearningRate::new(1e-3);
/// let mut scheduler = handle.clone();
/// handle.set(1e-4);
/// assert_eq!(scheduler.step(), 1e-4);
/// ```
#[derive(Clone, Debug)]
pub struct SharedLearningRate {
    value: Arc<AtomicU64>,
    /// What this handle makes of the value as a scheduler.
    factor: f64,
}

const KEY: &str = "learning_rate";

impl SharedLearningRate {
    /// Starts at `learning_rate`.
    pub fn new(learning_rate: f64) -> Self {
        Self {
            value: Arc::new(AtomicU64::new(learning_rate.to_bits())),
            factor: 1.0,
        }
    }

    /// A clone that, as a scheduler, answers with `factor` times the value.
    pub(super) fn scaled(&self, factor: f64) -> Self {
        Self {
            value: self.value.clone(),
            factor,
        }
    }

    /// The current value.
    pub fn get(&self) -> f64 {
        f64::from_bits(self.value.load(Ordering::Relaxed))
    }

    /// Sets it for the next step, for all clones.
    pub fn set(&self, learning_rate: f64) {
        self.value.store(learning_rate.to_bits(), Ordering::Relaxed);
    }
}

impl LrScheduler for SharedLearningRate {
    fn step(&mut self) -> f64 {
        self.factor * self.get()
    }

    fn to_record(&self) -> LrSchedulerRecord {
        LrSchedulerRecord::new().with_scalar(KEY, self.get())
    }

    fn load_record(&mut self, record: LrSchedulerRecord) {
        if let Some(learning_rate) = record.scalar(KEY) {
            self.set(learning_rate);
        }
    }
}
