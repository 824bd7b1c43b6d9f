//! CheXpert: 224,316 radiographs of 65,240 patients, frontal and lateral (Irvin et al., *CheXpert*,
//! AAAI 2019, arXiv 1901.07031; <https://stanfordmlgroup.github.io/competitions/chexpert>). It may
//! not depend on splits or images.

use std::ops::Range;
use std::path::Path;

use crate::csv_file::{Column, CsvFile, Row, Rows};
use crate::dataset::Dataset;
use crate::record::{Record, Sex, View};
use crate::table;
use crate::table_error::TableError;
use crate::text_file;

/// The data set's name, for messages.
pub(crate) const NAME: &str = "CheXpert";
const TRAIN: &str = "train.csv";
const VALID: &str = "valid.csv";

/// The tables of CheXpert, of the full-size release and of `CheXpert-v1.0-small` alike. Images are
/// looked for only when they are read: see [`ImageSource`](crate::ImageSource).
///
/// The labels are those of the tables: 14 in what is published. Many of their values are not known:
/// -1, [uncertain](crate::LabelValue::Uncertain), or empty,
/// [not mentioned](crate::LabelValue::Missing). [`Dataset::with_policies`] replaces them.
///
/// Radiologists read the images of `valid.csv`, 200 patients, and a program the reports of
/// `train.csv`. So the usual test side is `valid.csv`, and validation a part of `train.csv`:
///
/// ```no_run
/// use chest_datasets::{CheXpert, LabelPolicies, Split};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let CheXpert { dataset, train, valid } = CheXpert::open("CheXpert-v1.0-small")?;
/// let (train, valid) = (dataset.frontal(train), dataset.frontal(valid));
/// let split = Split::with_test(&dataset, train, valid, 42)?;
/// let policies = LabelPolicies {
///     uncertain: "zeros,Edema=ones,Atelectasis=ones".parse()?,
///     blank: "zeros".parse()?,
/// };
/// let held_out = [split.validation(), split.test()].concat();
/// let (dataset, report) = dataset.with_policies(&policies, split.train(), &held_out)?;
/// println!("{report}\n{}", split.check(&dataset));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct CheXpert {
    /// The records of both tables.
    ///
    /// A record's image is named from the folder of its patient on:
    /// `patient00001/study1/view1_frontal.jpg`. What stands before it in the column `Path` differs
    /// between the releases, and from the folders of the archives that hold the full-size images.
    pub dataset: Dataset,
    /// The records of `train.csv`; none where the folder has no such file.
    pub train: Range<usize>,
    /// The records of `valid.csv`; none where the folder has no such file.
    pub valid: Range<usize>,
}

impl CheXpert {
    /// Whether one of the tables is in `folder`.
    pub fn is_in(folder: impl AsRef<Path>) -> bool {
        let folder = folder.as_ref();
        [TRAIN, VALID].iter().any(|name| folder.join(name).exists())
    }

    /// Reads `train.csv` and `valid.csv` in `folder`, or one of them where the other is not there.
    ///
    /// The columns are `Path`, `Sex`, `Age`, `Frontal/Lateral`, `AP/PA` and, after these, one for
    /// each label with the values of [`Dataset::from_csv`]. The patient is the part `patientNNNNN` of
    /// the path. A frontal image with `LL` or `RL` under `AP/PA`, of which there are a few, is not
    /// lateral but [`View::Other`]. The labels of the published test set lie in a table without sex,
    /// age and view, which is not read.
    ///
    /// # Errors
    ///
    /// Neither table is there; a file cannot be read, is empty, lacks a column or holds what it should
    /// not, such as a path without a patient; the two have different labels or an image in common.
    /// Each error names the file, and the row where there is one.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, TableError> {
        let folder = folder.as_ref();
        let read = |name| {
            let path = text_file::existing(folder, name);
            path.map(|path| parse(&path, &text_file::read(&path)?))
                .transpose()
        };
        let (train, valid) = (read(TRAIN)?, read(VALID)?);
        let trained = train.as_ref().map_or(0, Dataset::len);
        let dataset = match (train, valid) {
            (Some(train), Some(valid)) => Dataset::concat(train, valid)?,
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => return Err(text_file::no_table(folder, [TRAIN, VALID], NAME)),
        };
        Ok(Self {
            train: 0..trained,
            valid: trained..dataset.len(),
            dataset,
        })
    }
}

