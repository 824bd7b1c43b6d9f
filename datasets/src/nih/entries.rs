//! `Data_Entry_2017_v2020.csv` and `Data_Entry_2017.csv`: one image a row.

use std::path::Path;

use super::Pathology;
use crate::csv_file::{Column, CsvFile, Row, Rows};
use crate::dataset::Dataset;
use crate::labels::LabelSet;
use crate::record::{LabelValue, Record, Sex, View};
use crate::table_error::TableError;

/// What stands in the column of labels for an image without any.
const NO_FINDING: &str = "No Finding";

/// Reads the table `text`; `path` names it in messages.
pub(super) fn parse(path: &Path, text: &str) -> Result<Dataset, TableError> {
    let csv = CsvFile::new(path, text, Rows::AnyLength)?;
    // The columns after these have unquoted commas in their names; the rows before them fit.
    let image = csv.column("Image Index")?;
    let findings = csv.column("Finding Labels")?;
    let patient = csv.column("Patient ID")?;
    let follow_up = csv.optional_column("Follow-up #")?;
    let age = csv.optional_column("Patient Age")?;
    let sex = csv.optional_column("Patient Gender")?;
    let view = csv.optional_column("View Position")?;
    let records = csv.rows(|row| {
        Ok(Record {
            image: row.filled_cell(&image)?.to_owned(),
            patient: row.filled_cell(&patient)?.to_owned(),
            labels: labels(row, &findings)?,
            row: row.number(),
            age: row.attribute(age.as_ref(), "an age such as 58 or 058Y", years)?,
            sex: row.attribute(sex.as_ref(), "M, F or O", |code| match code {
                "M" => Some(Sex::Male),
                "F" => Some(Sex::Female),
                "O" => Some(Sex::Other),
                _ => None,
            })?,
            view: row.attribute(view.as_ref(), "a view", |code| Some(View::from_code(code)))?,
            follow_up: row.attribute(follow_up.as_ref(), "a whole number", |number| {
                number.parse().ok()
            })?,
        })
    })?;
    Dataset::new(path, LabelSet::nih(), records)
}

/// The findings of one image, separated by `|`.
fn labels(row: Row<'_>, column: &Column) -> Result<Box<[LabelValue]>, TableError> {
    let mut labels = [LabelValue::Negative; Pathology::ALL.len()];
    let cell = row.filled_cell(column)?;
    if cell != NO_FINDING {
        for name in cell.split('|') {
            let pathology: Pathology = name.trim().parse().map_err(|_| {
                let known = Pathology::ALL.map(Pathology::name).join(", ");
                row.refuse(column, name, format!("one of {NO_FINDING}, {known}"))
            })?;
            labels[pathology as usize] = LabelValue::Positive;
        }
    }
    Ok(labels.into())
}

