//! What travels with weights: one entry of the metadata of their safetensors file, as JSON.
//!
//! One entry and not one for each part: safetensors writes several in random order, and the same
//! run must give the same bytes.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::WeightsError;
use super::checkpoint::{in_folder, safetensors_metadata};
use super::error::one_line;
use crate::model::Architecture;
use crate::{Preprocessing, norm};

/// Key of the entry.
pub(super) const KEY: &str = "chexnet";

/// What one must know to use weights: the network, its labels in the order of the logits, how
/// its input is made; and where the weights come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metadata {
    /// The network.
    pub architecture: Architecture,
    /// Label names in the order of the logits. Align by name, never by position.
    pub labels: Vec<String>,
    /// How pixels become the input.
    pub preprocessing: Preprocessing,
    /// What the norms add to the variance: 1e-5 in PyTorch, 1.001e-5 in Keras.
    #[serde(default = "default_epsilon")]
    pub norm_epsilon: f64,
    /// The split that the weights were trained on, if they were.
    pub split: Option<SplitOrigin>,
    /// Figures such as `validation_loss`, by name.
    pub metrics: BTreeMap<String, f64>,
}

fn default_epsilon() -> f64 {
    norm::EPSILON
}

/// Which images were training images.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitOrigin {
    /// Name of the split: `official`, `random` or a file.
    pub name: String,
    /// Seed of what is random in it.
    pub seed: u64,
    /// Images on the training side.
    pub training_images: usize,
}

impl Metadata {
    /// Reads the metadata of the weights at `path`, a file or the folder of a run, not the weights.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is no safetensors file, or has no metadata of this project
    /// that makes sense.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, WeightsError> {
        let path = in_folder(path.as_ref());
        of_entries(&path, &safetensors_metadata(&path)?)?.ok_or_else(|| none(&path))
    }
}

/// The metadata in the entries of the safetensors file at `path`, if this project has written it.
pub(super) fn of_entries(
    path: &Path,
    entries: &HashMap<String, String>,
) -> Result<Option<Metadata>, WeightsError> {
    let error = |reason: String| WeightsError::Metadata {
        path: path.to_path_buf(),
        reason,
    };
    let Some(entry) = entries.get(KEY) else {
        return Ok(None);
    };
    let metadata: Metadata =
        serde_json::from_str(entry).map_err(|e| error(one_line(&e.to_string())))?;
    metadata
        .preprocessing
        .check()
        .map_err(|e| error(e.to_string()))?;
    if let Some(label) = metadata.labels.iter().find(|label| !is_label(label)) {
        return Err(error(format!(
            "{label:?} is no label: one has text on one line"
        )));
    }
    match is_norm_epsilon(metadata.norm_epsilon) {
        true => Ok(Some(metadata)),
        false => Err(error(format!(
            "an epsilon of {}: expected a number from 0 to 1",
            metadata.norm_epsilon
        ))),
    }
}

/// The error of weights that other programs have written, where metadata is needed.
pub(super) fn none(path: &Path) -> WeightsError {
    WeightsError::Metadata {
        path: path.to_path_buf(),
        reason:
            "it has none, since this project has not written it: `cargo run --example weights -- convert` adds labels and preprocessing"
                .to_string(),
    }
}

/// Whether a label can be shown in a table and written in a list.
pub(super) fn is_label(label: &str) -> bool {
    !label.trim().is_empty() && !label.chars().any(char::is_control)
}

/// Whether a norm can have this epsilon.
pub(super) fn is_norm_epsilon(epsilon: f64) -> bool {
    epsilon > 0.0 && epsilon < 1.0
}