/// Reads the table `text`; `path` names it in messages.
fn parse(path: &Path, text: &str) -> Result<Dataset, TableError> {
    let csv = CsvFile::new(path, text, Rows::LikeHeader)?;
    let image = csv.column("Path")?;
    let sex = csv.column("Sex")?;
    let age = csv.column("Age")?;
    let side = csv.column("Frontal/Lateral")?;
    let position = csv.column("AP/PA")?;
    let names = csv.header().iter();
    let names = names.skip_while(|name| **name != position.name).skip(1);
    let labels = table::label_set(path, names)?;
    let columns = table::label_columns(&csv, &labels)?;
    let records = csv.rows(|row| {
        let (patient, name) = patient_and_image(row, &image)?;
        Ok(Record {
            age: row.attribute(Some(&age), "an age in years", years)?,
            sex: sex_of(row, &sex)?,
            view: view(row, &side, &position)?,
            ..Record::new(name, patient, table::values(row, &columns)?, row.number())
        })
    })?;
    Dataset::new(path, labels, records)
}

/// The patient of a path such as `CheXpert-v1.0/train/patient00001/study1/view1_frontal.jpg`, and
/// the path from there on.
fn patient_and_image<'a>(row: Row<'a>, column: &Column) -> Result<(&'a str, &'a str), TableError> {
    let path = row.filled_cell(column)?;
    let mut start = 0;
    for part in path.split('/') {
        let number = part.strip_prefix("patient").unwrap_or("");
        let is_patient = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        let image = &path[start..];
        if is_patient && image.len() > part.len() + 1 {
            return Ok((part, image));
        }
        start += part.len() + 1;
    }
    let expected = "the path of an image with its patient's folder, such as \
        CheXpert-v1.0/train/patient00001/study1/view1_frontal.jpg";
    Err(row.refuse(column, path, expected))
}

fn years(cell: &str) -> Option<f32> {
    let years = cell.parse().ok()?;
    (0.0..f32::INFINITY).contains(&years).then_some(years)
}

/// `Unknown` is an attribute that is not there.
fn sex_of(row: Row<'_>, column: &Column) -> Result<Option<Sex>, TableError> {
    let sex = row.attribute(Some(column), "Male, Female or Unknown", |cell| match cell {
        "Male" => Some(Some(Sex::Male)),
        "Female" => Some(Some(Sex::Female)),
        "Unknown" => Some(None),
        _ => None,
    })?;
    Ok(sex.flatten())
}

