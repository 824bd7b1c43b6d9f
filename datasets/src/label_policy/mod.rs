//! What becomes of labels that are not known: uncertain ones (-1) and blanks. It may not depend on
//! how a table is read, nor on splits.
//!
//! The rules are those of CheXpert's paper (Irvin et al. 2019, arXiv 1901.07031, section 3): U-Zeros,
//! U-Ones and U-Ignore. It found that the best one differs between labels, so a [`LabelPolicy`] may
//! have exceptions.

mod report;
mod text;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use report::{LabelReport, PolicyReport, RuleCounts};

use crate::dataset::Dataset;
use crate::labels::LabelSet;
use crate::record::LabelValue;

/// What can be wrong with a label policy.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LabelPolicyError {
    /// A part of the text is none of a policy.
    #[error(
        "{part:?} in the label policy {policy:?} is not LABEL=RULE with the rule zeros, ones or ignore; only the first part may be a rule alone"
    )]
    Part {
        /// The text of the policy.
        policy: String,
        /// The part.
        part: String,
    },
    /// A label has two exceptions.
    #[error("the label {label:?} is twice in the label policy {policy:?}: remove one")]
    Duplicate {
        /// The text of the policy.
        policy: String,
        /// The label.
        label: String,
    },
    /// The policy names labels that the data set does not have.
    #[error(
        "the label policy {policy:?} names {missing:?}, which the data do not have; the labels are {available:?}"
    )]
    UnknownLabels {
        /// The text of the policy.
        policy: String,
        /// Every such label, in alphabetical order.
        missing: Vec<String>,
        /// The labels of the data set.
        available: Vec<String>,
    },
}

/// What becomes of a label whose value is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum LabelRule {
    /// It counts as absent: U-Zeros of CheXpert's paper.
    Zeros,
    /// It counts as present: U-Ones.
    Ones,
    /// It stays unknown, out of loss and metrics: U-Ignore.
    #[default]
    Ignore,
}

impl LabelRule {
    const ALL: [Self; 3] = [Self::Zeros, Self::Ones, Self::Ignore];

    /// `zeros`, `ones` or `ignore`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zeros => "zeros",
            Self::Ones => "ones",
            Self::Ignore => "ignore",
        }
    }
}

impl fmt::Display for LabelRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// A [`LabelRule`] for every label: one rule, and exceptions by the label's name.
///
/// As text, with serde as well, it is the rule and then `LABEL=RULE` for each exception, separated
/// by commas; without a rule at the front it is `ignore`. A label with a comma in its name cannot
/// have an exception.
///
/// ```
/// use chest_datasets::{LabelPolicy, LabelRule};
///
/// let policy: LabelPolicy = "zeros, Edema=ones".parse()?;
/// assert_eq!(policy.rule("Edema"), LabelRule::Ones);
/// assert_eq!(policy.rule("Mass"), LabelRule::Zeros);
/// assert_eq!(policy.to_string(), "zeros,Edema=ones");
/// assert_eq!(LabelPolicy::default().to_string(), "ignore");
/// # Ok::<(), chest_datasets::LabelPolicyError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LabelPolicy {
    rule: LabelRule,
    exceptions: BTreeMap<String, LabelRule>,
}

impl LabelPolicy {
    /// The rule for the label called `label`.
    pub fn rule(&self, label: &str) -> LabelRule {
        self.exceptions.get(label).copied().unwrap_or(self.rule)
    }

    /// The rule for each of `labels`, which have to include all exceptions.
    fn rules(&self, labels: &LabelSet) -> Result<Vec<LabelRule>, LabelPolicyError> {
        let names = self.exceptions.keys();
        let missing: Vec<String> = names
            .filter(|name| labels.position(name).is_none())
            .cloned()
            .collect();
        if !missing.is_empty() {
            return Err(LabelPolicyError::UnknownLabels {
                policy: self.to_string(),
                missing,
                available: labels.names().to_vec(),
            });
        }
        Ok(labels.names().iter().map(|name| self.rule(name)).collect())
    }
}

