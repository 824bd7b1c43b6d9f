//! A timeline of operations for the trace viewer of Chrome and Perfetto.
//!
//! Follows the "Trace Event Format" (complete events in a JSON array, times in microseconds). Written from time to time,
//! and closed when the world is left; viewers read an array that is not, as a process leaves that was killed.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::recorder::Record;

/// The file of one rank.
#[derive(Debug)]
pub(super) struct Trace {
    file: BufWriter<File>,
    rank: usize,
    /// When the world began, in microseconds since 1970: files of several ranks fit together.
    origin: u64,
    is_first: bool,
    /// Nothing is added to a timeline that is closed.
    is_closed: bool,
}

impl Trace {
    /// Begins a trace. The rank is put before the extension of `path`: `trace.json` becomes `trace.rank-1.json`.
    pub fn create(path: &Path, rank: usize) -> io::Result<Self> {
        let path = Self::path(path, rank);
        let file = File::create(&path).map_err(|error| {
            let text = format!("cannot write the trace {}: {error}", path.display());
            io::Error::new(error.kind(), text)
        })?;
        let mut file = BufWriter::new(file);
        file.write_all(b"[\n")?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Ok(Self {
            file,
            rank,
            origin: now.map_or(0, |now| now.as_micros() as u64),
            is_first: true,
            is_closed: false,
        })
    }

    fn path(path: &Path, rank: usize) -> PathBuf {
        let extension = path
            .extension()
            .unwrap_or("json".as_ref())
            .to_string_lossy();
        path.with_extension(format!("rank-{rank}.{extension}"))
    }

    /// Adds an operation that has ended. What cannot be written is left out: the operation itself matters more.
    pub fn add(&mut self, record: &Record) {
        if self.is_closed {
            return;
        }
        let event = serde_json::json!({
            "name": record.call.operation.to_string(),
            "cat": "collective",
            "ph": "X",
            "ts": self.origin + record.began_us,
            "dur": record.ended_us.unwrap_or(record.began_us) - record.began_us,
            "pid": self.rank,
            "tid": 0,
            "args": {
                "sequence": record.sequence,
                "call": record.call.to_string(),
                "algorithm": record.algorithm,
                "order": record.order,
                "state": record.state,
            },
        });
        let comma = if std::mem::take(&mut self.is_first) {
            ""
        } else {
            ",\n"
        };
        let _ = write!(self.file, "{comma}{event}");
    }

    /// Writes what was added, for a process that may be killed.
    pub fn flush(&mut self) {
        let _ = self.file.flush();
    }

    /// Closes the array.
    pub fn close(&mut self) {
        if std::mem::replace(&mut self.is_closed, true) {
            return;
        }
        let _ = self
            .file
            .write_all(b"\n]\n")
            .and_then(|()| self.file.flush());
    }
}
