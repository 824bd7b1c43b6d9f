//! The ordered set of label names. It may not depend on any other room but [`nih`](crate::nih)'s
//! names.
//!
//! Columns of a table, outputs of a model and rows of a result belong together by *name*, never
//! by position: [`LabelSet::alignment`] is the only way from one order to another.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::nih::Pathology;

/// What can be wrong with a set of labels.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LabelError {
    /// The set has no label.
    #[error("there is no label: give at least one, in a table as a column of 1 and 0")]
    NoLabels,
    /// A label has no name.
    #[error("label {position} (counted from 1) has an empty name: give every label a name")]
    EmptyName {
        /// Position of the label, counted from 1.
        position: usize,
    },
    /// Two labels have one name.
    #[error("the label {name:?} is given twice, as number {first} and {second}: remove one")]
    Duplicate {
        /// The name.
        name: String,
        /// Position of the first, counted from 1.
        first: usize,
        /// Position of the second, counted from 1.
        second: usize,
    },
    /// The other set lacks labels of this one.
    #[error("there is no label {}; the labels are {}", missing.join(", "), available.join(", "))]
    Missing {
        /// Every label that the other set lacks, in this set's order.
        missing: Vec<String>,
        /// The labels of the other set.
        available: Vec<String>,
    },
}

/// An ordered list of different label names, at least one.
///
/// It travels with data, model, weights and results. With serde it is a plain list of strings,
/// validated when it is read.
///
/// ```
/// use chest_datasets::LabelSet;
///
/// let model = LabelSet::new(["Edema", "Mass"])?;
/// let data = LabelSet::new(["Mass", "Hernia", "Edema"])?;
/// assert_eq!(model.alignment(&data)?, [2, 0]);
/// assert!(data.alignment(&model).is_err());
/// # Ok::<(), chest_datasets::LabelError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct LabelSet {
    names: Vec<String>,
}

impl LabelSet {
    /// Makes a set of `names`, in their order.
    ///
    /// # Errors
    ///
    /// No name at all, a name that is empty or blank, a name given twice.
    pub fn new<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Result<Self, LabelError> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        if names.is_empty() {
            return Err(LabelError::NoLabels);
        }
        for (second, name) in names.iter().enumerate() {
            if name.trim().is_empty() {
                return Err(LabelError::EmptyName {
                    position: second + 1,
                });
            }
            if let Some(first) = names[..second].iter().position(|earlier| earlier == name) {
                return Err(LabelError::Duplicate {
                    name: name.clone(),
                    first: first + 1,
                    second: second + 1,
                });
            }
        }
        Ok(Self { names })
    }

    /// The 14 findings of NIH ChestX-ray14, in the order of the CheXNet paper.
    pub fn nih() -> Self {
        Self {
            names: Pathology::ALL
                .iter()
                .map(|pathology| pathology.name().to_owned())
                .collect(),
        }
    }

    /// The names, in order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The number of labels, at least one.
    #[allow(clippy::len_without_is_empty)] // A set is never empty.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// The position of the label called `name`, counted from 0. Letter case counts.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|own| own == name)
    }

    /// For each label of this set its position in `to`.
    ///
    /// # Errors
    ///
    /// [`LabelError::Missing`] names every label that `to` lacks.
    pub fn alignment(&self, to: &LabelSet) -> Result<Vec<usize>, LabelError> {
        let positions: Vec<usize> = self
            .names
            .iter()
            .filter_map(|name| to.position(name))
            .collect();
        if positions.len() == self.len() {
            return Ok(positions);
        }
        Err(LabelError::Missing {
            missing: self
                .names
                .iter()
                .filter(|name| to.position(name).is_none())
                .cloned()
                .collect(),
            available: to.names.clone(),
        })
    }
}

impl fmt::Display for LabelSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.names.join(", "))
    }
}

impl<'a> IntoIterator for &'a LabelSet {
    type Item = &'a String;
    type IntoIter = std::slice::Iter<'a, String>;

    fn into_iter(self) -> Self::IntoIter {
        self.names.iter()
    }
}

impl TryFrom<Vec<String>> for LabelSet {
    type Error = LabelError;

    fn try_from(names: Vec<String>) -> Result<Self, LabelError> {
        Self::new(names)
    }
}

impl From<LabelSet> for Vec<String> {
    fn from(labels: LabelSet) -> Self {
        labels.names
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(names: &[&str]) -> String {
        LabelSet::new(names.iter().copied())
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn bad_sets_are_refused() {
        assert_eq!(
            message(&[]),
            "there is no label: give at least one, in a table as a column of 1 and 0"
        );
        assert_eq!(
            message(&["Mass", " "]),
            "label 2 (counted from 1) has an empty name: give every label a name"
        );
        assert_eq!(
            message(&["Mass", "Edema", "Mass"]),
            "the label \"Mass\" is given twice, as number 1 and 3: remove one"
        );
    }

    #[test]
    fn alignment_names_every_missing_label() {
        let own = LabelSet::new(["Hernia", "Mass", "Edema"]).unwrap();
        let other = LabelSet::new(["Mass", "Nodule"]).unwrap();
        assert_eq!(
            own.alignment(&other).unwrap_err().to_string(),
            "there is no label Hernia, Edema; the labels are Mass, Nodule"
        );
    }

    #[test]
    fn json_is_a_list_of_strings_and_is_validated() {
        let labels = LabelSet::new(["Mass", "Pleural Effusion"]).unwrap();
        let json = serde_json::to_string(&labels).unwrap();
        assert_eq!(json, r#"["Mass","Pleural Effusion"]"#);
        assert_eq!(serde_json::from_str::<LabelSet>(&json).unwrap(), labels);

        let twice = serde_json::from_str::<LabelSet>(r#"["Mass","Mass"]"#).unwrap_err();
        assert!(
            twice.to_string().contains("\"Mass\" is given twice"),
            "{twice}"
        );
        let none = serde_json::from_str::<LabelSet>("[]").unwrap_err();
        assert!(none.to_string().contains("at least one"), "{none}");
    }

    #[test]
    fn nih_has_the_fourteen_in_the_paper_order() {
        assert_eq!(
            LabelSet::nih().to_string(),
            "Atelectasis, Cardiomegaly, Effusion, Infiltration, Mass, Nodule, Pneumonia, \
             Pneumothorax, Consolidation, Edema, Emphysema, Fibrosis, Pleural_Thickening, Hernia"
        );
        assert_eq!(LabelSet::nih().len(), 14);
        assert_eq!(LabelSet::new(&LabelSet::nih()).unwrap(), LabelSet::nih());
    }

    proptest! {
        #[test]
        fn alignment_finds_each_name(
            names in proptest::collection::btree_set("[A-Z][a-z]{0,6}", 1..12)
                .prop_map(|set| set.into_iter().collect::<Vec<_>>()),
            rotation in 0_usize..12,
            taken in 1_usize..12,
        ) {
            let to = LabelSet::new(names.clone()).unwrap();
            let mut rotated = names.clone();
            rotated.rotate_left(rotation % names.len());
            rotated.truncate(taken);
            let own = LabelSet::new(rotated).unwrap();
            let positions = own.alignment(&to).unwrap();
            for (name, position) in own.names().iter().zip(positions) {
                prop_assert_eq!(&to.names()[position], name);
            }
        }
    }
}
