//! One row of a table. It may not depend on how the table is read.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a table says of one label of one image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LabelValue {
    /// The finding is absent.
    Negative,
    /// The finding is present.
    Positive,
    /// The report leaves it open: `-1` in CheXpert.
    Uncertain,
    /// The report does not mention it: an empty cell in CheXpert.
    Missing,
}

impl LabelValue {
    /// The training target, 0 or 1; `None` where it is unknown and has to be masked.
    ///
    /// ```
    /// use chest_datasets::LabelValue;
    ///
    /// assert_eq!(LabelValue::Positive.target(), Some(1.0));
    /// assert_eq!(LabelValue::Uncertain.target(), None);
    /// ```
    pub fn target(self) -> Option<f32> {
        match self {
            Self::Negative => Some(0.0),
            Self::Positive => Some(1.0),
            Self::Uncertain | Self::Missing => None,
        }
    }
}

/// Sex of a patient, as DICOM (0010,0040) codes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Sex {
    /// `F`
    Female,
    /// `M`
    Male,
    /// `O`
    Other,
}

impl fmt::Display for Sex {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Female => "F",
            Self::Male => "M",
            Self::Other => "O",
        })
    }
}

/// View position, as DICOM (0018,5101) codes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum View {
    /// `PA`: from back to front, the patient standing before the detector.
    PosteroAnterior,
    /// `AP`: from front to back, as at the bedside.
    AnteroPosterior,
    /// `LATERAL`, `LL` or `L`: from the side.
    Lateral,
    /// Any other, as the table writes it.
    Other(String),
}

impl View {
    /// The view that `code` names; letter case does not count.
    ///
    /// ```
    /// use chest_datasets::View;
    ///
    /// assert_eq!(View::from_code("pa"), View::PosteroAnterior);
    /// assert_eq!(View::from_code("LLO"), View::Other("LLO".into()));
    /// ```
    pub fn from_code(code: &str) -> Self {
        match code.to_ascii_uppercase().as_str() {
            "PA" => Self::PosteroAnterior,
            "AP" => Self::AnteroPosterior,
            "LATERAL" | "LL" | "L" => Self::Lateral,
            _ => Self::Other(code.to_owned()),
        }
    }
}

impl fmt::Display for View {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::PosteroAnterior => "PA",
            Self::AnteroPosterior => "AP",
            Self::Lateral => "LATERAL",
            Self::Other(code) => code,
        })
    }
}

/// One image of a data set: whose it is and what the table says of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The image as the table names it, unique in the data set: the id of predictions.
    ///
    /// A file name in NIH's tables; a path with folders in others.
    pub image: String,
    /// The patient's id as the table writes it.
    pub patient: String,
    /// One value for each label of the data set's [`LabelSet`](crate::LabelSet), in its order.
    pub labels: Box<[LabelValue]>,
    /// Line of its table, counted from 1 (the header), for messages: see
    /// [`Dataset::place`](crate::Dataset::place).
    pub row: u64,
    /// Age in years, as the table states it: NIH's holds a few impossible ones.
    pub age: Option<f32>,
    /// Sex, where the table has it.
    pub sex: Option<Sex>,
    /// View position, where the table has it.
    pub view: Option<View>,
    /// Which examination of the patient this is, counted from 0, where the table has it.
    pub follow_up: Option<u32>,
}

impl Record {
    /// A record without attributes.
    pub fn new(
        image: impl Into<String>,
        patient: impl Into<String>,
        labels: impl Into<Box<[LabelValue]>>,
        row: u64,
    ) -> Self {
        Self {
            image: image.into(),
            patient: patient.into(),
            labels: labels.into(),
            row,
            age: None,
            sex: None,
            view: None,
            follow_up: None,
        }
    }
}
