//! Where a record stands: a table and its row. It may not depend on how the table is read.

use std::fmt;
use std::path::PathBuf;

/// The row that a record comes from, for messages.
///
/// ```
/// use chest_datasets::Place;
///
/// let place = Place { table: "train.csv".into(), row: 7 };
/// assert_eq!(place.to_string(), "train.csv, row 7");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    /// The table.
    pub table: PathBuf,
    /// Line of the table, counted from 1 (the header).
    pub row: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}, row {}", self.table.display(), self.row)
    }
}
