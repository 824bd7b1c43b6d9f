//! What can be wrong with the scores and labels given to a metric.

use thiserror::Error;

/// Scores and labels from which no metric can be computed.
///
/// A label with one class only is no error: its AUROC is undefined, which is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MetricError {
    /// One score has no label, or one label no score.
    #[error("{scores} scores but {labels} labels: give one label for each score")]
    Lengths {
        /// How many scores were given.
        scores: usize,
        /// How many labels were given.
        labels: usize,
    },

    /// A score is not a number, so it has no rank.
    #[error("the score in row {row} is NaN: check the model's output for overflow")]
    NotANumber {
        /// Row of the score, counted from 0.
        row: usize,
    },

    /// The matrices given to [`evaluate`](super::evaluate) do not match the labels.
    #[error(
        "{probabilities} probabilities and {targets} targets for {labels} labels: give both as [rows, {labels}], row by row"
    )]
    Shape {
        /// How many label names were given.
        labels: usize,
        /// How many probabilities were given.
        probabilities: usize,
        /// How many targets were given.
        targets: usize,
    },

    /// [`evaluate`](super::evaluate) was given no label name.
    #[error("no label to evaluate: give the names of the model's labels")]
    NoLabels,

    /// A probability given to [`evaluate`](super::evaluate) is not a number.
    #[error(
        "the probability of `{label}` in row {row} is NaN: the model diverged; lower the learning rate or use an earlier checkpoint"
    )]
    ProbabilityNotANumber {
        /// Name of the label.
        label: String,
        /// Row of the probability, counted from 0.
        row: usize,
    },
}
