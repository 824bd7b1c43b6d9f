//! What became of the tensors of a file.

use std::fmt::{Display, Formatter};
use std::path::PathBuf;

/// What was loaded, and all that was done to it on the way. One line when displayed.
///
/// Nothing is missing, unexpected or of another shape where there is a report: that is a
/// [`Mismatch`](super::WeightsError::Mismatch).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The file.
    pub path: PathBuf,
    /// Tensors that were loaded: 606 for DenseNet-121, 604 without its classifier.
    pub loaded: usize,
    /// How they were found in the file, and what of it was left out or changed, in words.
    pub notes: Vec<String>,
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} tensors of {}", self.loaded, self.path.display())?;
        for note in &self.notes {
            write!(f, "; {note}")?;
        }
        Ok(())
    }
}
