//! How the weights move, as options: optimiser, schedule and start.
//!
//! | file | what it is |
//! |---|---|
//! | `text` | `name,key=value,flag`: the one form of such options in commands and files |
//! | `optimizer` | [`OptimizerChoice`] |
//! | `schedule` | [`ScheduleChoice`]: in epochs, as people think of it |
//! | `fine_tuning` | the weights that a run starts from, and what of them moves |

mod fine_tuning;
mod optimizer;
mod schedule;
mod text;

pub(super) use fine_tuning::{backbone, decided, head, opened, start_from};
pub use optimizer::OptimizerChoice;
pub use schedule::ScheduleChoice;
