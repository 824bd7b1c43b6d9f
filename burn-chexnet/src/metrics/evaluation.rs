//! The result of a multi-label classifier on a data set, and the table that shows it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{MetricError, ranking::Ranking};

/// Metrics of one label.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LabelMetrics {
    /// Name of the label.
    pub label: String,
    /// Area under the ROC curve; `None` if all known rows are of one class.
    pub auroc: Option<f64>,
    /// DeLong's standard error of `auroc`; `None` with fewer than two rows of a class.
    pub standard_error: Option<f64>,
    /// Lower end of the 95 % confidence interval; `None` as `standard_error` is.
    pub ci_low: Option<f64>,
    /// Upper end of the 95 % confidence interval; `None` as `standard_error` is.
    pub ci_high: Option<f64>,
    /// How many rows have the finding.
    pub positives: usize,
    /// How many rows do not have it.
    pub negatives: usize,
    /// How many rows were left out because it is unknown whether they have it.
    pub unknown: usize,
}

/// Metrics of all labels of a classifier on one data set.
///
/// Its `Display` is the table that a user reads at the end of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The labels, in the order in which they were given.
    pub labels: Vec<LabelMetrics>,
    /// Mean of the AUROCs that are defined; `None` if none is.
    pub mean_auroc: Option<f64>,
    /// How many labels have no AUROC and are left out of the mean.
    pub undefined: usize,
}

/// Measures a multi-label classifier: AUROC and DeLong interval of each label, mean AUROC.
///
/// `probabilities` and `targets` have the shape `[rows, labels]`, row by row. A target is
/// `Some(true)` where the image has the finding, `Some(false)` where it has not, and `None` where
/// this is unknown: such an entry is left out of its label, not its whole row.
///
/// A label with one class only has no AUROC. It stays in the result, is left out of the mean and
/// counted in [`Evaluation::undefined`].
///
/// # Errors
///
/// [`MetricError::NoLabels`] without labels, [`MetricError::Shape`] if the sizes do not match,
/// [`MetricError::ProbabilityNotANumber`] if a probability is NaN, be its target known or not.
///
/// # Example
///
/// ```
/// use burn_chexnet::metrics::evaluate;
///
/// let probabilities = [0.9, 0.2, 0.3, 0.1, 0.6, 0.4];
/// let targets = [Some(true), Some(false), Some(false), None, Some(true), Some(false)];
/// let evaluation = evaluate(&["Effusion", "Hernia"], &probabilities, &targets)?;
///
/// assert_eq!(evaluation.labels[0].auroc, Some(1.0));
/// assert_eq!(evaluation.labels[1].auroc, None);
/// assert_eq!(evaluation.mean_auroc, Some(1.0));
/// assert_eq!(evaluation.undefined, 1);
/// println!("{evaluation}");
/// # Ok::<(), burn_chexnet::metrics::MetricError>(())
/// ```
pub fn evaluate<L: AsRef<str>>(
    labels: &[L],
    probabilities: &[f32],
    targets: &[Option<bool>],
) -> Result<Evaluation, MetricError> {
    if labels.is_empty() {
        return Err(MetricError::NoLabels);
    }
    if probabilities.len() != targets.len() || !targets.len().is_multiple_of(labels.len()) {
        return Err(MetricError::Shape {
            labels: labels.len(),
            probabilities: probabilities.len(),
            targets: targets.len(),
        });
    }
    if let Some(entry) = probabilities.iter().position(|p| p.is_nan()) {
        return Err(MetricError::ProbabilityNotANumber {
            label: labels[entry % labels.len()].as_ref().to_owned(),
            row: entry / labels.len(),
        });
    }

    let rows = targets.len() / labels.len();
    let metrics: Vec<LabelMetrics> = labels
        .iter()
        .enumerate()
        .map(|(column, label)| {
            let entries = (0..rows).map(|row| row * labels.len() + column);
            let known = entries.filter_map(|entry| Some((probabilities[entry], targets[entry]?)));
            let ranking = Ranking::from_rows(known);
            let interval = ranking.delong();
            let (positives, negatives) =
                (ranking.positives() as usize, ranking.negatives() as usize);
            LabelMetrics {
                label: label.as_ref().to_owned(),
                auroc: ranking.auroc(),
                standard_error: interval.map(|interval| interval.standard_error),
                ci_low: interval.map(|interval| interval.low),
                ci_high: interval.map(|interval| interval.high),
                positives,
                negatives,
                unknown: rows - positives - negatives,
            }
        })
        .collect();

    let defined: Vec<f64> = metrics.iter().filter_map(|label| label.auroc).collect();
    Ok(Evaluation {
        mean_auroc: (!defined.is_empty())
            .then(|| defined.iter().sum::<f64>() / defined.len() as f64),
        undefined: metrics.len() - defined.len(),
        labels: metrics,
    })
}

const LABEL: &str = "label";
const MEAN: &str = "mean";

impl fmt::Display for Evaluation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self
            .labels
            .iter()
            .map(|metrics| metrics.label.chars().count())
            .chain([LABEL.len()])
            .max()
            .unwrap_or_default();

        writeln!(
            f,
            "{LABEL:<width$}  {:>9}  {:>16}  {:>9}  {:>9}",
            "AUROC", "95 % interval", "positives", "negatives"
        )?;
        for metrics in &self.labels {
            let interval = match (metrics.ci_low, metrics.ci_high) {
                (Some(low), Some(high)) => format!("{low:.4} to {high:.4}"),
                _ => "undefined".to_owned(),
            };
            writeln!(
                f,
                "{:<width$}  {:>9}  {interval:>16}  {:>9}  {:>9}",
                metrics.label,
                area(metrics.auroc),
                metrics.positives,
                metrics.negatives
            )?;
        }
        write!(f, "{MEAN:<width$}  {:>9}", area(self.mean_auroc))?;
        if self.undefined > 0 {
            write!(
                f,
                "  {} of {} undefined, left out",
                self.undefined,
                self.labels.len()
            )?;
        }
        Ok(())
    }
}

fn area(auroc: Option<f64>) -> String {
    auroc.map_or_else(|| "undefined".to_owned(), |area| format!("{area:.4}"))
}
