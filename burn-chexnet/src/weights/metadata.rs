//! What travels with weights: one entry of the metadata of their safetensors file, as JSON.
//!
//! One entry and not one for each part: safetensors writes several in random order, and the same
//! run must give the same bytes.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{WeightsError, read_header};
use crate::Preprocessing;
use crate::model::Architecture;

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
    /// The split that the weights were trained on, if they were.
    pub split: Option<SplitOrigin>,
    /// Figures such as `validation_loss`, by name.
    pub metrics: BTreeMap<String, f64>,
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
    /// Reads the metadata of the weights at `path`, not the weights.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is no safetensors file, or has no metadata of this project
    /// that makes sense.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, WeightsError> {
        let path = path.as_ref();
        let error = |reason: String| WeightsError::Metadata {
            path: path.to_path_buf(),
            reason,
        };
        let entries = read_header(path)?;
        let entry = entries.get(KEY).ok_or_else(|| {
            error("it has none: these weights were not written by this project".to_string())
        })?;
        let metadata: Self = serde_json::from_str(entry).map_err(|e| error(e.to_string()))?;
        metadata
            .preprocessing
            .check()
            .map_err(|e| error(e.to_string()))?;
        Ok(metadata)
    }
}
