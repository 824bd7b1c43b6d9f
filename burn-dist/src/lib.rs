//! Training of any Burn model, on one process or many.
//!
//! [`train`] owns the one training loop of the project. It knows no model: a model brings its
//! forward and backward pass as burn-train's [`TrainStep`](burn::train::TrainStep) and
//! [`InferenceStep`](burn::train::InferenceStep), and the loop reads the loss of each step
//! through [`StepOutput`](train::StepOutput). What differs between one process and many is a
//! [`Replica`](train::Replica), the only seam for distribution.
//!
//! [`distributed`] trains a model on all ranks of a world, in that loop or in one of your own; [`start`] makes a program
//! several processes.
//!
//! [`Snapshots`](train::Snapshots) make a run exact to resume, [`optimizer`] takes PyTorch's steps.
//!
//! May use `burn-dist-core`; may know neither a model nor a data set.

/// What this is built on, so that a project needs no second dependency.
pub use burn_dist_core;

pub mod distributed;
pub mod optimizer;
pub mod progress;
pub mod start;
pub mod train;
