//! Nothing hangs: what becomes of a job of real processes when one of them dies, stops, leaves or calls something
//! else, when the network is cut, and when strangers come.
//!
//! | module | what it is for |
//! |---|---|
//! | `processes` | starts ranks, hears what they say, and leaves none of them behind |
//! | `outcome` | what has become of a rank |
//! | `programs` | what a rank does: a script from its environment |
//! | `proxy` | a network between two ranks that cuts bytes apart |
//! | `agreement` | results are those of one process |
//! | `deaths` | ranks that are killed, panic or end |
//! | `stops` | ranks that stop, or do something else for too long |
//! | `departures` | ranks that leave |
//! | `disagreement` | ranks that call different things |
//! | `joining` | ranks that do not come, or do not fit together |
//! | `strangers` | who connects and is not of the job |
//! | `namespaces` | two networks and a cable between them |
//! | `soak` | random operations for a while |
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod agreement;
mod deaths;
mod departures;
mod disagreement;
mod joining;
mod namespaces;
mod orphan;
mod outcome;
mod processes;
mod programs;
mod proxy;
mod shared_memory;
mod soak;
mod stops;
mod strangers;

#[test]
#[ignore = "the program of a rank, which other tests start as a process"]
fn rank_process() {
    programs::run();
}
