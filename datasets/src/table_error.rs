//! What can be wrong with a table or a list.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::labels::LabelError;
use crate::place::Place;

/// What can be wrong with a table or a list. Each names the file, and the row where there is one:
/// a line of the file, counted from 1.
#[derive(Debug, Error)]
pub enum TableError {
    /// The file cannot be opened or read.
    #[error("{}: cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A folder where a file is wanted.
    #[error("{}: this is a folder: name the file itself", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
    },
    /// The file has no byte, or nothing but blanks.
    #[error("{}: the file is empty: download or write it again", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The file has a header and nothing else.
    #[error("{}: there is a header but no row: download or write the file again", path.display())]
    NoRows {
        /// The file.
        path: PathBuf,
    },
    /// The file is not text in UTF-8.
    #[error("{}, row {row}: this is not UTF-8: save the file as UTF-8 text", path.display())]
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// The row.
        row: u64,
    },
    /// Lines end with a carriage return alone, as on old Macintosh systems.
    #[error("{}, row {row}: the line ends with a carriage return alone: save the file with the line ends LF or CRLF", path.display())]
    CarriageReturn {
        /// The file.
        path: PathBuf,
        /// The row.
        row: u64,
    },
    /// The columns are separated by something else than commas.
    #[error("{}: the columns are separated by {separator:?}: save the file with commas between them", path.display())]
    Separator {
        /// The file.
        path: PathBuf,
        /// What stands between the columns.
        separator: char,
    },
    /// The table of a data set that is known by its folder.
    #[error("{}: this is a table in the layout of {data_set}, which has no columns \"image\" and \"patient\": name the folder that it lies in", path.display())]
    KnownByFolder {
        /// The file.
        path: PathBuf,
        /// The data set.
        data_set: &'static str,
    },
    /// A column is not in the header.
    #[error("{}: there is no column {column:?}; the columns are {found:?}", path.display())]
    MissingColumn {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// The columns that are there.
        found: Vec<String>,
    },
    /// Two columns have the name of one that is read.
    #[error("{}: there are two columns {column:?}: rename or remove one", path.display())]
    ColumnTwice {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
    },
    /// A row has another number of cells than the header.
    #[error("{}, row {row}: {found} cells under a header of {expected}: look for a comma or a quote too many", path.display())]
    CellCount {
        /// The file.
        path: PathBuf,
        /// The row.
        row: u64,
        /// The number of cells.
        found: usize,
        /// The number of columns.
        expected: usize,
    },
    /// A cell goes on over the end of its line.
    #[error("{}, row {row}: a cell goes on over the end of the line: look for a quote that is not closed", path.display())]
    LineBreak {
        /// The file.
        path: PathBuf,
        /// The row.
        row: u64,
    },
    /// A row ends before a column.
    #[error("{}, row {row}: the row ends before the column {column:?}: complete it or remove it", path.display())]
    ShortRow {
        /// The file.
        path: PathBuf,
        /// The row.
        row: u64,
        /// The column.
        column: String,
    },
    /// A cell holds what its column does not allow.
    #[error("{}, row {row}, column {column:?}: {value:?} is not {expected}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// The row.
        row: u64,
        /// The column.
        column: String,
        /// The cell.
        value: String,
        /// What the column allows.
        expected: String,
    },
    /// The columns do not make a set of labels.
    #[error("{}: {source}", path.display())]
    Labels {
        /// The file.
        path: PathBuf,
        /// Why.
        source: LabelError,
    },
    /// A record does not have one value for each label.
    #[error("{}, row {row}: {found} label values for {expected} labels: give one for each", path.display())]
    LabelCount {
        /// The file.
        path: PathBuf,
        /// The row.
        row: u64,
        /// The number of values.
        found: usize,
        /// The number of labels.
        expected: usize,
    },
    /// Two rows name one image.
    #[error("the image {image:?} is in {first}, and in {second}: remove one of them")]
    DuplicateImage {
        /// The image.
        image: String,
        /// The first row.
        first: Place,
        /// The second row.
        second: Place,
    },
    /// Two tables of one data set do not have the same labels.
    #[error("{}: the labels {second_labels:?} are not those of {}, {first_labels:?}: give both the same columns in the same order", second.display(), first.display())]
    OtherLabels {
        /// The first table.
        first: PathBuf,
        /// Its labels.
        first_labels: Vec<String>,
        /// The second table.
        second: PathBuf,
        /// Its labels.
        second_labels: Vec<String>,
    },
    /// The folder is not that of the data set, or not all of it.
    #[error("{}: there is no {} in this folder, nor a {}: name the folder that the files of {data_set} are in, or the CSV table itself for other data", folder.display(), names[0], names[1])]
    NoTable {
        /// The folder.
        folder: PathBuf,
        /// The names that the table may have.
        names: [&'static str; 2],
        /// The data set.
        data_set: &'static str,
    },
    /// One of a set of files is there and another is not.
    #[error("{}: the file is missing beside {}: the two belong together", path.display(), present.display())]
    MissingPartner {
        /// The file that is missing.
        path: PathBuf,
        /// The file that is there.
        present: PathBuf,
    },
}
