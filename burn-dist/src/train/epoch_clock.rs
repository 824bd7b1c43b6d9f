//! How a loader learns which epoch it is, and where in it to begin.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The current epoch, set by the loop before it asks a loader for its batches: the order of an
/// epoch then depends on its number, not on how often a loader was asked.
///
/// A run that is resumed in the middle of an epoch begins at [`first_item`](Self::first_item). A loader that
/// knows the clock leaves out the items before it and lets its progress begin there. From any other
/// the loop takes their batches and drops them: the same result, after more work.
#[derive(Clone, Debug, Default)]
pub struct EpochClock(Arc<Time>);

#[derive(Debug, Default)]
struct Time {
    epoch: AtomicU64,
    first_item: AtomicUsize,
}

impl EpochClock {
    /// The current epoch, from 1.
    pub fn epoch(&self) -> u64 {
        self.0.epoch.load(Ordering::Relaxed)
    }

    /// Items of the epoch that are to be left out, in its order.
    pub fn first_item(&self) -> usize {
        self.0.first_item.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, epoch: usize, first_item: usize) {
        self.0.epoch.store(epoch as u64, Ordering::Relaxed);
        self.0.first_item.store(first_item, Ordering::Relaxed);
    }
}