impl From<LabelRule> for LabelPolicy {
    /// The policy that has one rule for all labels.
    fn from(rule: LabelRule) -> Self {
        Self {
            rule,
            exceptions: BTreeMap::new(),
        }
    }
}

/// A policy for each of the two kinds of unknown labels. By default both are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct LabelPolicies {
    /// For [`LabelValue::Uncertain`], on the training side.
    pub uncertain: LabelPolicy,
    /// For [`LabelValue::Missing`], on every side.
    pub blank: LabelPolicy,
}

impl Dataset {
    /// The same records with unknown labels replaced as `policies` say, and the count of them.
    ///
    /// `train` are the records to learn from, and only theirs are the uncertain labels that are
    /// replaced; `held_out` are those to measure on. All others are left as they are. To learn from an uncertain case as if it were known is the paper's choice (U-Zeros,
    /// U-Ones); to be measured on it is not, since nobody knows its truth. So in validation and test
    /// it stays [`LabelValue::Uncertain`], out of loss and metrics. What a blank means is a
    /// convention of the table, so its policy holds on every side.
    ///
    /// # Errors
    ///
    /// A policy has an exception for a label that the records do not carry.
    ///
    /// # Panics
    ///
    /// If an index is beyond the records.
    ///
    /// ```
    /// use chest_datasets::{Dataset, LabelPolicies, LabelSet, LabelValue, Record};
    ///
    /// let uncertain = |image: &str| Record::new(image, image, [LabelValue::Uncertain], 2);
    /// let records = vec![uncertain("1.png"), uncertain("2.png")];
    /// let dataset = Dataset::new("table.csv", LabelSet::new(["Edema"])?, records)?;
    /// let policies = LabelPolicies {
    ///     uncertain: "ones".parse()?,
    ///     ..LabelPolicies::default()
    /// };
    /// let (dataset, report) = dataset.with_policies(&policies, &[0], &[1])?;
    /// assert_eq!(*dataset.records()[0].labels, [LabelValue::Positive]);
    /// assert_eq!(*dataset.records()[1].labels, [LabelValue::Uncertain]);
    /// assert_eq!(report.labels[0].uncertain.ones, 1);
    /// assert_eq!(report.labels[0].uncertain.ignored, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_policies(
        self,
        policies: &LabelPolicies,
        train: &[usize],
        held_out: &[usize],
    ) -> Result<(Self, PolicyReport), LabelPolicyError> {
        let uncertain = policies.uncertain.rules(self.labels())?;
        let blank = policies.blank.rules(self.labels())?;
        let mut report = PolicyReport::new(self.labels());
        let mut trained = vec![None; self.len()];
        for (indices, is_trained) in [(held_out, false), (train, true)] {
            for &index in indices {
                trained[index] = Some(is_trained);
            }
        }
        let replaced = self.map_labels(|index, label, value| {
            let Some(is_trained) = trained[index] else {
                return value;
            };
            let counts = &mut report.labels[label];
            let (rule, counts) = match value {
                LabelValue::Negative | LabelValue::Positive => return value,
                LabelValue::Uncertain if is_trained => (uncertain[label], &mut counts.uncertain),
                LabelValue::Uncertain => (LabelRule::Ignore, &mut counts.uncertain),
                LabelValue::Missing => (blank[label], &mut counts.blank),
            };
            counts.add(rule);
            match rule {
                LabelRule::Zeros => LabelValue::Negative,
                LabelRule::Ones => LabelValue::Positive,
                LabelRule::Ignore => value,
            }
        });
        Ok((replaced, report))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use LabelValue::{Missing, Negative, Positive, Uncertain};

    use super::*;
    use crate::Record;

    /// Two labels; both values of records 0 and 1 are uncertain, of 2 and 3 blank, of 4 known.
    fn dataset() -> Dataset {
        let values = [
            [Uncertain, Uncertain],
            [Uncertain, Uncertain],
            [Missing, Missing],
            [Missing, Missing],
            [Positive, Negative],
        ];
        let records = values
            .into_iter()
            .zip(2..)
            .map(|(values, row)| Record::new(row.to_string(), "1", values, row))
            .collect();
        Dataset::new("t.csv", LabelSet::new(["Mass", "Edema"]).unwrap(), records).unwrap()
    }

    fn policies(uncertain: &str, blank: &str) -> LabelPolicies {
        LabelPolicies {
            uncertain: uncertain.parse().unwrap(),
            blank: blank.parse().unwrap(),
        }
    }

    /// The values of the data set under two policies, with the records 0, 2 and 4 to train on.
    fn values(uncertain: &str, blank: &str) -> Vec<[LabelValue; 2]> {
        let policies = policies(uncertain, blank);
        let (dataset, _) = dataset()
            .with_policies(&policies, &[0, 2, 4], &[1, 3])
            .unwrap();
        let records = dataset.records().iter();
        records
            .map(|record| [record.labels[0], record.labels[1]])
            .collect()
    }

    #[test]
    fn nothing_changes_by_default() {
        let (ignored, report) = dataset()
            .with_policies(&LabelPolicies::default(), &[0, 2, 4], &[1, 3])
            .unwrap();
        assert_eq!(ignored, dataset());
        assert!(
            report
                .labels
                .iter()
                .all(|label| label.uncertain.ignored == 2)
        );
    }

    #[test]
    fn uncertain_labels_are_replaced_on_the_training_side_only() {
        assert_eq!(
            values("zeros,Edema=ones", "ignore"),
            [
                [Negative, Positive],
                [Uncertain, Uncertain],
                [Missing, Missing],
                [Missing, Missing],
                [Positive, Negative],
            ]
        );
    }

    #[test]
    fn blanks_are_replaced_on_every_side() {
        assert_eq!(
            values("ignore", "Mass=zeros"),
            [
                [Uncertain, Uncertain],
                [Uncertain, Uncertain],
                [Negative, Missing],
                [Negative, Missing],
                [Positive, Negative],
            ]
        );
    }

    #[test]
    fn records_on_no_side_are_neither_changed_nor_counted() {
        let policies = policies("ones", "ones");
        let (changed, report) = dataset().with_policies(&policies, &[0], &[2]).unwrap();
        assert_eq!(changed.records()[1], dataset().records()[1]);
        assert_eq!(changed.records()[3], dataset().records()[3]);
        assert_eq!(
            (report.labels[0].uncertain.ones, report.labels[0].blank.ones),
            (1, 1)
        );
    }

    #[test]
    fn labels_that_the_data_do_not_have_are_refused() {
        let policies = policies("zeros", "ones,Oedema=zeros,Mass=ones,Cough=ignore");
        assert_eq!(
            dataset()
                .with_policies(&policies, &[], &[])
                .unwrap_err()
                .to_string(),
            "the label policy \"ones,Cough=ignore,Mass=ones,Oedema=zeros\" names \
             [\"Cough\", \"Oedema\"], which the data do not have; the labels are \
             [\"Mass\", \"Edema\"]"
        );
    }

    #[test]
    fn the_report_counts_what_was_replaced() {
        let policies = policies("ones,Edema=ignore", "zeros");
        let (_, report) = dataset()
            .with_policies(&policies, &[0, 2, 4], &[1, 3])
            .unwrap();
        assert_eq!(
            report.to_string(),
            "                                    uncertain (-1)                   blank\n\
             label                         as 0    as 1 ignored    as 0    as 1 ignored\n\
             Mass                             0       1       1       2       0       0\n\
             Edema                            0       0       2       2       0       0"
        );
    }
}