/// An age in years: plain, or as DICOM's age string, three digits with D, W, M or Y.
fn years(cell: &str) -> Option<f32> {
    let (digits, per_year) = match cell.as_bytes().last()? {
        b'Y' => (&cell[..cell.len() - 1], 1.0),
        b'M' => (&cell[..cell.len() - 1], 12.0),
        b'W' => (&cell[..cell.len() - 1], 365.25 / 7.0),
        b'D' => (&cell[..cell.len() - 1], 365.25),
        _ => (cell, 1.0),
    };
    let number: u16 = digits.parse().ok()?;
    Some(f32::from(number) / per_year)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADER: &str = "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,\
        Patient Gender,View Position,OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y]";

    fn dataset(rows: &str) -> Result<Dataset, TableError> {
        parse(Path::new("d.csv"), &format!("{HEADER}\n{rows}"))
    }

    fn message(rows: &str) -> String {
        dataset(rows).unwrap_err().to_string()
    }

    #[test]
    fn a_row_of_2020_is_read_whole() {
        let rows = "00000001_001.png,Cardiomegaly|Emphysema,1,1,58,M,PA,2894,2729,0.143,0.143\n";
        let dataset = dataset(rows).unwrap();
        let mut labels = [LabelValue::Negative; 14];
        labels[1] = LabelValue::Positive;
        labels[10] = LabelValue::Positive;
        assert_eq!(
            dataset.records(),
            [Record {
                age: Some(58.0),
                sex: Some(Sex::Male),
                view: Some(View::PosteroAnterior),
                follow_up: Some(1),
                ..Record::new("00000001_001.png", "1", labels, 2)
            }]
        );
    }

    #[test]
    fn the_table_of_2017_has_another_header_and_other_ages() {
        let table = format!(
            "{HEADER},\r\n\
             a.png,No Finding,0,1,058Y,F,AP,2682,2749,0.143,0.143,\r\n\
             b.png,Infiltrate,0,2,006M,F,AP,2682,2749,0.143,0.143,\r\n\
             c.png,Hernia,0,3,,,,2682,2749,0.143,0.143,\r\n"
        );
        let dataset = parse(Path::new("d.csv"), &table).unwrap();
        let ages: Vec<_> = dataset.records().iter().map(|record| record.age).collect();
        assert_eq!(ages, [Some(58.0), Some(0.5), None]);
        assert_eq!(dataset.records()[2].sex, None);
        assert_eq!(dataset.positives()[3], 1);
        let rows: Vec<_> = dataset.records().iter().map(|record| record.row).collect();
        assert_eq!(rows, [2, 3, 4]);
    }

    #[test]
    fn an_unknown_label_is_refused_with_file_and_row() {
        assert_eq!(
            message("a.png,Mass,0,1,58,M,PA,1,1,1,1\nb.png,Mass|Oedema,0,1,58,M,PA,1,1,1,1\n"),
            "d.csv, row 3, column \"Finding Labels\": \"Oedema\" is not one of No Finding, \
             Atelectasis, Cardiomegaly, Effusion, Infiltration, Mass, Nodule, Pneumonia, \
             Pneumothorax, Consolidation, Edema, Emphysema, Fibrosis, Pleural_Thickening, Hernia"
        );
    }

    #[test]
    fn other_bad_rows_are_refused() {
        assert_eq!(
            message("a.png,Mass,0,1,old,M,PA,1,1,1,1\n"),
            "d.csv, row 2, column \"Patient Age\": \"old\" is not an age such as 58 or 058Y"
        );
        assert_eq!(
            message("a.png,Mass,0,1,58,X,PA,1,1,1,1\n"),
            "d.csv, row 2, column \"Patient Gender\": \"X\" is not M, F or O"
        );
        assert_eq!(
            message("a.png,,0,1,58,M,PA,1,1,1,1\n"),
            "d.csv, row 2, column \"Finding Labels\": \"\" is not filled: give it a value"
        );
        assert_eq!(
            message("a.png,Mass,0\n"),
            "d.csv, row 2: the row ends before the column \"Patient ID\": complete it or remove it"
        );
    }

    #[test]
    fn a_missing_column_is_named() {
        let error = parse(
            Path::new("d.csv"),
            "Image Index,Finding Labels,Age\na,Mass,3\n",
        );
        assert_eq!(
            error.unwrap_err().to_string(),
            "d.csv: there is no column \"Patient ID\"; the columns are \
             [\"Image Index\", \"Finding Labels\", \"Age\"]"
        );
    }

    #[test]
    fn ages_are_years() {
        assert_eq!(years("58"), Some(58.0));
        assert_eq!(years("003M"), Some(0.25));
        assert_eq!(years("052W").map(f32::round), Some(1.0));
        assert_eq!(years("365D").map(f32::round), Some(1.0));
        assert_eq!(years("Y"), None);
        assert_eq!(years("-3"), None);
        assert_eq!(years("5ä"), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,300}") {
            if let Err(error) = parse(Path::new("d.csv"), &format!("{HEADER}\n{text}")) {
                prop_assert!(!error.to_string().contains('\n'));
            }
        }
    }
}
