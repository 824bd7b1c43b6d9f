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
//! | `recorder` | the last operations of a rank |
//! | `trace` | all operations, as a timeline |
//! | `supervisor` | what a rank knows of its operations and of the failure of others |
//! | `cause` | why a connection has ended or a message does not fit |
//! | `coordinator` | rank 0 finds out what does not fit together |
//!
//! Knows calls and ranks, no numbers and no transport.

mod cause;
mod coordinator;
mod error;
mod message;
mod recorder;
mod supervisor;
mod trace;

pub use error::CollectiveError;
pub use recorder::{Record, State};
pub(crate) use supervisor::{Supervisor, Writings};
