//! Who is there: rank, world size and meeting point of every process of a job.
//!
//! | module | what it is for |
//! |---|---|
//! | `environment` | the variables of a process |
//! | `launcher` | what each launcher leaves in them |
//! | `host_list` | Slurm's lists of hosts |
//! | `identity` | who this process is, from all of them |
//!
//! Knows no transport and no collective.

mod environment;
mod host_list;
mod identity;
mod launcher;

pub use environment::Environment;
pub use identity::{Identity, IdentityError, MeetingPoint};
pub use launcher::Launcher;
