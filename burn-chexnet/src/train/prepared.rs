//! The beginning of a run: options, folders and files that decide it, before any data is read.

use std::fs::File;

use burn_dist::progress::write_line;
use burn_dist::train::Snapshot;

use super::recipe::{decided, opened};
use super::resume::{has_snapshot, newest, snapshots};
use super::{RunError, TrainConfig, output};
use crate::weights::Checkpoint;

/// What the main rank finds out before anything that takes long: a wrong folder or option must not cost hours.
pub(super) struct Prepared {
    pub config: TrainConfig,
    pub weights: Option<Checkpoint>,
    pub snapshot: Option<Snapshot>,
    /// Held while the run has its folder.
    pub lock: Option<File>,
}

impl Prepared {
    /// For a run on so many ranks.
    pub fn new(config: &TrainConfig, resume: bool, ranks: usize) -> Result<Self, RunError> {
        let goes_on = resume && has_snapshot(config)?;
        let weights = match goes_on {
            true => None,
            false => opened(config)?,
        };
        output::create(&config.output)?;
        let lock = output::lock(&config.output)?;
        let config = decided(config, weights.as_ref(), goes_on)?;
        let snapshot = match resume {
            true => newest(&config, &snapshots(&config, ranks)?)?,
            false => None,
        };
        match &snapshot {
            None => output::ensure_own(&config.output)?,
            Some(snapshot) => warn_of_ranks(snapshot, ranks, config.sync_batch_norm),
        }
        Ok(Self {
            config,
            weights,
            snapshot,
            lock,
        })
    }
}

/// Says what it means that a run goes on with another number of ranks.
fn warn_of_ranks(snapshot: &Snapshot, count: usize, is_synchronised: bool) {
    let before = snapshot.replicas();
    if before == count {
        return;
    }
    let line = match is_synchronised {
        true => format!(
            "the run had {before} ranks and goes on with {count}: the same images in the same order, and weights that differ by rounding"
        ),
        false => format!(
            "warning: the run had {before} ranks and goes on with {count}: the same images in the same order, but norms see batches of another size (not so with --sync-batch-norm)"
        ),
    };
    write_line(&line);
}
