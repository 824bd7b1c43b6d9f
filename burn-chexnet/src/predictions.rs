//! Probabilities keyed by image: what prediction gives, evaluation reads and replicas gather.
//!
//! May use `model` and `metrics`; may not know where images come from.

use std::collections::BTreeMap;

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::metrics::{Evaluation, MetricError, evaluate};
use crate::model::probabilities;

/// The probabilities of one image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Name of the image.
    pub image: String,
    /// Probability of each label.
    pub probabilities: Vec<f32>,
    /// The truth of each label; `None` where it is not known, empty where none is.
    pub truth: Vec<Option<bool>>,
}

/// The predictions of a model over many images.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Predictions {
    /// One an image.
    pub records: Vec<Prediction>,
}

/// The device could not compute or hand over a result.
#[derive(Debug, thiserror::Error)]
#[error("the device failed: {0}")]
pub struct DeviceError(pub String);

impl Predictions {
    /// Adds the images of a batch: `logits`, `[batch, labels]`, the truth in the same layout (or
    /// nothing) and the names of the images.
    ///
    /// # Errors
    ///
    /// If the device failed.
    pub fn add(
        &mut self,
        logits: Tensor<2>,
        truth: &[Option<bool>],
        names: &[String],
    ) -> Result<(), DeviceError> {
        let labels = logits.dims()[1].max(1);
        let values = probabilities(logits)
            .try_into_data()
            .map_err(|e| DeviceError(e.to_string()))?
            .try_to_vec::<f32>()
            .map_err(|e| DeviceError(e.to_string()))?;
        let mut truth = truth.chunks(labels);
        for (image, probabilities) in names.iter().zip(values.chunks(labels)) {
            self.records.push(Prediction {
                image: image.clone(),
                probabilities: probabilities.to_vec(),
                truth: truth.next().unwrap_or_default().to_vec(),
            });
        }
        Ok(())
    }

    /// The predictions of all `parts`, each image once, in the order of the images' names: what one
    /// process would have, however the images were shared out and padded.
    ///
    /// ```
    /// use burn_chexnet::{Prediction, Predictions};
    /// let part = |images: &[&str]| Predictions {
    ///     records: images
    ///         .iter()
    ///         .map(|image| Prediction {
    ///             image: image.to_string(),
    ///             probabilities: vec![0.5],
    ///             truth: vec![Some(true)],
    ///         })
    ///         .collect(),
    /// };
    /// // The second replica was one image short and had its first once more.
    /// let all = Predictions::gather([part(&["a", "c"]), part(&["b", "a"])]);
    /// assert_eq!(all, part(&["a", "b", "c"]));
    /// ```
    pub fn gather(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut by_image = BTreeMap::new();
        for record in parts.into_iter().flat_map(|part| part.records) {
            by_image.entry(record.image.clone()).or_insert(record);
        }
        Self {
            records: by_image.into_values().collect(),
        }
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
}
