//! Ranks as threads of this process, each with a world of its own.

#[path = "../../core/tests/worlds/mod.rs"]
mod ranks;

use std::sync::Arc;

use burn_dist_core::World;

pub use ranks::free_port;

/// What each of `ranks` threads returns, in order, of a world that it may keep.
pub fn run<R: Send>(ranks: usize, work: impl Fn(Arc<World>) -> R + Sync) -> Vec<R> {
    ranks::run(ranks, &ranks::options(), |world| work(Arc::new(world)))
}
