//! burn-train's renderer as a progress bar an epoch and side, on standard error.

use burn::train::LearnerSummary;
use burn::train::logger::{EvaluationProgressLogger, TrainingProgressLogger};
use burn::train::metric::store::Split;
use burn::train::metric::{MetricDefinition, NumericEntry};
use burn::train::renderer::{
    EvaluationName, MetricState, MetricsRenderer, MetricsRendererEvaluation,
    MetricsRendererTraining,
};

use super::EpochClock;
use crate::progress::Progress;

/// A bar for the training and one for the validation side of each epoch, with the mean loss so far.
/// Replicas other than the main one are [`silent`](Self::silent).
#[derive(Debug, Default)]
pub struct ProgressRenderer {
    unit: &'static str,
    silent: bool,
    /// Whose loss it is, where there are several replicas.
    replica: Option<usize>,
    clock: EpochClock,
    epochs: usize,
    /// Loss of the current batch.
    batch_loss: Option<f64>,
    /// Sum of the losses by sample, and the samples.
    losses: (f64, usize),
    /// Items behind it.
    items: usize,
    progress: Option<Progress>,
}

impl ProgressRenderer {
    /// Counts samples in `unit`, such as `images`. Where `clock` lets an epoch begin in its middle, so
    /// does the bar.
    pub fn new(unit: &'static str, clock: EpochClock) -> Self {
        Self {
            unit,
            clock,
            ..Self::default()
        }
    }

    /// Says that the loss is that of replica `rank` alone, while items count on all.
    pub fn of_replica(self, rank: usize) -> Self {
        Self {
            replica: Some(rank),
            ..self
        }
    }

    /// Draws nothing.
    pub fn silent() -> Self {
        Self {
            silent: true,
            ..Self::default()
        }
    }

    fn begin(&mut self, label: String, first: usize, total: usize) {
        self.batch_loss = None;
        self.losses = (0.0, 0);
        self.items = first;
        self.progress =
            (!self.silent).then(|| Progress::new(label, total, self.unit).starting_at(first));
    }

    fn advance(&mut self, items: usize) {
        let samples = items.saturating_sub(self.items);
        self.items = items;
        if let Some(loss) = self.batch_loss.take() {
            self.losses.0 += loss * samples as f64;
            self.losses.1 += samples;
        }
        let note = self.mean_loss();
        if let Some(progress) = &mut self.progress {
            progress.note(note);
            progress.set(items);
        }
    }

    fn finish(&mut self) {
        let note = self.mean_loss();
        if let Some(progress) = self.progress.take() {
            progress.finish(&note);
        }
    }

    /// The mean by sample so far, as the training loop reports it.
    fn mean_loss(&self) -> String {
        let (sum, samples) = self.losses;
        let mean = sum / samples as f64;
        match (samples, self.replica) {
            (0, _) => String::new(),
            (_, None) => format!("loss {mean:.4}"),
            (_, Some(rank)) => format!("loss of rank {rank} {mean:.4}"),
        }
    }

    /// burn-train sends the loss of a batch before it tells how many samples are done; its closing
    /// value is a mean of batches, whatever their size.
    fn read(&mut self, state: &MetricState) {
        match state {
            MetricState::Numeric(_, Some(NumericEntry::Value(loss))) => {
                self.batch_loss = Some(*loss);
            }
            MetricState::Numeric(
                _,
                Some(NumericEntry::Aggregated {
                    aggregated_value, ..
                }),
            ) => self.batch_loss = Some(*aggregated_value),
            _ => {}
        }
    }
}

impl MetricsRendererTraining for ProgressRenderer {
    fn update_train(&mut self, state: MetricState) {
        self.read(&state);
    }

    fn update_valid(&mut self, state: MetricState) {
        self.read(&state);
    }

    fn on_train_end(
        &mut self,
        _summary: Option<LearnerSummary>,
    ) -> Result<(), Box<dyn std::error::Error>> {
        Ok(())
    }
}

impl TrainingProgressLogger for ProgressRenderer {
    fn start(&mut self, epochs: usize, _first: usize, _items: Option<usize>, _label: Option<&str>) {
        self.epochs = epochs;
    }

    fn start_split(&mut self, split: &str, total_items: usize) {
        let first = match split == <&str>::from(Split::Train) {
            true => self.clock.first_item(),
            false => 0,
        };
        let label = format!("epoch {}/{} {split}", self.clock.epoch(), self.epochs);
        self.begin(label, first, total_items);
    }

    fn update_split(&mut self, items_processed: usize) {
        self.advance(items_processed);
    }

    fn update_epoch(&mut self, _epoch: usize) {}

    fn end_split(&mut self) {
        self.finish();
    }

    fn end(&mut self) {
        self.finish();
    }

    // burn-train sends an event an iteration; the bar says more.
    fn log_event_training(&mut self, _event: String) {}
}

impl EvaluationProgressLogger for ProgressRenderer {
    fn start_global_progress(&mut self, _total_tests: usize) {}

    fn start_test(&mut self, name: &str, total_items: usize) {
        self.begin(name.to_string(), 0, total_items);
    }

    fn update_test_progress(&mut self, items_processed: usize) {
        self.advance(items_processed);
    }

    fn end_test(&mut self) {
        self.finish();
    }

    fn end_global_progress(&mut self) {}

    fn log_event_evaluation(&mut self, _event: String) {}
}

impl MetricsRendererEvaluation for ProgressRenderer {
    fn update_test(&mut self, _name: EvaluationName, state: MetricState) {
        self.read(&state);
    }

    fn on_test_end(
        &mut self,
        _summary: Option<LearnerSummary>,
    ) -> Result<(), Box<dyn std::error::Error>> {
        Ok(())
    }
}

impl MetricsRenderer for ProgressRenderer {
    fn manual_close(&mut self) {}

    fn register_metric(&mut self, _definition: MetricDefinition) {}
}
