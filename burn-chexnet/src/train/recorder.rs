//! What an epoch leaves behind: a row of `metrics.csv`, `last.safetensors`, and
//! `best.safetensors` when the validation loss is the lowest so far.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use burn_dist::train::{EpochSummary, Observer};

use super::figures::EpochPoint;
use super::output::{BEST, LAST, METRICS};
use super::{ClassifierOutput, Predictions, RunError, SupervisedClassifier};
use crate::model::Classifier;
use crate::weights::{self, Metadata};

/// Writes what each epoch of a run leaves behind into its output folder.
pub struct Recorder {
    folder: PathBuf,
    metadata: Metadata,
    table: csv::Writer<std::fs::File>,
    predictions: Predictions,
    history: Arc<Mutex<Vec<EpochPoint>>>,
}

impl Recorder {
    /// Starts `metrics.csv` in `folder`. `metadata` goes with the weights.
    ///
    /// # Errors
    ///
    /// If the table cannot be written.
    pub fn new(folder: &Path, metadata: Metadata) -> Result<Self, RunError> {
        let path = folder.join(METRICS);
        let mut table = csv::Writer::from_path(&path).map_err(|e| RunError::file(&path, e))?;
        table
            .write_record([
                "epoch",
                "steps",
                "training_loss",
                "validation_loss",
                "validation_mean_auroc",
                "learning_rate",
                "images_per_second",
                "seconds",
                "best",
            ])
            .and_then(|()| Ok(table.flush()?))
            .map_err(|e| RunError::file(&path, e))?;
        Ok(Self {
            folder: folder.to_path_buf(),
            metadata,
            table,
            predictions: Predictions::default(),
            history: Arc::default(),
        })
    }

    /// The figures of the epochs so far, shared: it fills while the run goes on.
    pub(super) fn history(&self) -> Arc<Mutex<Vec<EpochPoint>>> {
        self.history.clone()
    }

    fn write_row(&mut self, summary: &EpochSummary, auroc: Option<f64>) -> Result<(), csv::Error> {
        let speed = summary.samples as f64 / summary.seconds.max(1e-9);
        self.table.write_record([
            summary.epoch.to_string(),
            summary.steps.to_string(),
            summary.training_loss.to_string(),
            summary.validation_loss.to_string(),
            auroc.map(|auroc| auroc.to_string()).unwrap_or_default(),
            summary.learning_rate.to_string(),
            format!("{speed:.3}"),
            format!("{:.3}", summary.seconds),
            summary.best.to_string(),
        ])?;
        Ok(self.table.flush()?)
    }

    fn record<C: Classifier>(
        &mut self,
        summary: &EpochSummary,
        network: &C,
    ) -> Result<(), RunError> {
        let predictions = std::mem::take(&mut self.predictions);
        let auroc = predictions.evaluate(&self.metadata.labels)?.mean_auroc;
        self.write_row(summary, auroc)
            .map_err(|e| RunError::file(self.folder.join(METRICS), e))?;
        self.history
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(EpochPoint {
                epoch: summary.epoch,
                train_loss: summary.training_loss,
                validation_loss: Some(summary.validation_loss),
                learning_rate: summary.learning_rate,
                validation_mean_auroc: auroc,
            });

        let figures = [
            ("epoch", Some(summary.epoch as f64)),
            ("training_loss", Some(summary.training_loss)),
            ("validation_loss", Some(summary.validation_loss)),
            ("validation_mean_auroc", auroc),
        ];
        self.metadata.metrics = figures
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_string(), value?)))
            .collect();
        weights::save(network, &self.metadata, self.folder.join(LAST))?;
        if summary.best {
            weights::save(network, &self.metadata, self.folder.join(BEST))?;
        }
        Ok(())
    }
}

impl<C: Classifier> Observer<SupervisedClassifier<C>> for Recorder {
    fn validated(&mut self, output: &ClassifierOutput) -> Result<(), String> {
        self.predictions
            .add(output.logits.clone(), &output.truth, &output.names)
            .map_err(|e| e.to_string())
    }

    fn epoch_ended(
        &mut self,
        summary: &EpochSummary,
        model: &SupervisedClassifier<C>,
    ) -> Result<(), String> {
        self.record(summary, &model.network)
            .map_err(|e| e.to_string())
    }
}
