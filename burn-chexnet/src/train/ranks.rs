//! The ranks of a run: what one of them does for all, and what all have to do.
//!
//! Knows nothing of data or models.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use burn_dist::distributed::DistributedError;
use burn_dist::train::TrainError;
use burn_dist_core::World;
use burn_dist_core::collective::Reduction;
use burn_dist_core::supervision::CollectiveError;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::RunError;

/// How long a rank that is at work goes without a word to the others: work may take hours, and a death is to be noticed
/// at once.
const ROUND: Duration = Duration::from_secs(1);

/// The ranks of a run, or this process alone.
#[derive(Clone)]
pub(super) struct Ranks(Option<Arc<World>>);

impl Ranks {
    pub fn of(world: Option<&Arc<World>>) -> Self {
        Self(world.filter(|world| world.size() > 1).cloned())
    }

    pub fn world(&self) -> Option<&Arc<World>> {
        self.0.as_ref()
    }

    pub fn rank(&self) -> usize {
        self.0.as_ref().map_or(0, |world| world.rank())
    }

    pub fn count(&self) -> usize {
        self.0.as_ref().map_or(1, |world| world.size())
    }

    pub fn is_main(&self) -> bool {
        self.rank() == 0
    }

    /// Whether this rank is the first of its host.
    pub fn leads_host(&self) -> bool {
        self.0.as_ref().is_none_or(|world| world.local_rank() == 0)
    }

    /// Does `work` on all ranks, however long each takes. If it fails on any all fail: that one with its error, the
    /// others with its name and its message.
    pub fn all<T>(&self, work: impl FnOnce() -> Result<T, RunError>) -> Result<T, RunError> {
        let Some(world) = &self.0 else {
            return work();
        };
        let outcome = std::thread::scope(|scope| {
            let (at_work, ended) = channel::<()>();
            let rounds = scope.spawn(move || wait_for_all(world, &ended));
            let outcome = work();
            drop(at_work);
            match rounds.join() {
                Ok(waited) => waited.map(|()| outcome),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        });
        let outcome = outcome.map_err(lost)?;
        let reason = match &outcome {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        };
        let reasons = world.all_gather(reason.as_bytes()).map_err(lost)?;
        let failed = (0..world.size()).find(|rank| !reasons.of(*rank).is_empty());
        if failed.is_some_and(|rank| rank != world.rank()) {
            // A launcher is to see the end of that one first, which this waits for.
            let _ = world.barrier();
        }
        match (outcome, failed) {
            (Err(error), _) => Err(error),
            (Ok(_), Some(rank)) => Err(RunError::OfRank {
                rank,
                reason: String::from_utf8_lossy(reasons.of(rank)).into_owned(),
            }),
            (Ok(done), None) => Ok(done),
        }
    }

    /// Does `work` on the main rank, for which the others wait; `None` on these.
    pub fn main<T>(
        &self,
        work: impl FnOnce() -> Result<T, RunError>,
    ) -> Result<Option<T>, RunError> {
        let is_main = self.is_main();
        self.all(|| is_main.then(work).transpose())
    }

    /// What the main rank has, on all; `None` is for the others.
    pub fn share<T: Serialize + DeserializeOwned>(&self, own: Option<T>) -> Result<T, RunError> {
        let parts = self.gather(own)?;
        parts.into_iter().next().flatten().ok_or_else(|| {
            let reason = "the main rank has nothing to share".to_owned();
            TrainError::from(DistributedError::Option(reason)).into()
        })
    }

    /// What all ranks have, in their order.
    pub fn gather<T: Serialize + DeserializeOwned>(&self, own: T) -> Result<Vec<T>, RunError> {
        let Some(world) = &self.0 else {
            return Ok(vec![own]);
        };
        let failed = |error: serde_json::Error| {
            RunError::from(TrainError::from(DistributedError::Option(format!(
                "what ranks tell each other: {error}"
            ))))
        };
        let bytes = serde_json::to_vec(&own).map_err(failed)?;
        let all = world.all_gather(&bytes).map_err(lost)?;
        let read = |rank| serde_json::from_slice(all.of(rank)).map_err(failed);
        (0..world.size()).map(read).collect()
    }
}

/// Waits until the work of all ranks is done; that of this one is when the other end of `ended` is gone.
fn wait_for_all(world: &World, ended: &Receiver<()>) -> Result<(), CollectiveError> {
    loop {
        let waited = ended.recv_timeout(ROUND);
        let mut working = [u8::from(waited == Err(RecvTimeoutError::Timeout))];
        world.all_reduce(&mut working, Reduction::Max)?;
        if working[0] == 0 {
            return Ok(());
        }
    }
}

/// Another rank cannot be reached any more.
fn lost(error: CollectiveError) -> RunError {
    TrainError::from(DistributedError::from(error)).into()
}
