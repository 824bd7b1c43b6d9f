//! Collectives between processes, for any Rust program: no Burn and no other deep-learning
//! framework in it, so that it builds in seconds.
//!
//! A [`World`] is all processes of a job. Three layers that do not know each other's insides, each a module:
//!
//! - [`rendezvous`]: who takes part: rank, world size, the address of each rank;
//! - [`transport`]: bytes between two ranks over TCP or shared memory;
//! - [`collective`]: all-reduce, broadcast, all-gather and barrier on a transport;
//!
//! and beside them [`supervision`]: nothing hangs, what has failed is named on all ranks; and [`host`]: what this
//! host and its container offer, and what to do where it is too little. [`launch`] starts the processes of a job, as
//! the binary `burn-dist` does.

pub mod collective;
mod debug;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod fuzzing;
pub mod host;
pub mod launch;
pub mod rendezvous;
pub mod report;
pub mod supervision;
#[cfg(feature = "tls")]
mod tls;
pub mod transport;
mod world;

pub use supervision::CollectiveError;
pub use world::{
    Buffer, Collective, ConnectionError, Gathered, Options, OptionsError, Pending, World,
    WorldError,
};
