//! `BBox_List_2017.csv`: one box a row.

use std::path::Path;

use super::Pathology;
use crate::csv_file::{Column, CsvFile, Row, Rows};
use crate::table_error::TableError;

/// A box that a radiologist drew around a finding, in pixels of the original image of 1024 by
/// 1024.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundingBox {
    /// The image's name.
    pub image: String,
    /// The finding.
    pub label: Pathology,
    /// Left edge, from the left edge of the image.
    pub x: f32,
    /// Upper edge, from the upper edge of the image.
    pub y: f32,
    /// Width.
    pub width: f32,
    /// Height.
    pub height: f32,
}

/// Reads the list `text`; `path` names it in messages.
pub(super) fn parse(path: &Path, text: &str) -> Result<Vec<BoundingBox>, TableError> {
    let csv = CsvFile::new(path, text, Rows::AnyLength)?;
    let image = csv.column("Image Index")?;
    let label = csv.column("Finding Label")?;
    // One name with unquoted commas, `Bbox [x,y,w,h]`, makes the names of four columns.
    let x = csv.column("Bbox [x")?;
    let y = csv.column("y")?;
    let width = csv.column("w")?;
    let height = csv.column("h]")?;
    csv.rows(|row| {
        let name = row.filled_cell(&label)?;
        Ok(BoundingBox {
            image: row.filled_cell(&image)?.to_owned(),
            label: name.parse().map_err(|_| {
                let known = Pathology::ALL.map(Pathology::name).join(", ");
                row.refuse(&label, name, format!("one of {known}"))
            })?,
            x: number(row, &x, 0.0)?,
            y: number(row, &y, 0.0)?,
            width: number(row, &width, f32::MIN_POSITIVE)?,
            height: number(row, &height, f32::MIN_POSITIVE)?,
        })
    })
}

/// A number of pixels of at least `least`.
fn number(row: Row<'_>, column: &Column, least: f32) -> Result<f32, TableError> {
    let cell = row.cell(column)?;
    match cell.parse::<f32>() {
        Ok(number) if number.is_finite() && number >= least => Ok(number),
        _ if least > 0.0 => Err(row.refuse(column, cell, "a number of pixels above 0")),
        _ => Err(row.refuse(column, cell, "a number of pixels of at least 0")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADER: &str = "Image Index,Finding Label,Bbox [x,y,w,h],,,\r\n";

    fn boxes(rows: &str) -> Result<Vec<BoundingBox>, TableError> {
        parse(Path::new("b.csv"), &format!("{HEADER}{rows}"))
    }

    #[test]
    fn the_header_of_nih_is_understood() {
        assert_eq!(
            boxes("a.png,Infiltrate,1.5,2,3.25,4\r\n").unwrap(),
            [BoundingBox {
                image: "a.png".to_owned(),
                label: Pathology::Infiltration,
                x: 1.5,
                y: 2.0,
                width: 3.25,
                height: 4.0,
            }]
        );
    }

    #[test]
    fn bad_boxes_are_refused_with_their_row() {
        let message = |rows| boxes(rows).unwrap_err().to_string();
        assert_eq!(
            message("a.png,Mass,1,2,3,4\r\na.png,Mass,1,NaN,3,4\r\n"),
            "b.csv, row 3, column \"y\": \"NaN\" is not a number of pixels of at least 0"
        );
        assert_eq!(
            message("a.png,Mass,1,2,3,0\r\n"),
            "b.csv, row 2, column \"h]\": \"0\" is not a number of pixels above 0"
        );
        assert!(message("a.png,Tumour,1,2,3,4\r\n").starts_with(
            "b.csv, row 2, column \"Finding Label\": \"Tumour\" is not one of Atelectasis, "
        ));
        assert_eq!(
            message("a.png,Mass,1,2\r\n"),
            "b.csv, row 2: the row ends before the column \"w\": complete it or remove it"
        );
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,300}") {
            if let Ok(boxes) = parse(Path::new("b.csv"), &format!("{HEADER}{text}")) {
                prop_assert!(boxes.iter().all(|b| b.width > 0.0 && b.x.is_finite()));
            }
        }
    }
}
