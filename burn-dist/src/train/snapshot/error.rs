//! What can be wrong with snapshots.

use std::io;
use std::path::PathBuf;

/// Why a snapshot cannot be written, read or used.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// A snapshot cannot be written. Those before it are untouched.
    #[error("cannot write the snapshot {}: {reason}{}", path.display(), kept.as_ref().map(|kept| format!("; {} is whole", kept.display())).unwrap_or_default())]
    Write {
        /// The snapshot.
        path: PathBuf,
        /// Why.
        reason: String,
        /// The newest snapshot before it.
        kept: Option<PathBuf>,
    },
    /// The folder of snapshots, or a file of one, cannot be read. It may be whole.
    #[error("{}: the snapshots cannot be read: {source}", path.display())]
    Folder {
        /// The folder or file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A snapshot is damaged.
    #[error("the snapshot {} is damaged: {reason}", path.display())]
    Damaged {
        /// The snapshot.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// There are snapshots, and every one is damaged.
    #[error("none of the {count} snapshots in {} can be used, the newest: {newest}", path.display())]
    AllDamaged {
        /// The folder.
        path: PathBuf,
        /// Snapshots there.
        count: usize,
        /// What is wrong with the newest.
        newest: String,
    },
    /// The snapshot is of a run with other options.
    #[error("the snapshot {} is of a run with another {}: give the same options, or begin a new run", path.display(), differences.join(", another "))]
    Differs {
        /// The snapshot.
        path: PathBuf,
        /// The options that differ, with both values.
        differences: Vec<String>,
    },
    /// The snapshot is of another model, optimiser or observer.
    #[error("the snapshot {} does not fit this run: {reason}", path.display())]
    Mismatch {
        /// The snapshot.
        path: PathBuf,
        /// The first difference.
        reason: String,
    },
}
