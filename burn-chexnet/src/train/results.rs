//! The results of a run: `results.json`, and the table that ends it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use chest_datasets::BadImage;
use serde::{Deserialize, Serialize};

use super::RunError;
use crate::metrics::Evaluation;
use crate::written::write_whole;

/// What a run achieved on the test side, with the weights of the lowest validation loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Mean of the AUROCs that are defined; `null` if none is.
    pub mean_auroc: Option<f64>,
    /// Labels whose AUROC is undefined, since all test images are of one class.
    pub undefined: usize,
    /// The labels by name.
    pub labels: BTreeMap<String, LabelResult>,
    /// Training images a second, waiting for data included.
    pub images_per_second: f64,
    /// Share of the training time that was spent waiting for images, 0 to 1.
    pub waited_for_images: f64,
    /// Images that cannot be decoded and were left out (`--on-bad-image skip`).
    pub skipped: Vec<BadImage>,
    /// Epochs trained.
    pub epochs: usize,
    /// Whether training ended since the validation loss no longer fell (`--early-stopping`).
    pub stopped_early: bool,
    /// Epoch of the weights, from 1.
    pub best_epoch: usize,
    /// Lowest validation loss.
    pub validation_loss: f64,
    /// Images used on each side, without those that were left out.
    pub images: SideCounts,
    /// A digest of the images and labels on all sides, to tell later whether they are still the same.
    pub data_digest: String,
    /// The full evaluation, in the order of the labels.
    #[serde(skip)]
    pub evaluation: Option<Evaluation>,
}

/// The result of one label.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabelResult {
    /// Area under the ROC curve; `null` if all known test images are of one class.
    pub auroc: Option<f64>,
    /// Lower end of DeLong's 95 % interval.
    pub ci_low: Option<f64>,
    /// Upper end of DeLong's 95 % interval.
    pub ci_high: Option<f64>,
    /// Positive test images.
    pub positives: usize,
    /// Negative test images.
    pub negatives: usize,
}

/// Numbers of images on each side of the split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SideCounts {
    /// Training images.
    pub training: usize,
    /// Validation images.
    pub validation: usize,
    /// Test images.
    pub test: usize,
}

impl Results {
    /// Writes `results.json`.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), RunError> {
        let path = path.as_ref();
        let text = serde_json::to_string_pretty(self).map_err(|e| RunError::file(path, e))?;
        write_whole(path, (text + "\n").as_bytes()).map_err(|e| RunError::file(path, e))
    }
}

/// The labels of an evaluation by name.
pub(super) fn by_name(evaluation: &Evaluation) -> BTreeMap<String, LabelResult> {
    let results = evaluation.labels.iter().map(|label| {
        let result = LabelResult {
            auroc: label.auroc,
            ci_low: label.ci_low,
            ci_high: label.ci_high,
            positives: label.positives,
            negatives: label.negatives,
        };
        (label.label.clone(), result)
    });
    results.collect()
}

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(evaluation) = &self.evaluation {
            writeln!(f, "{evaluation}")?;
        }
        if let Some(first) = self.skipped.first() {
            writeln!(
                f,
                "left out, since they cannot be decoded: {}, the first: {first} (all in results.json)",
                self.skipped.len()
            )?;
        }
        write!(
            f,
            "{} test images, weights of epoch {}, validation loss {:.4}, {:.1} training images/s, {:.1} % of the time waiting for images",
            self.images.test,
            self.best_epoch,
            self.validation_loss,
            self.images_per_second,
            100.0 * self.waited_for_images
        )
    }
}
