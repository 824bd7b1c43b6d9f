//! burn-train's renderer as a progress bar an epoch and side, on standard error.

use burn::train::LearnerSummary;
use burn::train::logger::{EvaluationProgressLogger, TrainingProgressLogger};
use burn::train::metric::{MetricDefinition, NumericEntry};
use burn::train::renderer::{
    EvaluationName, MetricState, MetricsRenderer, MetricsRendererEvaluation,
    MetricsRendererTraining,
};

use crate::progress::Progress;

/// A bar for the training and one for the validation side of each epoch, with the mean loss so far.
/// Replicas other than the main one are [`silent`](Self::silent).
#[derive(Debug, Default)]
pub struct ProgressRenderer {
    unit: &'static str,
    silent: bool,
    epoch: usize,
    epochs: usize,
    /// Loss of the current batch.
    batch_loss: Option<f64>,
    /// Sum of the losses by sample, and the samples.
    losses: (f64, usize),
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
        self.batch_loss = None;
        self.losses = (0.0, 0);
        self.progress = (!self.silent).then(|| Progress::new(label, total, self.unit));
    }

    fn advance(&mut self, items: usize) {
        if let Some(loss) = self.batch_loss.take() {
            let samples = items.saturating_sub(self.losses.1);
            self.losses = (self.losses.0 + loss * samples as f64, items);
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
        match self.losses {
            (_, 0) => String::new(),
            (sum, samples) => format!("loss {:.4}", sum / samples as f64),
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
