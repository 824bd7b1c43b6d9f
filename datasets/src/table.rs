//! Any table `image,patient,<label>...`. It may not depend on the tables of known data sets, but for
//! the names that tell them.

use std::path::Path;

use crate::chexpert;
use crate::csv_file::{Column, CsvFile, Row, Rows};
use crate::dataset::Dataset;
use crate::labels::LabelSet;
use crate::nih;
use crate::record::{LabelValue, Record};
use crate::table_error::TableError;
use crate::text_file;

impl Dataset {
    /// Reads a table in CSV with the columns `image`, `patient` and one for each label.
    ///
    /// Columns are found by name. Without `labels` every column but `image` and `patient` is a
    /// label, in the order of the table; with it those columns are taken, in the set's order.
    ///
    /// A cell is 1, 0, -1 ([`LabelValue::Uncertain`]) or empty ([`LabelValue::Missing`]); the
    /// spellings `1.0`, `0.0` and `-1.0` of pandas count as well. An image may be named with folders,
    /// relative to the table's folder.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("table.csv");
    /// use chest_datasets::{Dataset, LabelValue};
    ///
    /// std::fs::write(&path, "image,patient,Edema,Mass\nscans/1.png,anna,1.0,\n")?;
    /// let dataset = Dataset::from_csv(&path, None)?;
    /// assert_eq!(dataset.labels().to_string(), "Edema, Mass");
    /// assert_eq!(
    ///     *dataset.records()[0].labels,
    ///     [LabelValue::Positive, LabelValue::Missing]
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A file that cannot be read or is empty; a missing column; any other value; a row that ends
    /// early; an image named twice. Each error names the file, and the row where there is one.
    pub fn from_csv(path: impl AsRef<Path>, labels: Option<LabelSet>) -> Result<Self, TableError> {
        let path = path.as_ref();
        read(path, &text_file::read(path)?, labels)
    }
}

fn read(path: &Path, text: &str, labels: Option<LabelSet>) -> Result<Dataset, TableError> {
    let csv = CsvFile::new(path, text, Rows::LikeHeader)?;
    let image = csv
        .column("image")
        .map_err(|error| known_by_folder(&csv, path).unwrap_or(error))?;
    let patient = csv.column("patient")?;
    let labels = match labels {
        Some(labels) => labels,
        None => {
            let others = csv.header().iter();
            label_set(
                path,
                others.filter(|name| **name != image.name && **name != patient.name),
            )?
        }
    };
    let columns = label_columns(&csv, &labels)?;
    let records = csv.rows(|row| {
        Ok(Record::new(
            row.filled_cell(&image)?,
            row.filled_cell(&patient)?,
            values(row, &columns)?,
            row.number(),
        ))
    })?;
    Dataset::new(path, labels, records)
}

/// What `csv` is if it is the table of a data set that is known by its folder.
fn known_by_folder(csv: &CsvFile<'_>, path: &Path) -> Option<TableError> {
    let columns = [
        ("Image Index", nih::NAME),
        ("Frontal/Lateral", chexpert::NAME),
    ];
    let known = columns
        .into_iter()
        .find(|(column, _)| csv.header().iter().any(|name| name == column));
    known.map(|(_, data_set)| TableError::KnownByFolder {
        path: path.to_owned(),
        data_set,
    })
}

/// The labels called `names`; `path` names the table in messages.
pub(crate) fn label_set<'a>(
    path: &Path,
    names: impl IntoIterator<Item = &'a String>,
) -> Result<LabelSet, TableError> {
    LabelSet::new(names).map_err(|source| TableError::Labels {
        path: path.to_owned(),
        source,
    })
}

/// The column of each label.
pub(crate) fn label_columns(
    csv: &CsvFile<'_>,
    labels: &LabelSet,
) -> Result<Vec<Column>, TableError> {
    labels.names().iter().map(|name| csv.column(name)).collect()
}

/// What a row says of each label.
pub(crate) fn values(row: Row<'_>, columns: &[Column]) -> Result<Box<[LabelValue]>, TableError> {
    columns.iter().map(|column| value(row, column)).collect()
}

