//! A snapshot as bytes, from the replica that has read it to the others.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::state::RunState;
use super::{Snapshot, SnapshotError};

/// All but what is large.
#[derive(Serialize, Deserialize)]
struct Head {
    path: PathBuf,
    configuration: Value,
    settings: Value,
    state: RunState,
    /// Bytes of model, optimiser and replicas, in the order in which they follow.
    lengths: Vec<usize>,
}

impl Snapshot {
    /// Its content, for [`from_bytes`](Self::from_bytes) on another replica.
    pub(in crate::train) fn to_bytes(&self) -> Vec<u8> {
        let mut parts = vec![self.model.as_slice(), self.optimizer.as_slice()];
        parts.extend(self.replicas.iter().map(Vec::as_slice));
        let head = Head {
            path: self.path.clone(),
            configuration: self.configuration.clone(),
            settings: self.settings.clone(),
            state: self.state.clone(),
            lengths: parts.iter().map(|part| part.len()).collect(),
        };
        // Numbers and text, of which JSON has come before; nothing arrives as no snapshot.
        let head = serde_json::to_vec(&head).unwrap_or_default();
        let length = (head.len() as u64).to_le_bytes();
        let mut bytes = [length.as_slice(), head.as_slice()].concat();
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
        bytes
    }

    /// The snapshot that another replica has; `None` without bytes.
    pub(in crate::train) fn from_bytes(bytes: &[u8]) -> Result<Option<Self>, SnapshotError> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let refuse = |reason: String| SnapshotError::Mismatch {
            path: PathBuf::from("of the main replica"),
            reason,
        };
        let short = || refuse("it has not come as a whole".to_owned());
        let (length, rest) = bytes.split_first_chunk().ok_or_else(short)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let (head, mut rest) = rest.split_at_checked(length).ok_or_else(short)?;
        let head: Head = serde_json::from_slice(head).map_err(|e| refuse(e.to_string()))?;
        let mut parts = Vec::new();
        for length in head.lengths {
            let (part, behind) = rest.split_at_checked(length).ok_or_else(short)?;
            parts.push(part.to_vec());
            rest = behind;
        }
        if parts.len() < 2 {
            return Err(short());
        }
        let replicas = parts.split_off(2);
        let [model, optimizer] = [0, 1].map(|part| std::mem::take(&mut parts[part]));
        Ok(Some(Self {
            path: head.path,
            configuration: head.configuration,
            settings: head.settings,
            state: head.state,
            model,
            optimizer,
            replicas,
        }))
    }
}
