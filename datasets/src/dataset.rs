//! The records of one table. It may not depend on how the table is read, nor on images.

use std::collections::HashMap;
use std::collections::HashSet;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};

use crate::labels::{LabelError, LabelSet};
use crate::record::{LabelValue, Record};
use crate::table_error::TableError;

/// The records of one table and the labels that they carry.
///
/// Splits and orders are lists of indices into [`records`](Self::records).
///
/// ```
/// use chest_datasets::{Dataset, LabelSet, LabelValue, Record};
///
/// let labels = LabelSet::new(["Mass"])?;
/// let record = Record::new("1.png", "patient 1", [LabelValue::Positive], 2);
/// let dataset = Dataset::new("table.csv", labels, vec![record])?;
/// assert_eq!(dataset.positives(), [1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    table: PathBuf,
    labels: LabelSet,
    records: Vec<Record>,
}

impl Dataset {
    /// Makes a data set of `records`; `table` is the file that they come from, for messages.
    ///
    /// # Errors
    ///
    /// Two records have one image name, or a record does not have one value for each label.
    pub fn new(
        table: impl Into<PathBuf>,
        labels: LabelSet,
        records: Vec<Record>,
    ) -> Result<Self, TableError> {
        let table = table.into();
        let mut rows = HashMap::with_capacity(records.len());
        for record in &records {
            if record.labels.len() != labels.len() {
                return Err(TableError::LabelCount {
                    path: table,
                    row: record.row,
                    found: record.labels.len(),
                    expected: labels.len(),
                });
            }
            match rows.entry(record.image.as_str()) {
                Entry::Vacant(entry) => entry.insert(record.row),
                Entry::Occupied(entry) => {
                    return Err(TableError::DuplicateImage {
                        path: table,
                        image: record.image.clone(),
                        first: *entry.get(),
                        second: record.row,
                    });
                }
            };
        }
        Ok(Self {
            table,
            labels,
            records,
        })
    }

    /// The file that the records come from.
    pub fn table(&self) -> &Path {
        &self.table
    }

    /// The labels that every record carries.
    pub fn labels(&self) -> &LabelSet {
        &self.labels
    }

    /// The records, in the order of the table.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// The number of records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The number of positive records of each label, in the order of the labels.
    pub fn positives(&self) -> Vec<usize> {
        (0..self.labels.len())
            .map(|label| {
                self.records
                    .iter()
                    .filter(|record| record.labels[label] == LabelValue::Positive)
                    .count()
            })
            .collect()
    }

    /// The number of different patients.
    pub fn patients(&self) -> usize {
        self.records
            .iter()
            .map(|record| record.patient.as_str())
            .collect::<HashSet<_>>()
            .len()
    }

    /// The same records with the labels of `labels` only, in its order, found by name.
    ///
    /// # Errors
    ///
    /// `labels` has a label that the records do not carry; all such are named.
    ///
    /// ```
    /// use chest_datasets::{Dataset, LabelSet, LabelValue, Record};
    ///
    /// let labels = LabelSet::new(["Mass", "Edema"])?;
    /// let record = Record::new("1.png", "1", [LabelValue::Negative, LabelValue::Positive], 2);
    /// let dataset = Dataset::new("table.csv", labels, vec![record])?;
    /// let edema = dataset.select(&LabelSet::new(["Edema"])?)?;
    /// assert_eq!(&*edema.records()[0].labels, [LabelValue::Positive]);
    /// assert!(dataset.select(&LabelSet::new(["Hernia"])?).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn select(&self, labels: &LabelSet) -> Result<Self, LabelError> {
        let columns = labels.alignment(&self.labels)?;
        let records = self.records.iter().map(|record| Record {
            labels: columns
                .iter()
                .map(|&column| record.labels[column])
                .collect(),
            ..record.clone()
        });
        Ok(Self {
            table: self.table.clone(),
            labels: labels.clone(),
            records: records.collect(),
        })
    }

    /// The index of every record by its image name.
    pub fn positions(&self) -> HashMap<&str, usize> {
        self.records
            .iter()
            .enumerate()
            .map(|(index, record)| (record.image.as_str(), index))
            .collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    fn labels() -> LabelSet {
        LabelSet::new(["Mass", "Edema"]).unwrap()
    }

    #[test]
    fn counts_are_per_label_and_patient() {
        use LabelValue::{Missing, Negative, Positive, Uncertain};
        let dataset = Dataset::new(
            "t.csv",
            labels(),
            vec![
                Record::new("a", "1", [Positive, Uncertain], 2),
                Record::new("b", "2", [Positive, Missing], 3),
                Record::new("c", "1", [Negative, Positive], 4),
            ],
        )
        .unwrap();
        assert_eq!(dataset.positives(), [2, 1]);
        assert_eq!(dataset.patients(), 2);
        assert_eq!(dataset.positions()["c"], 2);
    }

    #[test]
    fn an_image_named_twice_is_refused_with_both_rows() {
        let twice = [2, 7].map(|row| Record::new("a.png", "1", [LabelValue::Negative; 2], row));
        let error = Dataset::new("t.csv", labels(), twice.to_vec()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "t.csv: the image \"a.png\" is in row 2 and in row 7: remove one of them"
        );
    }

    #[test]
    fn a_record_without_one_value_a_label_is_refused() {
        let record = Record::new("a.png", "1", [LabelValue::Negative], 2);
        let error = Dataset::new("t.csv", labels(), vec![record]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "t.csv, row 2: 1 label values for 2 labels: give one for each"
        );
    }
}
