//! A training run of CheXNet, from files on disk to a table of AUROC.
//!
//! | file | what it is |
//! |---|---|
//! | `config/` | [`TrainConfig`]: everything that decides a run, in one serialisable value |
//! | `recipe` | [`OptimizerChoice`], [`ScheduleChoice`], fine-tuning |
//! | `split_name`, `device_name` | [`SplitName`] and [`DeviceName`]: options by name |
//! | `tables` | the tables that a run is told of, in whichever layout |
//! | `data` | [`RunData`]: records, split and images of a run |
//! | `cache` | the cache of decoded pixels, opened or built |
//! | `batches` | [`XrayBatch`] and the loader that makes them for burn-train |
//! | `step` | [`SupervisedClassifier`]: forward, loss and backward of any [`Classifier`] |
//! | `recorder` | what an epoch leaves behind: `metrics.csv`, `best` and `last` weights |
//! | `output` | the output folder: names, and making room for a new run |
//! | `measure` | the best weights on the test side |
//! | `test_side` | predictions of one side of the split |
//! | `results` | [`Results`]: `results.json` and the table |
//! | `figures` | curves and ROC as SVG |
//! | `cases` | heat maps of the best and worst test images |
//! | `run` | [`run()`]: all of it in order |
//! | `prepared` | its beginning: options, folders and files that decide it |
//! | `announce` | what it says of itself, and its learning rate |
//! | `ranks` | what one rank of a run does for all |
//! | `resume` | which snapshot a run may go on from |
//! | `outcome` | [`Outcome`]: finished, or stopped on the way |
//! | `seeds` | [`run_seeds()`]: the same with several seeds, mean and deviation |
//!
//! The loop itself is burn-dist's; here is only what is particular to chest X-rays.
//!
//! [`Classifier`]: crate::model::Classifier

mod announce;
mod batches;
mod cache;
mod cases;
mod config;
mod data;
mod device_name;
mod error;
pub mod figures;
mod measure;
mod outcome;
mod output;
mod prepared;
mod ranks;
mod recipe;
mod recorder;
mod results;
mod resume;
mod run;
mod seeds;
mod split_name;
mod step;
mod tables;
mod test_side;

pub use batches::{Order, XrayBatch, XrayLoader};
pub use config::TrainConfig;
pub use data::RunData;
pub use device_name::DeviceName;
pub use error::RunError;
pub use outcome::{Outcome, Stopped};
pub use recipe::{OptimizerChoice, ScheduleChoice};
pub use recorder::Recorder;
pub use results::{LabelResult, Results};
pub use run::{RunControl, check_split, run};
pub use seeds::{SeedResults, Spread, run_seeds};
pub use split_name::SplitName;
pub use step::{ClassifierOutput, SupervisedClassifier};
pub use test_side::predictions_of;
