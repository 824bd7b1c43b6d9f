//! Images that cannot be decoded, and what is done about them. It may not decode.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::place::Place;
use crate::source::ImageSource;

/// What is done about an image that cannot be decoded.
///
/// A file that cannot be *read* (no permission, a drive that is gone) is not a bad image: it stops
/// either way, or a drive that drops out would thin the data unseen.
///
/// ```
/// use chest_datasets::OnBadImage;
///
/// assert_eq!("skip".parse(), Ok(OnBadImage::Skip));
/// assert_eq!(OnBadImage::default().to_string(), "stop");
/// assert_eq!(
///     "ignore".parse::<OnBadImage>().unwrap_err().to_string(),
///     "\"ignore\" is not stop or skip"
/// );
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnBadImage {
    /// The first one is an error.
    #[default]
    Stop,
    /// It is left out and [listed](crate::Loader::skipped).
    Skip,
}

impl OnBadImage {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Stop, Self::Skip];

    /// `stop` or `skip`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Skip => "skip",
        }
    }
}

impl fmt::Display for OnBadImage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// A name that is nothing to be done about a bad image.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{name:?} is not stop or skip")]
pub struct UnknownOnBadImage {
    /// The name.
    pub name: String,
}

impl FromStr for OnBadImage {
    type Err = UnknownOnBadImage;

    /// Reads `stop` or `skip`.
    fn from_str(name: &str) -> Result<Self, UnknownOnBadImage> {
        Self::ALL
            .into_iter()
            .find(|choice| choice.name() == name)
            .ok_or_else(|| UnknownOnBadImage {
                name: name.to_owned(),
            })
    }
}

/// An image without pixels. It prints as one line with the file, the reason, the table and the row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadImage {
    /// The table that lists it.
    pub table: PathBuf,
    /// The row of the table.
    pub row: u64,
    /// The image as the table names it.
    pub image: String,
    /// What is wrong, in one line; it begins with the path of the file.
    pub reason: String,
}

impl BadImage {
    /// The image of the record `index`, which must be one of `source`; `reason` is without the path.
    pub(crate) fn new(source: &ImageSource, index: usize, reason: &str) -> Self {
        let dataset = source.dataset();
        let record = &dataset.records()[index];
        let path = source.path(index).unwrap_or(Path::new(&record.image));
        let Place { table, row } = dataset.place(index);
        Self {
            table,
            row,
            image: record.image.clone(),
            reason: format!("{}: {reason}", path.display()).replace(['\r', '\n'], " "),
        }
    }
}

impl fmt::Display for BadImage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            table, row, reason, ..
        } = self;
        write!(formatter, "{reason} ({}, row {row})", table.display())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Dataset;

    #[test]
    fn a_choice_is_its_name_in_text_and_json() {
        for choice in OnBadImage::ALL {
            assert_eq!(choice.to_string().parse(), Ok(choice));
            let json = serde_json::to_string(&choice).unwrap();
            assert_eq!(json, format!("{:?}", choice.name()));
            assert_eq!(serde_json::from_str::<OnBadImage>(&json).unwrap(), choice);
        }
    }

    #[test]
    fn a_bad_image_is_one_line_and_survives_json() {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("table.csv");
        std::fs::write(&table, "image,patient,Mass\n1.png,1,0\n").unwrap();
        std::fs::write(folder.path().join("1.png"), "").unwrap();
        let dataset = Arc::new(Dataset::from_csv(&table, None).unwrap());
        let source = ImageSource::new(dataset, folder.path(), &[0]).unwrap();
        let bad = BadImage::new(&source, 0, "two\nlines");
        let path = source.path(0).unwrap().display();
        assert_eq!(
            bad.to_string(),
            format!("{path}: two lines ({}, row 2)", table.display())
        );
        assert_eq!(bad.image, "1.png");
        let json = serde_json::to_string(&bad).unwrap();
        assert_eq!(serde_json::from_str::<BadImage>(&json).unwrap(), bad);
    }
}
