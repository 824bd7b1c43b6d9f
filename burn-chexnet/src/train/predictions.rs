//! Probabilities keyed by image: what evaluation reads, and what replicas will gather.

use burn::data::dataloader::DataLoader;
use burn::tensor::Tensor;
use burn_dist::progress::Progress;
use burn_dist::train::TrainError;

use super::figures::LabelledRoc;
use super::{RunError, XrayLoader};
use crate::metrics::{Evaluation, LabelMetrics, MetricError, evaluate, roc_curve};
use crate::model::{Classifier, probabilities};

/// The probabilities of one image.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Name of the image.
    pub image: String,
    /// Probability of each label.
    pub probabilities: Vec<f32>,
    /// The truth of each label; `None` where it is not known.
    pub truth: Vec<Option<bool>>,
}

/// The predictions of a model over many images.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Predictions {
    /// One an image.
    pub records: Vec<Prediction>,
}

impl Predictions {
    /// Adds the images of a batch: `logits`, `[batch, labels]`, the truth in the same layout and
    /// the names of the images.
    ///
    /// # Errors
    ///
    /// If the device failed.
    pub fn add(
        &mut self,
        logits: Tensor<2>,
        truth: &[Option<bool>],
        names: &[String],
    ) -> Result<(), RunError> {
        let labels = logits.dims()[1];
        let values = probabilities(logits)
            .try_into_data()
            .map_err(|e| RunError::Device(e.to_string()))?
            .try_to_vec::<f32>()
            .map_err(|e| RunError::Device(e.to_string()))?;
        let rows = values.chunks(labels).zip(truth.chunks(labels));
        for (image, (probabilities, truth)) in names.iter().zip(rows) {
            self.records.push(Prediction {
                image: image.clone(),
                probabilities: probabilities.to_vec(),
                truth: truth.to_vec(),
            });
        }
        Ok(())
    }

    /// The predictions of `network` (in evaluation mode) over all images of `loader`.
    ///
    /// # Errors
    ///
    /// If an image cannot be read or the device failed.
    pub fn of<C: Classifier>(
        network: &C,
        loader: &XrayLoader,
        label: &str,
    ) -> Result<Self, RunError> {
        let mut predictions = Self::default();
        let mut progress = Progress::new(label, loader.num_items(), "images");
        for batch in loader.iter() {
            let batch = batch.map_err(|e| TrainError::Data(e.to_string()))?;
            predictions.add(network.logits(batch.images), &batch.truth, &batch.names)?;
            progress.set(predictions.records.len());
        }
        progress.finish("");
        Ok(predictions)
    }

    /// AUROC of each label.
    ///
    /// # Errors
    ///
    /// If a probability is not a number.
    pub fn evaluate(&self, labels: &[String]) -> Result<Evaluation, MetricError> {
        let probabilities: Vec<f32> = self
            .records
            .iter()
            .flat_map(|record| record.probabilities.iter().copied())
            .collect();
        let truth: Vec<Option<bool>> = self
            .records
            .iter()
            .flat_map(|record| record.truth.iter().copied())
            .collect();
        evaluate(labels, &probabilities, &truth)
    }

    /// The ROC curve of each label of `evaluation`.
    ///
    /// # Errors
    ///
    /// If a probability is not a number.
    pub fn roc_curves(&self, evaluation: &Evaluation) -> Result<Vec<LabelledRoc>, MetricError> {
        let curve = |(index, label): (usize, &LabelMetrics)| {
            let (scores, truth): (Vec<f32>, Vec<bool>) = self
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
}
