//! A split as a CSV file, `image,patient,split`.

use std::path::Path;

use super::{SIDES, Side, Split, SplitError};
use crate::csv_file::{CsvFile, Rows};
use crate::dataset::Dataset;
use crate::text_file;

impl Split {
    /// Reads a split from a CSV file with the columns `image` and `split`.
    ///
    /// `split` is `train`, `validation` (also `val` or `valid`) or `test`. Images that the file does
    /// not name are on no side. An image may be named several times: on two sides, it is an overlap
    /// that [`check`](Self::check) reports.
    ///
    /// ```
    /// # use chest_datasets::{Dataset, LabelSet, LabelValue, Record, Split};
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("split.csv");
    /// # let records = (0..9).map(|row: u64| {
    /// #     Record::new(row.to_string(), row.to_string(), [LabelValue::Negative], row)
    /// # });
    /// # let dataset = Dataset::new("table.csv", LabelSet::new(["Mass"])?, records.collect())?;
    /// let split = Split::random(&dataset, 42);
    /// split.write_csv(&path, &dataset)?;
    /// assert_eq!(Split::from_csv(&path, &dataset)?, split);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A file that cannot be read or is empty; a missing column; another side; images that the data
    /// set does not have.
    pub fn from_csv(path: impl AsRef<Path>, dataset: &Dataset) -> Result<Self, SplitError> {
        let path = path.as_ref();
        read(path, &text_file::read(path)?, dataset)
    }

    /// Writes the split as a CSV file with the columns `image,patient,split`, side after side.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    ///
    /// # Panics
    ///
    /// If the split was made for another data set with more records.
    pub fn write_csv(&self, path: impl AsRef<Path>, dataset: &Dataset) -> Result<(), SplitError> {
        let path = path.as_ref();
        self.write(path, dataset)
            .map_err(|error| SplitError::Write {
                path: path.to_owned(),
                source: error.into(),
            })
    }

    fn write(&self, path: &Path, dataset: &Dataset) -> Result<(), csv::Error> {
        let mut writer = csv::Writer::from_path(path)?;
        writer.write_record(["image", "patient", "split"])?;
        for side in Side::ALL {
            for &index in self.side(side) {
                let record = &dataset.records()[index];
                writer.write_record([&record.image, &record.patient, side.name()])?;
            }
        }
        Ok(writer.flush()?)
    }
}

fn read(path: &Path, text: &str, dataset: &Dataset) -> Result<Split, SplitError> {
    let csv = CsvFile::new(path, text, Rows::LikeHeader)?;
    let image = csv.column("image")?;
    let split = csv.column("split")?;
    let rows = csv.rows(|row| {
        let name = row.filled_cell(&split)?;
        let side: Side = name.parse().map_err(|_| row.refuse(&split, name, SIDES))?;
        Ok((row.filled_cell(&image)?.to_owned(), side))
    })?;

    let positions = dataset.positions();
    let mut sides = [const { Vec::new() }; 3];
    let mut unknown = Vec::new();
    for (image, side) in rows {
        match positions.get(image.as_str()) {
            Some(index) => sides[side as usize].push(*index),
            None => unknown.push(image),
        }
    }
    match unknown.first() {
        None => Ok(Split::sorted(sides)),
        Some(first) => Err(SplitError::UnknownImages {
            list: path.to_owned(),
            count: unknown.len(),
            first: first.clone(),
            tables: dataset.tables(),
        }),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{LabelSet, LabelValue, Record};

    fn dataset() -> Dataset {
        let records = (0..4).map(|row: u64| {
            let image = format!("folder, {row}.png");
            Record::new(
                image,
                (row / 2).to_string(),
                [LabelValue::Negative],
                row + 2,
            )
        });
        Dataset::new("t.csv", LabelSet::new(["Mass"]).unwrap(), records.collect()).unwrap()
    }

    fn message(content: &str) -> String {
        let error = read(Path::new("s.csv"), content, &dataset()).unwrap_err();
        error.to_string()
    }

    #[test]
    fn what_is_written_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("split.csv");
        let dataset = dataset();
        // Image 1 is on two sides, image 2 on none.
        let split = Split::new(&dataset, vec![0, 1], vec![3], vec![1]).unwrap();
        split.write_csv(&path, &dataset).unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            "image,patient,split\n\
             \"folder, 0.png\",0,train\n\
             \"folder, 1.png\",0,train\n\
             \"folder, 3.png\",1,validation\n\
             \"folder, 1.png\",0,test\n"
        );
        assert_eq!(Split::from_csv(&path, &dataset).unwrap(), split);
    }

    #[test]
    fn other_spellings_and_columns_are_read() {
        let table = "split,fold,image\nval,1,\"folder, 0.png\"\nvalid,2,\"folder, 2.png\"\n";
        let split = read(Path::new("s.csv"), table, &dataset()).unwrap();
        assert_eq!(split.validation(), [0, 2]);
        assert!(split.train().is_empty() && split.test().is_empty());
    }

    #[test]
    fn bad_splits_are_refused() {
        assert_eq!(
            message("image,split\n\"folder, 0.png\",dev\n"),
            "s.csv, row 2, column \"split\": \"dev\" is not train, validation or test"
        );
        assert_eq!(
            message("image,split\na.png,train\n\"folder, 0.png\",train\nb.png,test\n"),
            "s.csv: 2 images are not in t.csv, the first is \"a.png\": use the list of this table"
        );
        assert_eq!(
            message("image,side\na.png,train\n"),
            "s.csv: there is no column \"split\"; the columns are [\"image\", \"side\"]"
        );
    }

    #[test]
    fn a_place_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("absent/split.csv");
        let split = Split::random(&dataset(), 1);
        assert_eq!(
            split.write_csv(&path, &dataset()).unwrap_err().to_string(),
            format!(
                "{}: the split cannot be written: No such file or directory (os error 2)",
                path.display()
            )
        );
    }
}