fn value(row: Row<'_>, column: &Column) -> Result<LabelValue, TableError> {
    match row.cell(column)? {
        "1" | "1.0" => Ok(LabelValue::Positive),
        "0" | "0.0" => Ok(LabelValue::Negative),
        "-1" | "-1.0" => Ok(LabelValue::Uncertain),
        "" => Ok(LabelValue::Missing),
        other => Err(row.refuse(column, other, "1, 0, -1 (uncertain) or empty (missing)")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn dataset(content: &[u8], labels: Option<&[&str]>) -> Result<Dataset, TableError> {
        let labels = labels.map(|names| LabelSet::new(names.iter().copied()).unwrap());
        let path = Path::new("t.csv");
        read(path, &text_file::decode(path, content.to_vec())?, labels)
    }

    fn message(content: &[u8]) -> String {
        dataset(content, None).unwrap_err().to_string()
    }

    #[test]
    fn every_column_but_image_and_patient_is_a_label() {
        let dataset = dataset(
            b"Mass,image,Edema,patient\n1,a/b.png,,p 1\n-1.0,c.png,0.0,2\n",
            None,
        )
        .unwrap();
        assert_eq!(dataset.labels().names(), ["Mass", "Edema"]);
        assert_eq!(
            dataset.records(),
            [
                Record::new(
                    "a/b.png",
                    "p 1",
                    [LabelValue::Positive, LabelValue::Missing],
                    2
                ),
                Record::new(
                    "c.png",
                    "2",
                    [LabelValue::Uncertain, LabelValue::Negative],
                    3
                ),
            ]
        );
    }

    #[test]
    fn a_label_set_takes_its_columns_in_its_order() {
        let table = b"image,patient,Age,Edema,Mass\na,1,61,0,1\n";
        let dataset = dataset(table, Some(&["Mass", "Edema"])).unwrap();
        assert_eq!(
            *dataset.records()[0].labels,
            [LabelValue::Positive, LabelValue::Negative]
        );
    }

    #[test]
    fn missing_columns_are_named_with_those_that_are_there() {
        let error = dataset(b"image,patient,Edema\na,1,0\n", Some(&["Mass"])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "t.csv: there is no column \"Mass\"; the columns are [\"image\", \"patient\", \"Edema\"]"
        );
        assert_eq!(
            message(b"Path,patient,Edema\na,1,0\n"),
            "t.csv: there is no column \"image\"; the columns are [\"Path\", \"patient\", \"Edema\"]"
        );
    }

    #[test]
    fn the_tables_of_known_data_sets_are_named() {
        assert_eq!(
            message(b"Image Index,Finding Labels,Follow-up #,Patient ID\na.png,Mass,0,1\n"),
            "t.csv: this is a table in the layout of NIH ChestX-ray14, which has no columns \"image\" \
             and \"patient\": name the folder that it lies in"
        );
        assert!(
            message(b"Path,Sex,Age,Frontal/Lateral,AP/PA,Edema\na,Male,1,Frontal,AP,1\n")
                .starts_with("t.csv: this is a table in the layout of CheXpert, ")
        );
    }

    #[test]
    fn other_separators_are_named() {
        assert_eq!(
            message(b"image;patient;Mass\na;1;0\n"),
            "t.csv: the columns are separated by ';': save the file with commas between them"
        );
        assert!(message(b"image\tpatient\na\t1\n").contains(r"separated by '\t'"));
    }

    #[test]
    fn other_values_are_refused_with_row_and_column() {
        assert_eq!(
            message(b"image,patient,Edema\na,1,0\nb,1,2\n"),
            "t.csv, row 3, column \"Edema\": \"2\" is not 1, 0, -1 (uncertain) or empty (missing)"
        );
        assert_eq!(
            message(b"image,patient,Edema\r\na,1,0\r\n\r\nb,1,\"yes\nno\"\r\n"),
            "t.csv, row 4: a cell goes on over the end of the line: look for a quote that is not closed"
        );
        assert_eq!(
            message(b"image,patient,Edema\n ,1,0\n"),
            "t.csv, row 2, column \"image\": \"\" is not filled: give it a value"
        );
    }

    #[test]
    fn damaged_tables_are_refused() {
        assert_eq!(
            message(b""),
            "t.csv: the file is empty: download or write it again"
        );
        assert_eq!(
            message(b"\n\r\n"),
            "t.csv: the file is empty: download or write it again"
        );
        assert_eq!(
            message(b"image,patient,Edema\n"),
            "t.csv: there is a header but no row: download or write the file again"
        );
        assert_eq!(
            message(b"image,patient,Edema\na,1,0\nb,1\n"),
            "t.csv, row 3: 2 cells under a header of 3: look for a comma or a quote too many"
        );
        assert_eq!(
            message(b"image,patient,Edema\na,Doe, 1,0\n"),
            "t.csv, row 2: 4 cells under a header of 3: look for a comma or a quote too many"
        );
        assert_eq!(
            message(b"image,patient,patient,Edema\na,1,1,0\n"),
            "t.csv: there are two columns \"patient\": rename or remove one"
        );
        assert_eq!(
            message(b"image,patient,Edema\na,1,0\nb,\xff,0\n"),
            "t.csv, row 3: this is not UTF-8: save the file as UTF-8 text"
        );
        assert_eq!(
            message(b"\xff\xfei\0m\0a\0g\0e\0\n\0"),
            "t.csv, row 1: this is not UTF-8: save the file as UTF-8 text"
        );
        assert_eq!(
            message(b"image,patient\na,1\n"),
            "t.csv: there is no label: give at least one, in a table as a column of 1 and 0"
        );
        assert_eq!(
            message(b"image,patient,Mass,Mass\na,1,0,0\n"),
            "t.csv: the label \"Mass\" is given twice, as number 1 and 2: remove one"
        );
        assert_eq!(
            message(b"image,patient,Mass\na,1,0\nb,1,0\na,2,0\n"),
            "the image \"a\" is in t.csv, row 2, and in t.csv, row 4: remove one of them"
        );
    }

    #[test]
    fn a_label_that_two_columns_have_is_refused() {
        let table = b"image,patient,Mass,Mass\na,1,0,1\n";
        assert_eq!(
            dataset(table, Some(&["Mass"])).unwrap_err().to_string(),
            "t.csv: there are two columns \"Mass\": rename or remove one"
        );
    }

    /// A quote that is not closed would swallow the rows behind it.
    #[test]
    fn a_quote_that_is_not_closed_is_refused() {
        let table = b"image,patient,Mass,note\na,1,0,\"seen\nb,2,1,\nc,3,0,\n";
        assert_eq!(
            dataset(table, Some(&["Mass"])).unwrap_err().to_string(),
            "t.csv, row 2: a cell goes on over the end of the line: look for a quote that is not closed"
        );
    }

    #[test]
    fn a_header_goes_on_over_no_line_end() {
        assert_eq!(
            message(b"\nimage,patient,\"Mass\na,1,0\nb,2,1\n"),
            "t.csv, row 2: a cell goes on over the end of the line: look for a quote that is not closed"
        );
    }

    #[test]
    fn files_that_are_none_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = Dataset::from_csv(folder.path(), None).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "{}: this is a folder: name the file itself",
                folder.path().display()
            )
        );
        let absent = folder.path().join("absent.csv");
        let error = Dataset::from_csv(&absent, None).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "{}: cannot be read: No such file or directory (os error 2)",
                absent.display()
            )
        );
    }

    #[test]
    fn a_byte_order_mark_is_skipped() {
        assert!(dataset(b"\xef\xbb\xbfimage,patient,Edema\na,1,0\n", None).is_ok());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = dataset(&bytes, None);
            let mut table = b"image,patient,Edema\n".to_vec();
            table.extend(bytes);
            if let Err(error) = dataset(&table, None) {
                prop_assert!(!error.to_string().contains('\n'));
            }
        }
    }
}
