//! Predictions of one side of a split, and their ROC curves.

use burn::data::dataloader::DataLoader;
use burn_dist::progress::Progress;
use burn_dist::train::TrainError;

use super::figures::LabelledRoc;
use super::{RunError, XrayLoader};
use crate::metrics::{Evaluation, LabelMetrics, MetricError, roc_curve};
use crate::model::Classifier;
use crate::predictions::Predictions;

/// The predictions of `network` (in evaluation mode) over all images of `loader`; `label` names
/// them in the progress.
///
/// # Errors
///
/// If an image cannot be read or the device failed.
pub fn predictions_of<C: Classifier>(
    network: &C,
    loader: &XrayLoader,
    label: &str,
) -> Result<Predictions, RunError> {
    let mut predictions = Predictions::default();
    let mut progress = Progress::new(label, loader.num_items(), "images");
    let mut batches = loader.iter();
    while let Some(batch) = batches.next() {
        let batch = batch.map_err(|e| TrainError::Data(e.to_string()))?;
        predictions.add(network.logits(batch.images), &batch.truth, &batch.names)?;
        progress.set(batches.progress().items_processed);
    }
    progress.finish("");
    Ok(predictions)
}

/// The ROC curve of each label of `evaluation`.
pub(super) fn roc_curves(
    predictions: &Predictions,
    evaluation: &Evaluation,
) -> Result<Vec<LabelledRoc>, MetricError> {
    let curve = |(index, label): (usize, &LabelMetrics)| {
        let (scores, truth): (Vec<f32>, Vec<bool>) = predictions
            .records
            .iter()
            .filter_map(|record| Some((record.probabilities[index], record.truth[index]?)))
            .unzip();
        let points = match label.auroc {
            Some(_) => roc_curve(&scores, &truth)?,
            None => Vec::new(),
        };
        Ok(LabelledRoc {
            label: label.label.clone(),
            auroc: label.auroc,
            points,
        })
    };
    evaluation.labels.iter().enumerate().map(curve).collect()
}
