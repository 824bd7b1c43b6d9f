//! Where the lines of ranks go: to this process's own output, each behind its rank, or to files.
//!
//! Knows no processes.

use std::collections::VecDeque;
use std::fmt::{Display, Formatter};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::LaunchError;
use super::lines;

/// Where the output of ranks goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// To standard output and standard error of the launcher, each line behind `[RANK] `.
    #[default]
    Prefixed,
    /// To the file `rank-RANK.log` of each rank in this folder, both streams. The folder is made; such files
    /// of an earlier launch are overwritten, and those of ranks beyond the last are removed.
    Files(PathBuf),
}

/// A stream of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Output,
    Error,
}

/// Whose line it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Speaker {
    Rank(usize),
    /// The connection to a host: ssh itself, or what it has started there.
    Host(String),
}

impl Display for Speaker {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rank(rank) => write!(f, "rank {rank}"),
            Self::Host(host) => write!(f, "the connection to {host}"),
        }
    }
}

/// How many lines of a standard error are kept, and how much of each.
const LAST_LINES: usize = 10;
const LAST_LINE_BYTES: usize = 1000;

/// Where the lines of all ranks go.
pub(super) struct Destination {
    /// Held while both standard streams are written: they may be the same file.
    screen: Mutex<()>,
    /// By rank, if lines go to files.
    files: Vec<Mutex<File>>,
    last_lines: Mutex<Vec<LastLines>>,
}

/// What a speaker has written last to its standard error.
struct LastLines {
    speaker: Speaker,
    lines: VecDeque<String>,
    /// A back-trace is under way.
    is_tracing: bool,
}

impl Destination {
    /// For the ranks of a world of `world_size`.
    pub(super) fn new(output: &Output, world_size: usize) -> Result<Self, LaunchError> {
        let mut files = Vec::new();
        if let Output::Files(folder) = output {
            let error = |path: PathBuf| |source| LaunchError::Output { path, source };
            std::fs::create_dir_all(folder).map_err(error(folder.clone()))?;
            for rank in 0..world_size {
                let path = folder.join(format!("rank-{rank}.log"));
                files.push(Mutex::new(File::create(&path).map_err(error(path))?));
            }
            remove_beyond(folder, world_size).map_err(error(folder.clone()))?;
        }
        Ok(Self {
            screen: Mutex::new(()),
            files,
            last_lines: Mutex::new(Vec::new()),
        })
    }

    /// The last lines that `speaker` has written to its standard error.
    pub(super) fn last_lines(&self, speaker: &Speaker) -> Vec<String> {
        let all = held(&self.last_lines);
        let found = all.iter().find(|other| other.speaker == *speaker);
        found.map_or(Vec::new(), |found| found.lines.iter().cloned().collect())
    }

    /// A line of this process itself.
    pub(super) fn say(&self, mut line: String) {
        line.push('\n');
        // There is nobody left to tell if that fails.
        let _ = self.print(Stream::Error, line.as_bytes());
    }

    fn keep(&self, speaker: &Speaker, line: &[u8]) {
        let text = lines::text(line);
        let text = String::from_utf8_lossy(&text[..text.len().min(LAST_LINE_BYTES)]);
        if text.is_empty() {
            return;
        }
        let mut all = held(&self.last_lines);
        let at = all.iter().position(|other| other.speaker == *speaker);
        let at = at.unwrap_or_else(|| {
            all.push(LastLines {
                speaker: speaker.clone(),
                lines: VecDeque::new(),
                is_tracing: false,
            });
            all.len() - 1
        });
        let last = &mut all[at];
        // The message of a panic stands before its back-trace, which would leave no room for it.
        let begins = text == "stack backtrace:";
        last.is_tracing = begins || last.is_tracing && lines::is_of_backtrace(&text);
        if last.is_tracing {
            return;
        }
        let kept = &mut last.lines;
        if kept.len() == LAST_LINES {
            kept.pop_front();
        }
        kept.push_back(text.into_owned());
    }

    fn print(&self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        let _screen = held(&self.screen);
        match stream {
            Stream::Output => {
                let mut output = io::stdout().lock();
                output.write_all(bytes).and_then(|()| output.flush())
            }
            Stream::Error => io::stderr().lock().write_all(bytes),
        }
    }
}

/// Removes the files of ranks from `world_size` on, which an earlier launch has left: they would be taken for
/// some of this one.
fn remove_beyond(folder: &Path, world_size: usize) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| {
            let number = name.strip_prefix("rank-")?.strip_suffix(".log")?;
            number.parse::<usize>().ok()
        });
        let is_own = |number: &usize| name == *format!("rank-{number}.log");
        if number.is_some_and(|number| number >= world_size && is_own(&number)) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Writes the lines of one stream, as many at a time as have come.
pub(super) struct Writer {
    destination: Arc<Destination>,
    stream: Stream,
    buffer: Vec<u8>,
    /// The rank to whose file the buffer goes; `None` if to the screen.
    file: Option<usize>,
}

impl Writer {
    pub(super) fn new(destination: Arc<Destination>, stream: Stream) -> Self {
        Self {
            destination,
            stream,
            buffer: Vec::new(),
            file: None,
        }
    }

    /// Adds a line, with or without its end.
    pub(super) fn line(&mut self, speaker: &Speaker, line: &[u8]) -> io::Result<()> {
        if self.stream == Stream::Error {
            self.destination.keep(speaker, line);
        }
        let file = match speaker {
            Speaker::Rank(rank) if !self.destination.files.is_empty() => Some(*rank),
            _ => None,
        };
        if file != self.file {
            self.flush()?;
            self.file = file;
        }
        if file.is_some() {
            self.buffer.extend_from_slice(line);
            return Ok(());
        }
        let text = lines::text(line);
        // What a progress bar begins with is no line.
        if text.is_empty() && line.ends_with(b"\r") {
            return Ok(());
        }
        match speaker {
            Speaker::Rank(rank) => write!(self.buffer, "[{rank}] ")?,
            Speaker::Host(host) => write!(self.buffer, "[{host}] ")?,
        }
        self.buffer.extend_from_slice(text);
        self.buffer.push(b'\n');
        Ok(())
    }

    /// Adds the last line of the stream, which may have no end.
    pub(super) fn last_line(&mut self, speaker: &Speaker, line: &[u8]) -> io::Result<()> {
        self.line(speaker, line)?;
        // The other stream may still go on in the same file.
        let ended = line.ends_with(b"\n") || line.ends_with(b"\r");
        if self.file.is_some() && !ended {
            self.buffer.push(b'\n');
        }
        Ok(())
    }

    /// Writes what was added.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let buffer = std::mem::take(&mut self.buffer);
        if buffer.is_empty() {
            return Ok(());
        }
        match self.file.and_then(|rank| self.destination.files.get(rank)) {
            Some(file) => held(file).write_all(&buffer)?,
            None => self.destination.print(self.stream, &buffer)?,
        }
        self.buffer = buffer;
        self.buffer.clear();
        Ok(())
    }
}

/// A thread that panicked leaves nothing half done here.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
