//! Area under the ROC curve.

use super::{MetricError, ranking::Ranking};

/// Area under the ROC curve (AUROC) of one label.
///
/// It is the Mann–Whitney statistic: the share of all (positive, negative) pairs in which the
/// positive has the higher score, a tie counted as half a pair. Pairs are counted in integers, so
/// nothing but the last division rounds. Takes O(n log n) time. Scores need not be probabilities.
///
/// `None` where the AUROC is undefined: no row is positive, or none is negative.
///
/// # Errors
///
/// [`MetricError::Lengths`] if the slices differ in length, [`MetricError::NotANumber`] if a score
/// is NaN.
///
/// # Example
///
/// ```
/// use burn_chexnet::metrics::auroc;
///
/// // The positive beats one negative, ties with one and loses to one.
/// let area = auroc(&[0.1, 0.4, 0.4, 0.8], &[false, true, false, false])?;
/// assert_eq!(area, Some(0.5));
///
/// assert_eq!(auroc(&[0.1, 0.4], &[false, false])?, None);
/// # Ok::<(), burn_chexnet::metrics::MetricError>(())
/// ```
pub fn auroc(scores: &[f32], positive: &[bool]) -> Result<Option<f64>, MetricError> {
    Ok(Ranking::new(scores, positive)?.auroc())
}

impl Ranking {
    pub(super) fn auroc(&self) -> Option<f64> {
        let twice_pairs = 2 * self.positives() * self.negatives();
        if twice_pairs == 0 {
            return None;
        }
        let mut twice_won = 0;
        let mut negatives_below = 0;
        for tie in self.ties() {
            twice_won += tie.positives * (2 * negatives_below + tie.negatives);
            negatives_below += tie.negatives;
        }
        Some(twice_won as f64 / twice_pairs as f64)
    }
}
