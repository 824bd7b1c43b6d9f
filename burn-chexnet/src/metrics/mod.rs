//! How good a classifier is: AUROC with its DeLong interval, ROC curve, the table of a run.
//!
//! Everything here works on plain slices of scores and labels. It may depend neither on Burn nor on
//! a file format, so that the same code measures a model of any framework.

mod auroc;
mod delong;
mod error;
mod evaluation;
mod ranking;
mod roc;

pub use auroc::auroc;
pub use delong::{ConfidenceInterval, delong};
pub use error::MetricError;
pub use evaluation::{Evaluation, LabelMetrics, evaluate};
pub use roc::{RocPoint, roc_curve};
