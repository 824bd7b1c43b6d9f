//! The one training loop, for any Burn model.
//!
//! | file | what it is |
//! |---|---|
//! | `training` | [`Training`]: what to train, for how long; starts a run through burn-train |
//! | `training_loop` | the strategy that burn-train runs: epochs, steps, validation |
//! | `step` | [`StepInput`], [`StepOutput`]: what the loop reads of a step |
//! | `shard`, `sharded_loader` | [`Shard`]: which items a rank gets, and a loader of them |
//! | `epoch_clock` | [`EpochClock`]: tells loaders the epoch, and where in it to begin |
//! | `accumulation` | the gradients of a step, over its micro-batches |
//! | `replica` | [`Replica`]: the seam between the loop and the processes it runs on |
//! | `world_replica` | [`WorldReplica`]: a rank of a world |
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
mod shard;
mod sharded_loader;
mod shared_rate;
mod snapshot;
mod step;
mod stop;
mod training;
mod training_loop;
mod world_replica;

pub use epoch_clock::EpochClock;
pub use error::TrainError;
pub use observer::{EpochSummary, Observer};
pub use plateau::Plateau;
pub use renderer::ProgressRenderer;
pub use replica::{LocalReplica, Replica};
pub use schedule::{LearningRate, Schedule, WarmUp};
pub use shard::{Shard, Uneven};
pub use sharded_loader::ShardedLoader;
pub use shared_rate::SharedLearningRate;
pub use snapshot::{Snapshot, SnapshotError, Snapshots};
pub use step::{StepInput, StepOutput};
pub use stop::Stop;
pub use training::{Ending, Trained, Training};
pub use training_loop::TrainingLoop;
pub use world_replica::WorldReplica;
