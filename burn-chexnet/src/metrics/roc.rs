//! Receiver operating characteristic (ROC) curves.

use super::{MetricError, ranking::Ranking};

/// One operating point of a classifier.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RocPoint {
    /// Share of the negatives that score at least `threshold` (1 − specificity).
    pub false_positive_rate: f64,
    /// Share of the positives that score at least `threshold` (sensitivity).
    pub true_positive_rate: f64,
    /// The lowest score that counts as positive; infinite in the first point.
    pub threshold: f32,
}

/// ROC curve of one label, from (0, 0) to (1, 1).
///
/// One point for each distinct score, from the highest to the lowest, after a first point that
/// calls no row positive. These are the points of scikit-learn's
/// `roc_curve(..., drop_intermediate=False)`. Takes O(n log n) time.
///
/// Empty where no curve is defined: no row is positive, or none is negative.
///
/// # Errors
///
/// [`MetricError::Lengths`] if the slices differ in length, [`MetricError::NotANumber`] if a score
/// is NaN.
///
/// # Example
///
/// ```
/// use burn_chexnet::metrics::roc_curve;
///
/// let curve = roc_curve(&[0.1, 0.4, 0.4, 0.8], &[false, false, true, true])?;
/// let rates: Vec<_> = curve
///     .iter()
///     .map(|point| (point.false_positive_rate, point.true_positive_rate))
///     .collect();
/// assert_eq!(rates, [(0.0, 0.0), (0.0, 0.5), (0.5, 1.0), (1.0, 1.0)]);
/// assert_eq!(curve[2].threshold, 0.4);
/// # Ok::<(), burn_chexnet::metrics::MetricError>(())
/// ```
pub fn roc_curve(scores: &[f32], positive: &[bool]) -> Result<Vec<RocPoint>, MetricError> {
    let ranking = Ranking::new(scores, positive)?;
    let (positives, negatives) = (ranking.positives(), ranking.negatives());
    if positives == 0 || negatives == 0 {
        return Ok(Vec::new());
    }
    let mut curve = vec![RocPoint {
        false_positive_rate: 0.0,
        true_positive_rate: 0.0,
        threshold: f32::INFINITY,
    }];
    let mut false_positives = 0;
    let mut true_positives = 0;
    curve.extend(ranking.ties().rev().map(|tie| {
        false_positives += tie.negatives;
        true_positives += tie.positives;
        RocPoint {
            false_positive_rate: false_positives as f64 / negatives as f64,
            true_positive_rate: true_positives as f64 / positives as f64,
            threshold: tie.score,
        }
    }));
    Ok(curve)
}
