//! What an epoch leaves behind: a row of `metrics.csv`, `last.safetensors`, and
//! `best.safetensors` when the validation loss is the lowest so far.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use burn_dist::train::{EpochSummary, Observer};
use chest_datasets::BadImage;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::figures::EpochPoint;
use super::output::{BEST, LAST, METRICS};
use super::{ClassifierOutput, RunError, SupervisedClassifier, XrayLoader};
use crate::model::Classifier;
use crate::predictions::Predictions;
use crate::weights::{self, Metadata};
use crate::written::write_whole;

/// Writes what each epoch of a run leaves behind into its output folder.
pub struct Recorder {
    folder: PathBuf,
    metadata: Metadata,
    /// The loaders of training and validation, for what they leave out.
    loaders: [XrayLoader; 2],
    /// Of the data that the run began with.
    digest: String,
    /// Whether it is the one that writes.
    is_main: bool,
    predictions: Predictions,
    history: Arc<Mutex<Vec<EpochRecord>>>,
}

/// An epoch that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct EpochRecord {
    pub(super) summary: EpochSummary,
    pub(super) validation_mean_auroc: Option<f64>,
}

impl From<&EpochRecord> for EpochPoint {
    fn from(record: &EpochRecord) -> Self {
        Self {
            epoch: record.summary.epoch,
            train_loss: record.summary.training_loss,
            validation_loss: Some(record.summary.validation_loss),
            learning_rate: record.summary.learning_rate,
            validation_mean_auroc: record.validation_mean_auroc,
        }
    }
}

/// What the other ranks have found out.
#[derive(Serialize, Deserialize)]
struct Share {
    predictions: Predictions,
    /// Images that training and validation have left out.
    skipped: [Vec<BadImage>; 2],
}

/// What a resumed run needs of it.
#[derive(Serialize, Deserialize)]
struct State {
    epochs: Vec<EpochRecord>,
    /// Images that training and validation have left out.
    skipped: [Vec<BadImage>; 2],
    /// Seconds for which training has waited for images.
    waited: f64,
    /// Of the data, [`RunData::digest`](super::RunData::digest).
    digest: String,
}

impl Recorder {
    /// For the run whose output folder is `folder`; `metadata` goes with the weights, `loaders` are
    /// those of training and validation, and `digest` is that of the data. Of several ranks only the main one writes.
    pub fn new(
        folder: &Path,
        metadata: Metadata,
        loaders: [XrayLoader; 2],
        digest: String,
        is_main: bool,
    ) -> Self {
        Self {
            folder: folder.to_path_buf(),
            metadata,
            loaders,
            digest,
            is_main,
            predictions: Predictions::default(),
            history: Arc::default(),
        }
    }

    /// The epochs so far, shared: they become more while the run goes on.
    pub(super) fn history(&self) -> Arc<Mutex<Vec<EpochRecord>>> {
        self.history.clone()
    }

    fn epochs(&self) -> Vec<EpochRecord> {
        let history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.clone()
    }

    /// Writes `metrics.csv`, whole: a resumed run drops the rows that it will compute anew.
    fn write_table(&self) -> Result<(), RunError> {
        let path = self.folder.join(METRICS);
        let failed = |error: &dyn std::fmt::Display| RunError::file(&path, error);
        let bytes = table(&self.epochs()).map_err(|e| failed(&e))?;
        write_whole(&path, &bytes).map_err(|e| failed(&e))
    }

