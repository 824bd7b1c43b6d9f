//! Why a prediction ends early.

use std::path::PathBuf;

use chest_datasets::ImageError;

use crate::PreprocessingError;
use crate::heat_map::HeatMapError;
use crate::predictions::{DeviceError, Predictions};
use crate::weights::WeightsError;

/// Why a prediction ends early: one line that names the file, image or label.
#[derive(Debug, thiserror::Error)]
pub enum PredictError {
    /// A file or folder that was named cannot be read.
    #[error("{}: {reason}", path.display())]
    Input {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// There is no image to predict.
    #[error("no PNG or JPEG in {}: name files, or folders that have some", folders.join(", "))]
    NoImages {
        /// What was searched.
        folders: Vec<String>,
    },
    /// None of the images can be decoded.
    #[error("none of the {count} images can be decoded, the first: {first}")]
    AllSkipped {
        /// Images that were named.
        count: usize,
        /// The first, and why.
        first: String,
    },
    /// A probability is not a number.
    #[error("{image}: the probability of {label} is {probability}: the weights are damaged")]
    NotFinite {
        /// The image.
        image: String,
        /// The label.
        label: String,
        /// The probability.
        probability: f32,
    },
    /// A label that the weights do not have.
    #[error("the weights have no label {label:?}: they have {known}")]
    UnknownLabel {
        /// The label.
        label: String,
        /// Those they have.
        known: String,
    },
    /// Two heat maps would have one name.
    #[error(
        "the heat maps of {first} and {second} would both be {name}: predict them in two calls"
    )]
    SameName {
        /// The first image.
        first: String,
        /// The second.
        second: String,
        /// The file.
        name: String,
    },
    /// The folder of the heat maps cannot be made.
    #[error("cannot use the folder {}: {reason}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The probabilities cannot be written.
    #[error("cannot write the predictions: {0}")]
    Write(#[from] std::io::Error),
    /// An image that cannot be decoded, where such images are not to be left out.
    #[error("{0} (--on-bad-image skip leaves such images out)")]
    BadImage(ImageError),
    /// An image.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// Weights.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The input of the network.
    #[error(transparent)]
    Preprocessing(#[from] PreprocessingError),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A heat map.
    #[error(transparent)]
    HeatMap(#[from] HeatMapError),
}

/// Weights that overflow give numbers that no table should hold.
pub(super) fn ensure_finite(
    predictions: &Predictions,
    labels: &[String],
) -> Result<(), PredictError> {
    for record in &predictions.records {
        for (label, probability) in labels.iter().zip(&record.probabilities) {
            if !probability.is_finite() {
                return Err(PredictError::NotFinite {
                    image: record.image.clone(),
                    label: label.clone(),
                    probability: *probability,
                });
            }
        }
    }
    Ok(())
}
