//! The one training loop, for any Burn model.
//!
//! | file | what it is |
//! |---|---|
//! | `training` | [`Training`]: what to train, for how long; starts a run through burn-train |
//! | `training_loop` | the strategy that burn-train runs: epochs, steps, validation |
//! | `step_output` | [`StepOutput`]: what the loop reads of a step |
//! | `epoch_clock` | [`EpochClock`]: tells loaders the epoch, and where in it to begin |
//! | `accumulation` | the gradients of a step, over its micro-batches |
//! | `replica` | [`Replica`]: the seam that distribution implements |
//! | `schedule`, `plateau` | [`LearningRate`]: warm-up and schedule |
//! | `shared_rate` | the scheduler that lets the loop set the learning rate |
//! | `snapshot` | [`Snapshots`]: all that a run needs to go on |
//! | `stop` | [`Stop`]: asking a run to stop, and signals that do so |
//! | `observer` | [`Observer`]: what a model's crate does at the end of an epoch |
//! | `renderer` | progress on the terminal |
//!
//! May not know any model or data set.

mod accumulation;
mod epoch_clock;
mod error;
mod observer;
mod plateau;
mod renderer;
mod replica;
mod schedule;
mod shared_rate;
mod snapshot;
mod step_output;
mod stop;
mod training;
mod training_loop;

pub use epoch_clock::EpochClock;
pub use error::TrainError;
pub use observer::{EpochSummary, Observer};
pub use plateau::Plateau;
pub use renderer::ProgressRenderer;
pub use replica::{LocalReplica, Replica, ReplicaError};
pub use schedule::{LearningRate, Schedule, WarmUp};
pub use shared_rate::SharedLearningRate;
pub use snapshot::{Snapshot, SnapshotError, Snapshots};
pub use step_output::StepOutput;
pub use stop::Stop;
pub use training::{Ending, Trained, Training};
pub use training_loop::TrainingLoop;
