//! Train, validation and test: which record is on which side. It may not depend on images.
//!
//! One patient has several images, and a model that has seen one of them in training knows the
//! others. So records are assigned by patient, and every split can be [checked](Split::check).

mod assignment;
mod csv;
mod report;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use thiserror::Error;

pub use report::{Overlap, SideCount, SplitReport};

use crate::dataset::Dataset;
use crate::table_error::TableError;

/// What can be wrong with a split.
#[derive(Debug, Error)]
pub enum SplitError {
    /// The table of a split cannot be read.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The table of a split cannot be written.
    #[error("{}: the split cannot be written: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A list names images that the table does not have.
    #[error("{}: {count} images are not in {tables}, the first is {first:?}: use the list of this table", list.display())]
    UnknownImages {
        /// The list.
        list: PathBuf,
        /// The number of such images.
        count: usize,
        /// The first of them.
        first: String,
        /// The table; all if there are several.
        tables: String,
    },
    /// An index is beyond the records.
    #[error("index {index} is not one of the {records} records of {tables}")]
    UnknownIndex {
        /// The index.
        index: usize,
        /// The number of records.
        records: usize,
        /// The table; all if there are several.
        tables: String,
    },
    /// Patients or images are on two sides.
    #[error(
        "{patients} patients and {images} images of {tables} are on two sides of the split, the first patient is {first:?}: results would be too good; split by patient"
    )]
    Overlap {
        /// The table; all if there are several.
        tables: String,
        /// The number of patients on more than one side.
        patients: usize,
        /// The number of images on more than one side.
        images: usize,
        /// The first of the patients, in alphabetical order.
        first: String,
    },
}

/// A side of a split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// To learn from.
    Train,
    /// To choose a model and its thresholds with.
    Validation,
    /// To report results on.
    Test,
}

impl Side {
    /// All three.
    pub const ALL: [Self; 3] = [Self::Train, Self::Validation, Self::Test];

    /// `train`, `validation` or `test`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Validation => "validation",
            Self::Test => "test",
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// A name that is no side of a split.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{name:?} is not {}", SIDES)]
pub struct UnknownSide {
    /// The name.
    pub name: String,
}

/// The names of the sides, for messages.
const SIDES: &str = "train, validation or test";

impl FromStr for Side {
    type Err = UnknownSide;

    /// Reads `train`, `validation` (also `val` or `valid`) or `test`.
    fn from_str(name: &str) -> Result<Self, UnknownSide> {
        match name {
            "train" => Ok(Self::Train),
            "validation" | "valid" | "val" => Ok(Self::Validation),
            "test" => Ok(Self::Test),
            _ => Err(UnknownSide {
                name: name.to_owned(),
            }),
        }
    }
}

/// Which records of a data set are on which side: lists of indices, each ascending.
///
/// A split belongs to the data set that it was made for. Making one never hides that a patient or
/// an image is on two sides: [`check`](Self::check) reports it and
/// [`ensure_disjoint`](Self::ensure_disjoint) refuses it.
///
/// ```
/// use chest_datasets::{Dataset, LabelSet, LabelValue, Record, Split};
///
/// let records = (0..40).map(|row: u64| {
///     // Two images of each patient.
///     Record::new(format!("{row}.png"), (row / 2).to_string(), [LabelValue::Negative], row + 2)
/// });
/// let dataset = Dataset::new("table.csv", LabelSet::new(["Mass"])?, records.collect())?;
///
/// let split = Split::random(&dataset, 42);
/// assert_eq!((split.train().len(), split.validation().len(), split.test().len()), (28, 4, 8));
/// split.ensure_disjoint(&dataset)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    train: Vec<usize>,
    validation: Vec<usize>,
    test: Vec<usize>,
}

impl Split {
    /// A split of any lists of indices into the records of `dataset`. They are sorted, and an
    /// index that is twice in one list counts once.
    ///
    /// # Errors
    ///
    /// An index is beyond the records.
    pub fn new(
        dataset: &Dataset,
        train: Vec<usize>,
        validation: Vec<usize>,
        test: Vec<usize>,
    ) -> Result<Self, SplitError> {
        let mut indices = train.iter().chain(&validation).chain(&test);
        if let Some(&index) = indices.find(|index| **index >= dataset.len()) {
            return Err(SplitError::UnknownIndex {
                index,
                records: dataset.len(),
                tables: dataset.tables(),
            });
        }
        Ok(Self::sorted([train, validation, test]))
    }

    /// The lists, known to be of the data set, in the order of [`Side::ALL`].
    fn sorted(mut sides: [Vec<usize>; 3]) -> Self {
        for side in &mut sides {
            side.sort_unstable();
            side.dedup();
        }
        let [train, validation, test] = sides;
        Self {
            train,
            validation,
            test,
        }
    }

    /// The records to learn from.
    pub fn train(&self) -> &[usize] {
        &self.train
    }

    /// The records to choose a model with.
    pub fn validation(&self) -> &[usize] {
        &self.validation
    }

    /// The records to report results on.
    pub fn test(&self) -> &[usize] {
        &self.test
    }

    /// The records of one side.
    pub fn side(&self, side: Side) -> &[usize] {
        match side {
            Side::Train => &self.train,
            Side::Validation => &self.validation,
            Side::Test => &self.test,
        }
    }

    /// Counts the images and patients of each side, and those that two sides share.
    ///
    /// # Panics
    ///
    /// If the split was made for another data set with more records.
    pub fn check(&self, dataset: &Dataset) -> SplitReport {
        SplitReport::new(self, dataset)
    }

    /// Refuses a split with a patient or an image on two sides.
    ///
    /// # Errors
    ///
    /// [`SplitError::Overlap`] with the numbers of both.
    ///
    /// # Panics
    ///
    /// If the split was made for another data set with more records.
    pub fn ensure_disjoint(&self, dataset: &Dataset) -> Result<(), SplitError> {
        let report = self.check(dataset);
        match report.shared_patients.first() {
            None => Ok(()),
            Some(first) => Err(SplitError::Overlap {
                tables: dataset.tables(),
                patients: report.shared_patients.len(),
                images: report.shared_images,
                first: first.clone(),
            }),
        }
    }
}
