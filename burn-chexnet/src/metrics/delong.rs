//! DeLong's confidence interval of an AUROC.

use serde::{Deserialize, Serialize};

use super::{MetricError, ranking::Ranking};

/// The 97.5 % point of the standard normal distribution.
const NORMAL_QUANTILE: f64 = 1.959_963_984_540_054;

/// Standard error and 95 % confidence interval of an AUROC.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ConfidenceInterval {
    /// Standard error of the AUROC.
    pub standard_error: f64,
    /// Lower end of the 95 % interval, at least 0.
    pub low: f64,
    /// Upper end of the 95 % interval, at most 1.
    pub high: f64,
}

/// DeLong's 95 % confidence interval of the AUROC of one label.
///
/// The variance is that of DeLong, DeLong and Clarke-Pearson (Biometrics 44, 1988), computed from
/// ranks in O(n log n) time as Sun and Xu proposed (IEEE Signal Processing Letters 21, 2014). The
/// interval is AUROC ± 1.96 standard errors, cut off at 0 and 1.
///
/// `None` where the variance is undefined: fewer than two positives or fewer than two negatives.
/// The rows count as independent: several images of one patient make the interval too narrow. A
/// perfect ranking has standard error 0, whatever the number of rows.
///
/// # Errors
///
/// [`MetricError::Lengths`] if the slices differ in length, [`MetricError::NotANumber`] if a score
/// is NaN.
///
/// # Example
///
/// ```
/// use burn_chexnet::metrics::delong;
///
/// let scores = [0.1, 0.3, 0.6, 0.2, 0.7, 0.9];
/// let positive = [false, false, false, true, true, true];
/// let interval = delong(&scores, &positive)?.expect("three rows of each class");
/// assert!((interval.standard_error - 0.248_451_997).abs() < 1e-9);
/// assert_eq!(interval.high, 1.0);
///
/// assert_eq!(delong(&[0.1, 0.4, 0.8], &[false, false, true])?, None);
/// # Ok::<(), burn_chexnet::metrics::MetricError>(())
/// ```
pub fn delong(
    scores: &[f32],
    positive: &[bool],
) -> Result<Option<ConfidenceInterval>, MetricError> {
    Ok(Ranking::new(scores, positive)?.delong())
}

impl Ranking {
    pub(super) fn delong(&self) -> Option<ConfidenceInterval> {
        let (positives, negatives) = (self.positives(), self.negatives());
        if positives < 2 || negatives < 2 {
            return None;
        }

        // Every positive of a tie wins against the same negatives, and every negative of it loses
        // against the same positives. So the sums of squares go tie by tie; counts are doubled to
        // make a tie's half a whole number.
        let mut sum = 0;
        let mut squares_of_positives = 0;
        let mut squares_of_negatives = 0;
        let mut negatives_below = 0;
        let mut positives_above = positives;
        for tie in self.ties() {
            positives_above -= tie.positives;
            let won = u128::from(2 * negatives_below + tie.negatives);
            let lost = u128::from(2 * positives_above + tie.positives);
            sum += u128::from(tie.positives) * won;
            squares_of_positives += u128::from(tie.positives) * won * won;
            squares_of_negatives += u128::from(tie.negatives) * lost * lost;
            negatives_below += tie.negatives;
        }

        let variance = variance_of_mean(sum, squares_of_positives, positives, negatives)
            + variance_of_mean(sum, squares_of_negatives, negatives, positives);
        let standard_error = variance.sqrt();
        let auroc = sum as f64 / (2 * positives * negatives) as f64;
        Some(ConfidenceInterval {
            standard_error,
            low: (auroc - NORMAL_QUANTILE * standard_error).max(0.0),
            high: (auroc + NORMAL_QUANTILE * standard_error).min(1.0),
        })
    }
}

/// Variance of the mean over the `rows` of one class of the share of the `others` each outranks,
/// from the sum and the sum of squares of the doubled counts.
fn variance_of_mean(sum: u128, squares: u128, rows: u64, others: u64) -> f64 {
    // Σx² − (Σx)²/rows, times `rows`: exact in integers, where floats would cancel.
    let deviation = (u128::from(rows) * squares - sum * sum) as f64;
    let (rows, others) = (rows as f64, others as f64);
    deviation / (rows * rows * (rows - 1.0) * 4.0 * others * others)
}