    fn record<C: Classifier>(
        &mut self,
        summary: &EpochSummary,
        network: &C,
    ) -> Result<(), RunError> {
        let predictions = std::mem::take(&mut self.predictions);
        let auroc = predictions.evaluate(&self.metadata.labels)?.mean_auroc;
        self.history
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(EpochRecord {
                summary: summary.clone(),
                validation_mean_auroc: auroc,
            });
        self.write_table()?;

        let figures = [
            ("epoch", Some(summary.epoch as f64)),
            ("training_loss", Some(summary.training_loss)),
            (VALIDATION_LOSS, Some(summary.validation_loss)),
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

    fn restore(&mut self, state: &Value, best: Option<f64>) -> Result<(), RunError> {
        let state = State::deserialize(state)
            .map_err(|e| RunError::file(&self.folder, format!("its snapshot is damaged: {e}")))?;
        if let Some(best) = best
            && self.is_main
        {
            self.ensure_best(best)?;
        }
        if state.digest != self.digest {
            return Err(RunError::file(
                &self.folder,
                "the labels of the data are no longer those that the run began with: restore the tables, or begin a new run",
            ));
        }
        let waited = Duration::try_from_secs_f64(state.waited).unwrap_or_default();
        let waited = [waited, Duration::ZERO];
        for ((loader, skipped), waited) in self.loaders.iter().zip(state.skipped).zip(waited) {
            loader.recall(skipped, waited);
        }
        *self.history.lock().unwrap_or_else(PoisonError::into_inner) = state.epochs;
        match self.is_main {
            true => self.write_table(),
            false => Ok(()),
        }
    }

    /// The weights of the lowest loss so far may never be written again.
    fn ensure_best(&self, loss: f64) -> Result<(), RunError> {
        let path = self.folder.join(BEST);
        let found = Metadata::read(&path)?.metrics.get(VALIDATION_LOSS).copied();
        // The loss of an epoch behind the snapshot may be lower: it is computed once more.
        match found.is_some_and(|found| found <= loss) {
            true => Ok(()),
            false => Err(RunError::file(
                &path,
                format!(
                    "these are not the weights of validation loss {loss}: the run cannot go on without them"
                ),
            )),
        }
    }
}

/// Name of a figure in the metadata of weights.
const VALIDATION_LOSS: &str = "validation_loss";

/// The content of `metrics.csv`.
fn table(epochs: &[EpochRecord]) -> Result<Vec<u8>, csv::Error> {
    let mut table = csv::Writer::from_writer(Vec::new());
    table.write_record([
        "epoch",
        "steps",
        "training_loss",
        "validation_loss",
        "validation_mean_auroc",
        "learning_rate",
        "images_per_second",
        "seconds",
        "best",
    ])?;
    for EpochRecord {
        summary,
        validation_mean_auroc: auroc,
    } in epochs
    {
        let speed = summary.samples as f64 / summary.seconds.max(1e-9);
        table.write_record([
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
    }
    table
        .into_inner()
        .map_err(|error| error.into_error().into())
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

    fn share(&mut self) -> Result<Vec<u8>, String> {
        let share = Share {
            predictions: std::mem::take(&mut self.predictions),
            skipped: self.loaders.each_ref().map(XrayLoader::skipped),
        };
        serde_json::to_vec(&share).map_err(|e| e.to_string())
    }

    fn merge(&mut self, shared: Vec<Vec<u8>>) -> Result<(), String> {
        let mut all = Vec::new();
        for bytes in shared {
            let share: Share = serde_json::from_slice(&bytes).map_err(|e| e.to_string())?;
            all.push(share.predictions);
            for (loader, skipped) in self.loaders.iter().zip(share.skipped) {
                loader.recall(skipped, Duration::ZERO);
            }
        }
        self.predictions = Predictions::gather(all);
        Ok(())
    }

    fn state(&self) -> Value {
        let state = State {
            epochs: self.epochs(),
            skipped: self.loaders.each_ref().map(XrayLoader::skipped),
            waited: self.loaders[0].waited().as_secs_f64(),
            digest: self.digest.clone(),
        };
        serde_json::to_value(state).unwrap_or_default()
    }

    fn resume(&mut self, state: &Value, best: Option<f64>) -> Result<(), String> {
        self.restore(state, best).map_err(|e| e.to_string())
    }
}
