//! The folder of snapshots. A snapshot appears whole, by one rename, or not at all.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::content::{Document, FORMAT, MODEL, OPTIMIZER, STATE, replica};
use super::state::RunState;
use super::{Snapshot, SnapshotError, checksums, differences};
use crate::progress::write_line;

/// Where a run keeps its snapshots, and how many.
///
/// Each is a folder `step-N` with the model and its running statistics, the optimiser, and the state
/// of the run: schedule, best loss, position in the epoch; of a run with several replicas also what
/// each of them has of its own, such as its running statistics, of which the model has the mean. It is written as `step-N.tmp`, synced to
/// the disk and renamed, so that a run killed at any moment finds the one before.
///
/// ```
/// use burn_dist::train::Snapshots;
/// # let folder = tempfile::tempdir()?;
/// let snapshots = Snapshots::new(folder.path().join("checkpoints"));
/// assert!(snapshots.newest()?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Snapshots {
    folder: PathBuf,
    every: Option<NonZeroUsize>,
    keep: NonZeroUsize,
    configuration: Value,
}

impl Snapshots {
    /// In `folder`, one at the end of each epoch; the last two stay.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            every: None,
            keep: NonZeroUsize::MIN.saturating_add(1),
            configuration: Value::Null,
        }
    }

    /// After every `steps` steps as well.
    pub fn every(self, steps: Option<NonZeroUsize>) -> Self {
        Self {
            every: steps,
            ..self
        }
    }

    /// The last `count` stay.
    pub fn keep(self, count: NonZeroUsize) -> Self {
        Self {
            keep: count,
            ..self
        }
    }

    /// What decides the run beyond the loop's own settings, such as its options as JSON: a run can
    /// only go on with the configuration that it began with.
    pub fn configuration(self, configuration: Value) -> Self {
        Self {
            configuration,
            ..self
        }
    }

    /// The newest snapshot that is whole; one that is damaged is passed over with a warning on
    /// standard error. `None` if there is none yet.
    ///
    /// # Errors
    ///
    /// If the folder or a snapshot cannot be read, all snapshots are damaged, or the newest is of another
    /// version of this program.
    pub fn newest(&self) -> Result<Option<Snapshot>, SnapshotError> {
        let found = self.list()?;
        let mut newest = None;
        for (_, path) in found.iter().rev() {
            match Snapshot::read(path) {
                Ok(snapshot) => return Ok(Some(snapshot)),
                Err(error) if !matches!(error, SnapshotError::Damaged { .. }) => return Err(error),
                Err(error) => {
                    write_line(&format!("warning: {error}: trying the one before"));
                    newest.get_or_insert(error);
                }
            }
        }
        match newest {
            None => Ok(None),
            Some(newest) => Err(SnapshotError::AllDamaged {
                path: self.folder.clone(),
                count: found.len(),
                newest: newest.to_string(),
            }),
        }
    }

    /// Whether there is no snapshot, not even a damaged one.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read.
    pub fn is_empty(&self) -> Result<bool, SnapshotError> {
        Ok(self.list()?.is_empty())
    }

    /// Removes every snapshot, finished or not: a new run begins. Whatever else lies in the folder
    /// stays.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read, or a snapshot not be removed.
    pub fn clear(&self) -> Result<(), SnapshotError> {
        let refuse = |source| SnapshotError::Folder {
            path: self.folder.clone(),
            source,
        };
        for (_, path) in self.list()? {
            fs::remove_dir_all(path).map_err(refuse)?;
        }
        self.remove_unfinished().map_err(refuse)
    }

    /// Whether one is due after this many steps.
    pub(in crate::train) fn is_due(&self, steps: usize) -> bool {
        self.every
            .is_some_and(|every| steps.is_multiple_of(every.get()))
    }

    /// Refuses a snapshot of another configuration: for who wants to know before anything that takes
    /// long. A training run asks by itself.
    ///
    /// # Errors
    ///
    /// Names every entry that differs.
    pub fn check(&self, snapshot: &Snapshot) -> Result<(), SnapshotError> {
        self.ensure_same(snapshot, &snapshot.settings)
    }

    /// Refuses a snapshot of another configuration or of other settings of the loop.
    pub(in crate::train) fn ensure_same(
        &self,
        snapshot: &Snapshot,
        settings: &Value,
    ) -> Result<(), SnapshotError> {
        let mut found = differences(&snapshot.configuration, &self.configuration);
        found.extend(differences(&snapshot.settings, settings));
        match found.is_empty() {
            true => Ok(()),
            false => Err(SnapshotError::Differs {
                path: snapshot.path.clone(),
                differences: found,
            }),
        }
    }

    /// Where the snapshot after this many steps lies.
    pub(in crate::train) fn path(&self, steps: usize) -> PathBuf {
        self.folder.join(format!("step-{steps}"))
    }

    /// Writes a snapshot of `state` and removes those that are no longer kept.
    pub(in crate::train) fn write(
        &self,
        settings: &Value,
        state: &RunState,
        model: &[u8],
        optimizer: &[u8],
        replicas: &[Vec<u8>],
    ) -> Result<PathBuf, SnapshotError> {
        let path = self.path(state.steps);
        let document = Document {
            format: FORMAT,
            configuration: self.configuration.clone(),
            settings: settings.clone(),
            state: state.clone(),
        };
        let written = serde_json::to_vec_pretty(&document)
            .map_err(io::Error::from)
            .and_then(|document| {
                let mut files = vec![
                    (STATE.to_owned(), document.as_slice()),
                    (MODEL.to_owned(), model),
                    (OPTIMIZER.to_owned(), optimizer),
                ];
                if replicas.len() > 1 {
                    let own = replicas.iter().map(Vec::as_slice);
                    files.extend(own.enumerate().map(|(rank, own)| (replica(rank), own)));
                }
                self.write_files(&path, &files)
            });
        written.map_err(|error| {
            // What is left of it helps nobody, and the disk may be full of it; the first error is the
            // one to report.
            let _ = self.remove_unfinished();
            let older = self.list().unwrap_or_default();
            SnapshotError::Write {
                path: path.clone(),
                reason: error.to_string(),
                kept: older.into_iter().next_back().map(|(_, path)| path),
            }
        })?;
        Ok(path)
    }

    fn write_files(&self, path: &Path, files: &[(String, &[u8])]) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        self.remove_unfinished()?;
        let unfinished = path.with_extension("tmp");
        fs::create_dir(&unfinished)?;
        let sums = checksums::of(files);
        let files = files.iter().map(|(name, bytes)| (name.as_str(), *bytes));
        for (name, bytes) in files.chain([(checksums::NAME, sums.as_bytes())]) {
            let mut file = File::create(unfinished.join(name))?;
            file.write_all(bytes)?;
            file.sync_all()?;
        }
        sync_folder(&unfinished)?;
        // One of these steps can only be a damaged one, which was passed over: the loop saves no step
        // twice.
        remove(path)?;
        fs::rename(&unfinished, path)?;
        sync_folder(&self.folder)?;
        self.prune(path)
    }

    /// Removes all but the last ones; those behind `newest` can only be damaged.
    fn prune(&self, newest: &Path) -> io::Result<()> {
        let found = self.list().map_err(io::Error::other)?;
        let position = found.iter().position(|(_, path)| path == newest);
        let end = position.map_or(found.len(), |position| position + 1);
        let (kept, damaged) = found.split_at(end);
        let old = kept.len().saturating_sub(self.keep.get());
        for (_, path) in kept[..old].iter().chain(damaged) {
            fs::remove_dir_all(path)?;
        }
        Ok(())
    }

    /// The snapshots, by their steps.
    fn list(&self) -> Result<Vec<(usize, PathBuf)>, SnapshotError> {
        let mut found = Vec::new();
        for path in self.entries()? {
            let name = path.file_name().and_then(|name| name.to_str());
            let steps = name.and_then(|name| name.strip_prefix("step-")?.parse().ok());
            if let Some(steps) = steps
                && name == Some(&format!("step-{steps}"))
                && path.is_dir()
            {
                found.push((steps, path));
            }
        }
        found.sort();
        Ok(found)
    }

    /// Removes what a run that was killed has left of a snapshot.
    fn remove_unfinished(&self) -> io::Result<()> {
        for path in self.entries().map_err(io::Error::other)? {
            let name = path.file_name().and_then(|name| name.to_str());
            let steps = name.and_then(|name| name.strip_prefix("step-")?.strip_suffix(".tmp"));
            if steps.is_some_and(|steps| steps.parse::<usize>().is_ok()) {
                remove(&path)?;
            }
        }
        Ok(())
    }

    fn entries(&self) -> Result<Vec<PathBuf>, SnapshotError> {
        let refuse = |source| SnapshotError::Folder {
            path: self.folder.clone(),
            source,
        };
        match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(refuse(error)),
            Ok(entries) => entries
                .map(|entry| entry.map(|entry| entry.path()))
                .collect::<io::Result<_>>()
                .map_err(refuse),
        }
    }
}

/// Removes a folder that may not be there.
fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// A rename and a new file are on the disk once their folder is.
fn sync_folder(folder: &Path) -> io::Result<()> {
    match cfg!(unix) {
        true => File::open(folder)?.sync_all(),
        false => Ok(()),
    }
}
