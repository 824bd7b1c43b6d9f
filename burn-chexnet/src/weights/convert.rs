//! Weights of others made this project's own: with labels and preprocessing.

use std::collections::BTreeSet;

use burn::tensor::Device;

use super::error::printable;
use super::metadata::is_label;
use super::{Checkpoint, Head, Metadata, Network, WeightsError};
use crate::Preprocessing;

/// What a file of weights does not say itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversion {
    /// Names of its outputs, in their order; those that the file has when `None`. Metadata of this
    /// project has them, and they stay.
    pub labels: Option<Vec<String>>,
    /// The outputs that stay, by name, in the order to come; all when `None`.
    pub keep: Option<Vec<String>>,
    /// How the input is made; as the file says when `None`. Its channels may be others than those of
    /// the file, see [`Checkpoint::load_into`].
    pub preprocessing: Option<Preprocessing>,
}

/// The network in `checkpoint`, with labels and preprocessing: [`Network::save`] writes a file that
/// every other program of this project takes.
///
/// ```no_run
/// use burn::tensor::Device;
/// use burn_chexnet::Preprocessing;
/// use burn_chexnet::weights::{Checkpoint, Conversion, convert};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let checkpoint = Checkpoint::open("xrv-all.pth")?;
/// let conversion = Conversion {
///     keep: Some(vec!["Effusion".to_string(), "Edema".to_string()]),
///     ..Conversion::default()
/// };
/// let network = convert(&checkpoint, &conversion, &Device::flex())?;
/// network.save("xrv.safetensors")?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// If the architecture is none of this project's, if nothing names the outputs or says how the input
/// is made, or if the tensors do not fit.
pub fn convert(
    checkpoint: &Checkpoint,
    conversion: &Conversion,
    device: &Device,
) -> Result<Network, WeightsError> {
    let path = checkpoint.path();
    let architecture = checkpoint.known_architecture()?;
    let named = named(checkpoint, conversion.labels.clone())?;
    let (labels, head) = match &conversion.keep {
        None => (named, Head::Whole),
        Some(keep) => {
            let rows = rows(checkpoint, &named, keep)?;
            (keep.clone(), Head::Outputs(rows))
        }
    };
    let unique: BTreeSet<&String> = labels.iter().collect();
    if unique.len() < labels.len() || !labels.iter().all(|label| is_label(label)) {
        return Err(WeightsError::outputs(
            path,
            format!(
                "a label is empty, not on one line or there twice in {}: keep each that has a name, once",
                printable(&labels.join(","))
            ),
        ));
    }
    let preprocessing = conversion.preprocessing.clone();
    let preprocessing = preprocessing
        .or(checkpoint.preprocessing())
        .ok_or_else(|| WeightsError::Metadata {
            path: path.to_path_buf(),
            reason: "nothing says how its input is made: name the preprocessing".to_string(),
        })?;
    let origin = checkpoint.metadata();
    let metadata = Metadata {
        architecture,
        norm_epsilon: checkpoint.norm_epsilon(),
        split: origin.and_then(|origin| origin.split.clone()),
        // Of other outputs or another input they would not be true.
        metrics: origin
            .filter(|origin| origin.labels == labels && origin.preprocessing == preprocessing)
            .map(|origin| origin.metrics.clone())
            .unwrap_or_default(),
        labels,
        preprocessing,
    };
    Network::of_checkpoint(checkpoint, metadata, &head, device)
}

/// The outputs of `checkpoint` with the names that are given, or its own.
fn named(checkpoint: &Checkpoint, given: Option<Vec<String>>) -> Result<Vec<String>, WeightsError> {
    let path = checkpoint.path();
    let outputs = checkpoint
        .outputs()
        .ok_or_else(|| WeightsError::outputs(path, "it has no classifier, only a backbone"))?;
    if let (Some(_), Some(metadata)) = (&given, checkpoint.metadata()) {
        return Err(WeightsError::outputs(
            path,
            format!(
                "they have names already, {}: keep some of them, in another order, but give no others",
                metadata.labels.join(", ")
            ),
        ));
    }
    let labels = given.or(checkpoint.labels()).ok_or_else(|| {
        WeightsError::outputs(
            path,
            format!("nothing names the {outputs}: give their labels, in their order"),
        )
    })?;
    match labels.len() == outputs {
        true => Ok(labels),
        false => Err(WeightsError::outputs(
            path,
            format!(
                "{outputs} for {} labels: name all of them, in their order, and keep those that you want",
                labels.len()
            ),
        )),
    }
}

/// The positions of `wanted` among `labels`.
fn rows(
    checkpoint: &Checkpoint,
    labels: &[String],
    wanted: &[String],
) -> Result<Vec<usize>, WeightsError> {
    let row = |label: &String| {
        labels
            .iter()
            .position(|other| other == label)
            .ok_or_else(|| {
                WeightsError::outputs(
                    checkpoint.path(),
                    format!("there is no {label:?} among {}", labels.join(", ")),
                )
            })
    };
    wanted.iter().map(row).collect()
}
