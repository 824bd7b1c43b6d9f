//! The records of one table, or of several with the same labels. It may not depend on how a table is
//! read, nor on images.

use std::collections::HashMap;
use std::collections::HashSet;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};

use crate::labels::{LabelError, LabelSet};
use crate::place::Place;
use crate::record::{LabelValue, Record, View};
use crate::table_error::TableError;

/// The records of one table, or of [several](Self::concat), and the labels that they carry.
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
    /// The tables after the first, each with the index of its first record.
    further_tables: Vec<(usize, PathBuf)>,
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
        let other = |record: &&Record| record.labels.len() != labels.len();
        if let Some(record) = records.iter().find(other) {
            return Err(TableError::LabelCount {
                path: table,
                row: record.row,
                found: record.labels.len(),
                expected: labels.len(),
            });
        }
        Self {
            table,
            further_tables: Vec::new(),
            labels,
            records,
        }
        .with_different_images()
    }

    /// The records of `first`, then those of `second`.
    ///
    /// # Errors
    ///
    /// The two do not have the same labels in the same order ([`select`](Self::select) puts them
    /// in order), or both have a record of one image.
    ///
    /// ```
    /// use chest_datasets::{Dataset, LabelSet, LabelValue, Record};
    ///
    /// let table = |table: &str, image: &str| {
    ///     let record = Record::new(image, "1", [LabelValue::Positive], 2);
    ///     Dataset::new(table, LabelSet::new(["Mass"])?, vec![record])
    ///         .map_err(Box::<dyn std::error::Error>::from)
    /// };
    /// let both = Dataset::concat(table("train.csv", "1.png")?, table("valid.csv", "2.png")?)?;
    /// assert_eq!(both.len(), 2);
    /// assert_eq!(both.place(1).to_string(), "valid.csv, row 2");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn concat(mut first: Self, second: Self) -> Result<Self, TableError> {
        if first.labels != second.labels {
            return Err(TableError::OtherLabels {
                first: first.table,
                first_labels: first.labels.into(),
                second: second.table,
                second_labels: second.labels.into(),
            });
        }
        let offset = first.len();
        let further = second.further_tables.into_iter();
        first.further_tables.push((offset, second.table));
        first
            .further_tables
            .extend(further.map(|(index, table)| (offset + index, table)));
        first.records.extend(second.records);
        first.with_different_images()
    }

    /// Refuses two records of one image.
    fn with_different_images(self) -> Result<Self, TableError> {
        let mut indices = HashMap::with_capacity(self.len());
        for (index, record) in self.records.iter().enumerate() {
            match indices.entry(record.image.as_str()) {
                Entry::Vacant(entry) => entry.insert(index),
                Entry::Occupied(entry) => {
                    return Err(TableError::DuplicateImage {
                        image: record.image.clone(),
                        first: self.place(*entry.get()),
                        second: self.place(index),
                    });
                }
            };
        }
        Ok(self)
    }

    /// The file that the records come from; the first if there are several.
    pub fn table(&self) -> &Path {
        &self.table
    }

    /// The files that the records come from, for messages: `table.csv`, or
    /// `train.csv and valid.csv`.
    pub fn tables(&self) -> String {
        let further = self.further_tables.iter().map(|(_, table)| table);
        let names = std::iter::once(&self.table).chain(further);
        let names: Vec<String> = names.map(|table| table.display().to_string()).collect();
        names.join(" and ")
    }

    /// The table and the row that the record `index` comes from.
    ///
    /// # Panics
    ///
    /// If `index` is beyond the records.
    pub fn place(&self, index: usize) -> Place {
        let mut further = self.further_tables.iter().rev();
        let table = further.find(|(first, _)| *first <= index);
        Place {
            table: table.map_or(&self.table, |(_, table)| table).clone(),
            row: self.records[index].row,
        }
    }

    /// The labels that every record carries.
    pub fn labels(&self) -> &LabelSet {
        &self.labels
    }

    /// The records, in the order of the table; of several tables, one after the other.
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
            further_tables: self.further_tables.clone(),
            labels: labels.clone(),
            records: records.collect(),
        })
    }

    /// The same records with the label values that `change` makes of the index of a record, the
    /// position of a label, and its value.
    pub(crate) fn map_labels(
        mut self,
        mut change: impl FnMut(usize, usize, LabelValue) -> LabelValue,
    ) -> Self {
        for (index, record) in self.records.iter_mut().enumerate() {
            for (label, value) in record.labels.iter_mut().enumerate() {
                *value = change(index, label, *value);
            }
        }
        self
    }

    /// Those of `indices` whose view is not [`View::Lateral`]; a record without a view stays.
    ///
    /// CheXNet takes frontal images only, and NIH has no others.
    ///
    /// # Panics
    ///
    /// If an index is beyond the records.
    ///
    /// ```
    /// use chest_datasets::{Dataset, LabelSet, LabelValue, Record, View};
    ///
    /// let record = |image: &str, view| Record {
    ///     view,
    ///     ..Record::new(image, "1", [LabelValue::Negative], 2)
    /// };
    /// let views = [Some(View::PosteroAnterior), Some(View::Lateral), None];
    /// let records = ["1.png", "2.png", "3.png"].into_iter().zip(views);
    /// let records = records.map(|(image, view)| record(image, view)).collect();
    /// let dataset = Dataset::new("table.csv", LabelSet::new(["Mass"])?, records)?;
    /// assert_eq!(dataset.frontal(0..dataset.len()), [0, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn frontal(&self, indices: impl IntoIterator<Item = usize>) -> Vec<usize> {
        indices
            .into_iter()
            .filter(|index| self.records[*index].view != Some(View::Lateral))
            .collect()
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
            "the image \"a.png\" is in t.csv, row 2, and in t.csv, row 7: remove one of them"
        );
    }

    /// A data set of one table `name`, with a record for each image from row 2 on.
    fn table(name: &str, images: &[&str]) -> Dataset {
        let records = images
            .iter()
            .zip(2..)
            .map(|(image, row)| Record::new(*image, "1", [LabelValue::Negative; 2], row))
            .collect();
        Dataset::new(name, labels(), records).unwrap()
    }

    #[test]
    fn every_record_knows_its_table() {
        let both = Dataset::concat(table("t.csv", &["a", "b"]), table("u.csv", &["c"])).unwrap();
        let all = Dataset::concat(table("s.csv", &["d"]), both).unwrap();
        let all = all.select(&LabelSet::new(["Edema"]).unwrap()).unwrap();
        let places: Vec<_> = (0..4).map(|index| all.place(index).to_string()).collect();
        assert_eq!(
            places,
            [
                "s.csv, row 2",
                "t.csv, row 2",
                "t.csv, row 3",
                "u.csv, row 2"
            ]
        );
        assert_eq!(all.table(), Path::new("s.csv"));
        assert_eq!(all.tables(), "s.csv and t.csv and u.csv");
        let images: Vec<_> = all.records().iter().map(|record| &*record.image).collect();
        assert_eq!(images, ["d", "a", "b", "c"]);
    }

    #[test]
    fn an_image_in_two_tables_is_refused_with_both_places() {
        let error = Dataset::concat(table("t.csv", &["a", "b"]), table("u.csv", &["c", "b"]));
        assert_eq!(
            error.unwrap_err().to_string(),
            "the image \"b\" is in t.csv, row 3, and in u.csv, row 3: remove one of them"
        );
    }

    #[test]
    fn tables_with_other_labels_are_refused() {
        let other = table("u.csv", &["b"]);
        let other = other.select(&LabelSet::new(["Edema", "Mass"]).unwrap());
        let error = Dataset::concat(table("t.csv", &["a"]), other.unwrap());
        assert_eq!(
            error.unwrap_err().to_string(),
            "u.csv: the labels [\"Edema\", \"Mass\"] are not those of t.csv, [\"Mass\", \"Edema\"]: \
             give both the same columns in the same order"
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
