//! Nothing hangs: who has died, stopped or called something else is found out and named.
//!
//! Every rank has a connection to rank 0, whose coordinator asks and tells; the data do not pass it. A rank
//! that waits for long says so; the coordinator asks all others what they do at that place, and what does not
//! fit together ends the job on all ranks with one cause.
//!
//! | module | what it is for |
//! |---|---|
//! | `error` | what ends an operation |
//! | `message` | what ranks and the coordinator say |
//! | `agreement` | whether ranks that do not wait for each other call the same |
//! | `recorder` | the last operations of a rank |
//! | `trace` | all operations, as a timeline |
//! | `log` | what a rank knows of its operations |
//! | `supervisor` | what a rank knows of others, and of the first failure |
//! | `watch` | what a rank sees to from time to time |
//! | `deadline` | how long an operation may take |
//! | `cause` | why a connection has ended or a message does not fit |
//! | `inquiry` | what is asked when one waits, and what the answers mean |
//! | `coordinator` | rank 0 finds out what does not fit together |
//! | `farewell` | how rank 0 leaves, and the coordinator with it |
//!
//! Knows calls and ranks, no numbers and no transport.

mod agreement;
mod cause;
mod coordinator;
mod deadline;
mod error;
mod farewell;
mod inquiry;
mod log;
mod message;
mod recorder;
mod supervisor;
mod trace;
mod watch;

pub use error::CollectiveError;
pub use recorder::{Record, State};
pub(crate) use supervisor::{Supervisor, Writings};
