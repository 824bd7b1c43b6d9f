//! The one training loop, for any Burn model.
//!
//! | file | what it is |
//! |---|---|
//! | `training` | [`Training`]: what to train, for how long; starts a run through burn-train |
//! | `training_loop` | the strategy that burn-train runs: epochs, steps, validation |
//! | `replica` | [`Replica`]: the seam that distribution implements |
//! | `plateau` | [`Plateau`]: divides the learning rate when the validation loss stalls |
//! | `learning_rate` | the scheduler that lets the loop set the learning rate |
//! | `observer` | [`Observer`]: what a model's crate does at the end of an epoch |
//! | `renderer` | progress on the terminal |
//!
//! May not know any model or data set.

mod error;
mod learning_rate;
mod observer;
mod plateau;
mod renderer;
mod replica;
mod training;
mod training_loop;

pub use error::TrainError;
pub use learning_rate::SharedLearningRate;
pub use observer::{EpochSummary, Observer};
pub use plateau::Plateau;
pub use renderer::ProgressRenderer;
pub use replica::{LocalReplica, Replica, ReplicaError};
pub use training::{Trained, Training};
pub use training_loop::{EpochClock, StepOutput, TrainingLoop};
