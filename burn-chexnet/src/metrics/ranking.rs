//! The scores of one label in ascending order, with their ties: the one sort that AUROC, DeLong and
//! ROC curve are read from.

use super::MetricError;

/// Scores of one label, sorted.
///
/// A score and its class share one integer: the bits of the score, put into numerical order, above
/// one bit for the class. So the sort moves plain integers and needs no index.
pub(super) struct Ranking {
    keys: Vec<u64>,
    positives: u64,
}

/// All rows with the same score.
pub(super) struct Tie {
    pub(super) score: f32,
    pub(super) positives: u64,
    pub(super) negatives: u64,
}

impl Ranking {
    /// Sorts `scores`; refuses NaN and a different number of labels.
    pub(super) fn new(scores: &[f32], positive: &[bool]) -> Result<Self, MetricError> {
        if scores.len() != positive.len() {
            return Err(MetricError::Lengths {
                scores: scores.len(),
                labels: positive.len(),
            });
        }
        if let Some(row) = scores.iter().position(|score| score.is_nan()) {
            return Err(MetricError::NotANumber { row });
        }
        let rows = scores.iter().copied().zip(positive.iter().copied());
        Ok(Self::from_rows(rows))
    }

    /// Sorts pairs of score and class. No score may be NaN.
    pub(super) fn from_rows(rows: impl Iterator<Item = (f32, bool)>) -> Self {
        let mut keys: Vec<u64> = rows
            .map(|(score, positive)| u64::from(ordered_bits(score)) << 1 | u64::from(positive))
            .collect();
        keys.sort_unstable();
        let positives = keys.iter().map(|key| key & 1).sum();
        Self { keys, positives }
    }

    pub(super) fn positives(&self) -> u64 {
        self.positives
    }

    pub(super) fn negatives(&self) -> u64 {
        self.keys.len() as u64 - self.positives
    }

    /// The distinct scores, from the lowest to the highest.
    pub(super) fn ties(&self) -> impl DoubleEndedIterator<Item = Tie> {
        self.keys.chunk_by(|a, b| a >> 1 == b >> 1).map(|rows| {
            // Within a tie the negatives (class bit 0) come first.
            let negatives = rows.partition_point(|key| key & 1 == 0);
            Tie {
                score: score_of((rows[0] >> 1) as u32),
                positives: (rows.len() - negatives) as u64,
                negatives: negatives as u64,
            }
        })
    }
}

const SIGN: u32 = 1 << 31;

/// Maps a float to an integer of the same order.
fn ordered_bits(score: f32) -> u32 {
    // −0 + 0 is +0: the two zeros are a tie.
    let bits = (score + 0.0).to_bits();
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

/// The inverse of [`ordered_bits`].
fn score_of(ordered: u32) -> f32 {
    f32::from_bits(if ordered & SIGN == 0 {
        !ordered
    } else {
        ordered & !SIGN
    })
}