fn view(row: Row<'_>, side: &Column, position: &Column) -> Result<Option<View>, TableError> {
    let position = row.cell(position)?;
    match row.filled_cell(side)? {
        "Lateral" => Ok(Some(View::Lateral)),
        // Here "LL" is no side: `View::from_code` would make a lateral image of it.
        "Frontal" => Ok(match position {
            "" => None,
            "AP" => Some(View::AnteroPosterior),
            "PA" => Some(View::PosteroAnterior),
            other => Some(View::Other(other.to_owned())),
        }),
        other => Err(row.refuse(side, other, "Frontal or Lateral")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;
    use crate::{ImageSource, LabelValue, Split};

    const HEADER: &str = "Path,Sex,Age,Frontal/Lateral,AP/PA,No Finding,Edema";

    fn dataset(rows: &str) -> Result<Dataset, TableError> {
        parse(Path::new("train.csv"), &format!("{HEADER}\n{rows}"))
    }

    fn message(rows: &str) -> String {
        dataset(rows).unwrap_err().to_string()
    }

    /// A folder with these files, made of a header and rows.
    fn folder(files: &[(&str, &str)]) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, rows) in files {
            fs::write(folder.path().join(name), format!("{HEADER}\n{rows}")).unwrap();
        }
        folder
    }

    #[test]
    fn rows_are_read_whole() {
        use LabelValue::{Missing, Negative, Positive, Uncertain};
        let dataset = dataset(
            "CheXpert-v1.0-small/train/patient00001/study1/view1_frontal.jpg,Female,68,Frontal,AP,1.0,\n\
             CheXpert-v1.0-small/train/patient00002/study2/view2_lateral.jpg,Male,87,Lateral,,-1.0,0.0\n\
             CheXpert-v1.0-small/train/patient00003/study1/view1_frontal.jpg,Unknown,0,Frontal,LL,,\n",
        )
        .unwrap();
        assert_eq!(dataset.labels().names(), ["No Finding", "Edema"]);
        assert_eq!(
            dataset.records(),
            [
                Record {
                    age: Some(68.0),
                    sex: Some(Sex::Female),
                    view: Some(View::AnteroPosterior),
                    ..Record::new(
                        "patient00001/study1/view1_frontal.jpg",
                        "patient00001",
                        [Positive, Missing],
                        2
                    )
                },
                Record {
                    age: Some(87.0),
                    sex: Some(Sex::Male),
                    view: Some(View::Lateral),
                    ..Record::new(
                        "patient00002/study2/view2_lateral.jpg",
                        "patient00002",
                        [Uncertain, Negative],
                        3
                    )
                },
                Record {
                    age: Some(0.0),
                    view: Some(View::Other("LL".to_owned())),
                    ..Record::new(
                        "patient00003/study1/view1_frontal.jpg",
                        "patient00003",
                        [Missing, Missing],
                        4
                    )
                },
            ]
        );
        assert_eq!(dataset.frontal(0..3), [0, 2]);
    }

    #[test]
    fn a_path_needs_a_patient_and_an_image_of_it() {
        for path in [
            "train/view1.jpg",
            "patient/view1.jpg",
            "patient1x/view1.jpg",
            "train/patient00001",
            "train/patient00001/",
        ] {
            assert_eq!(
                message(&format!("{path},Male,1,Frontal,AP,,\n")),
                format!(
                    "train.csv, row 2, column \"Path\": \"{path}\" is not the path of an image with \
                     its patient's folder, such as \
                     CheXpert-v1.0/train/patient00001/study1/view1_frontal.jpg"
                )
            );
        }
    }

    #[test]
    fn other_bad_rows_are_refused() {
        let row = |rest: &str| message(&format!("patient1/a.jpg,{rest}\n"));
        assert_eq!(
            row("M,1,Frontal,AP,,"),
            "train.csv, row 2, column \"Sex\": \"M\" is not Male, Female or Unknown"
        );
        for age in ["-1", "NaN", "inf", "old"] {
            assert_eq!(
                row(&format!("Male,{age},Frontal,AP,,")),
                format!("train.csv, row 2, column \"Age\": \"{age}\" is not an age in years")
            );
        }
        assert_eq!(
            row("Male,1,Oblique,AP,,"),
            "train.csv, row 2, column \"Frontal/Lateral\": \"Oblique\" is not Frontal or Lateral"
        );
        assert_eq!(
            row("Male,1,Frontal,AP,2,"),
            "train.csv, row 2, column \"No Finding\": \"2\" is not 1, 0, -1 (uncertain) or empty \
             (missing)"
        );
        let error = parse(
            Path::new("train.csv"),
            "Path,Sex,Age,Frontal/Lateral,AP/PA\npatient1/a.jpg,Male,1,Frontal,AP\n",
        );
        assert!(
            error
                .unwrap_err()
                .to_string()
                .starts_with("train.csv: there is no label")
        );
    }

    #[test]
    fn either_table_may_be_absent_but_not_both() {
        let (a, b) = (
            "x/train/patient1/a.jpg,Male,1,Frontal,AP,,1\n",
            "x/valid/patient2/a.jpg,Male,1,Frontal,AP,0,1\n",
        );
        let open = |files: &[(&str, &str)]| CheXpert::open(folder(files).path()).unwrap();
        let both = open(&[(TRAIN, a), (VALID, b)]);
        assert_eq!((both.train.clone(), both.valid.clone()), (0..1, 1..2));
        let place = both.dataset.place(1);
        assert!(place.table.ends_with("valid.csv") && place.row == 2);
        assert!(both.dataset.place(0).table.ends_with("train.csv"));
        let train = open(&[(TRAIN, a)]);
        assert_eq!((train.train, train.valid), (0..1, 1..1));
        let valid = open(&[(VALID, b)]);
        assert_eq!((valid.train, valid.valid), (0..0, 0..1));

        let none = folder(&[]);
        assert_eq!(
            CheXpert::open(none.path()).unwrap_err().to_string(),
            format!(
                "{}: there is no train.csv in this folder, nor a valid.csv: name the folder that \
                 the files of CheXpert are in, or the CSV table itself for other data",
                none.path().display()
            )
        );
    }

    #[test]
    fn an_image_in_both_tables_is_refused_with_both_rows() {
        let folder = folder(&[
            (TRAIN, "x/train/patient1/a.jpg,Male,1,Frontal,AP,,1\n"),
            (VALID, "x/valid/patient1/a.jpg,Male,1,Frontal,AP,,1\n"),
        ]);
        let error = CheXpert::open(folder.path()).unwrap_err().to_string();
        let folder = folder.path().display();
        assert_eq!(
            error,
            format!(
                "the image \"patient1/a.jpg\" is in {folder}/train.csv, row 2, and in \
                 {folder}/valid.csv, row 2: remove one of them"
            )
        );
    }

    /// The small release has `train` and `valid`; the archives of the full-size images unpack to
    /// folders of other names.
    #[test]
    fn images_are_found_in_every_published_layout() {
        for layout in ["train", "CheXpert-v1.0 batch 2 (train 1)"] {
            let folder = folder(&[
                (
                    TRAIN,
                    "CheXpert-v1.0/train/patient1/study1/view1_frontal.jpg,Male,1,Frontal,AP,,1\n",
                ),
                (
                    VALID,
                    "CheXpert-v1.0/valid/patient2/study1/view1_frontal.jpg,Male,1,Frontal,AP,,1\n",
                ),
            ]);
            for study in [
                format!("{layout}/patient1/study1"),
                "valid/patient2/study1".to_owned(),
            ] {
                let study = folder.path().join(study);
                fs::create_dir_all(&study).unwrap();
                fs::write(study.join("view1_frontal.jpg"), "").unwrap();
            }
            let dataset = CheXpert::open(folder.path()).unwrap().dataset.into();
            let source = ImageSource::new(dataset, folder.path(), &[0, 1]).unwrap();
            let image = format!("{layout}/patient1/study1/view1_frontal.jpg");
            assert!(source.path(0).unwrap().ends_with(image));
        }
    }

    #[test]
    fn the_usual_split_has_the_table_of_validation_as_its_test_side() {
        let row = |patient: usize, view| {
            format!("x/train/patient{patient}/study1/view1.jpg,Male,1,{view},AP,,1\n")
        };
        let train: String = (0..40)
            .map(|patient| row(patient, if patient < 20 { "Frontal" } else { "Lateral" }))
            .collect();
        let folder = folder(&[(TRAIN, &train), (VALID, &row(50, "Frontal"))]);
        let CheXpert {
            dataset,
            train,
            valid,
        } = CheXpert::open(folder.path()).unwrap();
        let (train, valid) = (dataset.frontal(train), dataset.frontal(valid));
        let split = Split::with_test(&dataset, train, valid, 42).unwrap();
        assert_eq!((split.train().len(), split.validation().len()), (18, 2));
        assert_eq!(split.test(), [40]);
        assert_eq!(split.check(&dataset).left_out, 20);
        split.ensure_disjoint(&dataset).unwrap();
    }
}
