//! burn-train's renderer as a progress bar an epoch and side, on standard error.

use burn::train::LearnerSummary;
use burn::train::logger::{EvaluationProgressLogger, TrainingProgressLogger};
use burn::train::metric::{MetricDefinition, NumericEntry};
use burn::train::renderer::{
    EvaluationName, MetricState, MetricsRenderer, MetricsRendererEvaluation,
    MetricsRendererTraining,
};

use crate::progress::Progress;

/// A bar for the training and one for the validation side of each epoch, with the running loss.
/// Replicas other than the main one are [`silent`](Self::silent).
#[derive(Debug, Default)]
pub struct ProgressRenderer {
    unit: &'static str,
    silent: bool,
    epoch: usize,
    epochs: usize,
    loss: Option<f64>,
    progress: Option<Progress>,
}

impl ProgressRenderer {
    /// Counts samples in `unit`, such as `images`.
    pub fn new(unit: &'static str) -> Self {
        Self {
            unit,
            ..Self::default()
        }
    }

    /// Draws nothing.
    pub fn silent() -> Self {
        Self {
            silent: true,
            ..Self::default()
        }
    }

    fn begin(&mut self, label: String, total: usize) {
        self.loss = None;
        self.progress = (!self.silent).then(|| Progress::new(label, total, self.unit));
    }

    fn advance(&mut self, items: usize) {
        let note = self.loss.map(|loss| format!("loss {loss:.4}"));
        if let Some(progress) = &mut self.progress {
            progress.note(note.unwrap_or_default());
            progress.set(items);
        }
    }

    fn finish(&mut self) {
        if let Some(progress) = self.progress.take() {
            let loss = self.loss.map(|loss| format!("loss {loss:.4}"));
            progress.finish(&loss.unwrap_or_default());
        }
    }

    fn read(&mut self, state: &MetricState) {
        if let MetricState::Numeric(_, Some(entry)) = state {
            self.loss = Some(match entry {
                NumericEntry::Aggregated {
                    aggregated_value, ..
                } => *aggregated_value,
                NumericEntry::Value(value) | NumericEntry::Final(value) => *value,
            });
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
    fn start(&mut self, epochs: usize, first: usize, _items: Option<usize>, _label: Option<&str>) {
        self.epochs = epochs;
        self.epoch = first;
    }

    fn start_split(&mut self, split: &str, total_items: usize) {
        self.begin(
            format!("epoch {}/{} {split}", self.epoch, self.epochs),
            total_items,
        );
    }

    fn update_split(&mut self, items_processed: usize) {
        self.advance(items_processed);
    }

    fn update_epoch(&mut self, epoch: usize) {
        self.epoch = epoch + 1;
    }

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
        self.begin(name.to_string(), total_items);
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
