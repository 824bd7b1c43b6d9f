//! Why weights cannot be read, written or used.

use std::path::{Path, PathBuf};

/// Why weights cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// The file cannot be opened or read.
    #[error("cannot read weights {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write weights {}: {reason}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The file is of no format that is read here, or damaged.
    #[error("cannot read {} as {format}: {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What it looks like.
        format: &'static str,
        /// Why.
        reason: String,
    },
    /// The tensors are of no network of this project, or of several.
    #[error("weights {}: {reason}", path.display())]
    Keys {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The metadata is missing or makes no sense.
    #[error("metadata of {}: {reason}", path.display())]
    Metadata {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The tensors are not those of the model.
    #[error(
        "{} does not fit the model: {loaded} tensors fit, {} missing{}, {} unexpected{}, {} that do not fit{}",
        path.display(),
        missing.len(), first(missing), unexpected.len(), first(unexpected),
        mismatched.len(), first(mismatched)
    )]
    Mismatch {
        /// The file.
        path: PathBuf,
        /// How many tensors fit.
        loaded: usize,
        /// Keys of the model, as torchvision has them, that the file lacks.
        missing: Vec<String>,
        /// Keys of the file that the model lacks.
        unexpected: Vec<String>,
        /// What is wrong with a tensor of the right name: its shape, its type or its values.
        mismatched: Vec<String>,
    },
    /// What is asked of the outputs cannot be had from these weights.
    #[error("outputs of {}: {reason}", path.display())]
    Outputs {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        reason: String,
    },
}

impl WeightsError {
    pub(super) fn keys(path: &Path, reason: impl Into<String>) -> Self {
        Self::Keys {
            path: path.to_path_buf(),
            reason: reason.into(),
        }
    }

    pub(super) fn outputs(path: &Path, reason: impl Into<String>) -> Self {
        Self::Outputs {
            path: path.to_path_buf(),
            reason: reason.into(),
        }
    }
}

fn first(names: &[String]) -> String {
    names
        .first()
        .map(|name| format!(" (first: {name})"))
        .unwrap_or_default()
}

/// Errors are one line: some of Burn's have a hint on a second.
pub(super) fn one_line(text: &str) -> String {
    printable(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The longest name out of a file that an error shows whole, in characters.
const LONGEST: usize = 300;

/// `text` out of a file without what a terminal would obey.
pub(super) fn printable(text: &str) -> String {
    let mut shown = String::new();
    for character in text.chars().take(LONGEST) {
        match character.is_control() {
            true => shown.extend(character.escape_default()),
            false => shown.push(character),
        }
    }
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}
