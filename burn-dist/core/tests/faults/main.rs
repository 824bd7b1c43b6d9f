//! Nothing hangs: ranks as real processes, of which some die, stop, leave, differ, or are strangers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod deaths;
mod disagreement;
mod namespaces;
mod processes;
mod programs;
mod soak;
mod starting;
mod strangers;
