//! What the label policies have replaced.

use std::fmt;

use super::LabelRule;
use crate::labels::LabelSet;

/// What [`Dataset::with_policies`](crate::Dataset::with_policies) did. Printed, it is a small table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyReport {
    /// One for each label of the data set, in its order.
    pub labels: Vec<LabelReport>,
}

/// How many unknown values of one label there were, and what they became.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelReport {
    /// The label.
    pub label: String,
    /// The uncertain ones; those that are not on the training side are ignored.
    pub uncertain: RuleCounts,
    /// The blanks.
    pub blank: RuleCounts,
}

/// The number of values to which each rule was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RuleCounts {
    /// Those that count as absent now.
    pub zeros: usize,
    /// Those that count as present now.
    pub ones: usize,
    /// Those that are still unknown, out of loss and metrics.
    pub ignored: usize,
}

impl PolicyReport {
    /// Nothing counted.
    pub(super) fn new(labels: &LabelSet) -> Self {
        let labels = labels.names().iter().map(|label| LabelReport {
            label: label.clone(),
            uncertain: RuleCounts::default(),
            blank: RuleCounts::default(),
        });
        Self {
            labels: labels.collect(),
        }
    }

    /// Whether all labels were known.
    pub fn is_empty(&self) -> bool {
        let none = RuleCounts::default();
        let mut labels = self.labels.iter();
        labels.all(|label| label.uncertain == none && label.blank == none)
    }
}

impl RuleCounts {
    pub(super) fn add(&mut self, rule: LabelRule) {
        match rule {
            LabelRule::Zeros => self.zeros += 1,
            LabelRule::Ones => self.ones += 1,
            LabelRule::Ignore => self.ignored += 1,
        }
    }
}

impl fmt::Display for PolicyReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (uncertain, blank) = ("uncertain (-1)", "blank");
        writeln!(formatter, "{:<26} {uncertain:>23} {blank:>23}", "")?;
        let counts = format!("{:>7} {:>7} {:>7}", "as 0", "as 1", "ignored");
        write!(formatter, "{:<26} {counts} {counts}", "label")?;
        for LabelReport {
            label,
            uncertain,
            blank,
        } in &self.labels
        {
            write!(formatter, "\n{label:<26} {uncertain} {blank}")?;
        }
        Ok(())
    }
}

impl fmt::Display for RuleCounts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            zeros,
            ones,
            ignored,
        } = self;
        write!(formatter, "{zeros:>7} {ones:>7} {ignored:>7}")
    }
}
