//! A snapshot: the names of its files, and what was read of them.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::state::{ReplicaState, RunState};
use super::{SnapshotError, checksums, damaged};

/// The form of a snapshot that this version writes and reads.
pub(super) const FORMAT: u32 = 2;

pub(super) const MODEL: &str = "model.bpk";
pub(super) const OPTIMIZER: &str = "optimizer.bpk";
pub(super) const STATE: &str = "state.json";

/// The file with what a replica has of its own.
pub(super) fn replica(rank: usize) -> String {
    format!("replica-{rank}.bin")
}

/// A snapshot that was read and is whole.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(super) path: PathBuf,
    pub(super) configuration: Value,
    pub(in crate::train) settings: Value,
    pub(in crate::train) state: RunState,
    pub(in crate::train) model: Vec<u8>,
    pub(in crate::train) optimizer: Vec<u8>,
    /// What each replica had of its own, where there were several.
    pub(super) replicas: Vec<Vec<u8>>,
}

/// The content of `state.json`.
#[derive(Serialize, Deserialize)]
pub(super) struct Document {
    pub format: u32,
    pub configuration: Value,
    pub settings: Value,
    pub state: RunState,
}

impl Snapshot {
    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Steps of the optimiser until it was taken.
    pub fn steps(&self) -> usize {
        self.state.steps
    }

    /// The epoch that it was taken in, from 1.
    pub fn epoch(&self) -> usize {
        self.state.epoch
    }

    /// The configuration of its run.
    pub fn configuration(&self) -> &Value {
        &self.configuration
    }

    /// The replicas of its run.
    pub fn replicas(&self) -> usize {
        self.state.replicas
    }

    /// What the replica with a rank had of its own; `None` if its run had another number of them.
    pub(in crate::train) fn replica(
        &self,
        rank: usize,
        count: usize,
    ) -> Result<Option<ReplicaState>, SnapshotError> {
        let own = self.replicas.get(rank);
        let Some(own) = own.filter(|_| count == self.state.replicas) else {
            return Ok(None);
        };
        let state = ReplicaState::from_bytes(own);
        let reason = || damaged(&self.path, format!("{} is too short", replica(rank)));
        state.ok_or_else(reason).map(Some)
    }

    pub(super) fn read(path: &Path) -> Result<Self, SnapshotError> {
        let document = checksums::read(path, &[STATE.to_owned()])?.concat();
        let failed = |error| damaged(path, format!("{STATE}: {error}"));
        let value: Value = serde_json::from_slice(&document).map_err(failed)?;
        if value["format"] != FORMAT {
            let reason = format!(
                "it has format {}, this version reads {FORMAT}",
                value["format"]
            );
            return Err(SnapshotError::Mismatch {
                path: path.to_path_buf(),
                reason,
            });
        }
        let document: Document = serde_json::from_value(value).map_err(failed)?;
        let steps = document.state.steps;
        if !path.ends_with(format!("step-{steps}")) {
            return Err(damaged(path, format!("it was taken after step {steps}")));
        }
        let replicas = match document.state.replicas {
            1 => Vec::new(),
            count => checksums::read(path, &(0..count).map(replica).collect::<Vec<_>>())?,
        };
        Ok(Self {
            path: path.to_path_buf(),
            configuration: document.configuration,
            settings: document.settings,
            state: document.state,
            model: checksums::read(path, &[MODEL.to_owned()])?.concat(),
            optimizer: checksums::read(path, &[OPTIMIZER.to_owned()])?.concat(),
            replicas,
        })
    }
}
