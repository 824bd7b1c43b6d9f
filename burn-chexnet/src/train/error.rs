//! Why a run of CheXNet ends early. Each error is one line that names what to look at.

use std::path::PathBuf;

use burn_dist::train::TrainError;
use chest_datasets::{
    AugmentationError, BadImage, CacheError, LabelError, LabelPolicyError, LoadError, PhantomError,
    SourceError, SplitError, TableError,
};

use super::figures::FigureError;
use crate::PreprocessingError;
use crate::metrics::MetricError;
use crate::predict::PredictError;
use crate::predictions::DeviceError;
use crate::weights::WeightsError;

/// Why a run ends early.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An option has a value that makes no sense.
    #[error("{option}: {reason}")]
    Option {
        /// The option, as a user gives it.
        option: &'static str,
        /// What is wrong and what to give.
        reason: String,
    },
    /// The folder of the results cannot be used.
    #[error("cannot use the output folder {}: {reason}", path.display())]
    Output {
        /// The folder.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A file cannot be read or written.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A run cannot go on with other options.
    #[error("the run in {} has another {differences}: --resume {} takes its options as they were; for others begin a new run", path.display(), path.display())]
    Differs {
        /// Its folder.
        path: PathBuf,
        /// What differs, with both values.
        differences: String,
    },
    /// A side of the split has no image.
    #[error("the {side} side of the split `{split}` has no image: give more data or another split")]
    EmptySide {
        /// The side.
        side: &'static str,
        /// Name of the split.
        split: String,
    },
    /// No label of any image of a side is known.
    #[error(
        "{tables}: no label of any {side} image is 0 or 1: there is nothing to learn or to measure"
    )]
    NothingKnown {
        /// The side.
        side: &'static str,
        /// The tables.
        tables: String,
    },
    /// No image of a side can be decoded.
    #[error("none of the {count} {side} images can be decoded, the first: {first}")]
    AllSkipped {
        /// The side.
        side: &'static str,
        /// Images of the side.
        count: usize,
        /// The first one.
        first: BadImage,
    },
    /// Another rank of the run has failed.
    #[error("rank {rank} has failed: {reason}")]
    OfRank {
        /// The rank.
        rank: usize,
        /// Its error.
        reason: String,
    },
    /// Ranks see different data.
    #[error("rank {rank} sees other images or labels than rank 0: give all ranks the same data")]
    OtherData {
        /// The first rank that does.
        rank: usize,
    },
    /// A table of the data set.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The labels.
    #[error(transparent)]
    Label(#[from] LabelError),
    /// The policy of unknown labels.
    #[error(transparent)]
    LabelPolicy(#[from] LabelPolicyError),
    /// The changes to training images.
    #[error(transparent)]
    Augmentation(#[from] AugmentationError),
    /// The phantom.
    #[error(transparent)]
    Phantom(#[from] PhantomError),
    /// The cache of pixels.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The split.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// Where the images lie.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The images.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The input of the model.
    #[error(transparent)]
    Preprocessing(#[from] PreprocessingError),
    /// The training loop.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// Weights.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// Metrics.
    #[error(transparent)]
    Metric(#[from] MetricError),
    /// Figures.
    #[error(transparent)]
    Figure(#[from] FigureError),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Heat maps of cases.
    #[error(transparent)]
    Predict(#[from] PredictError),
}

impl RunError {
    pub(super) fn file(path: impl Into<PathBuf>, error: impl std::fmt::Display) -> Self {
        Self::File {
            path: path.into(),
            reason: error.to_string(),
        }
    }
}
