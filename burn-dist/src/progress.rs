//! Progress of anything that takes longer than two seconds: a bar on a terminal, plain lines
//! where there is none (a log file, a batch job).

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Time before the first plain line.
const FIRST_LINE: Duration = Duration::from_secs(2);

/// Time between two.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Progress over a known number of items, on standard error.
///
/// ```
/// use burn_dist::progress::Progress;
/// let mut progress = Progress::new("test", 128, "images");
/// progress.set(64);
/// progress.finish("loss 0.1");
/// ```
#[derive(Debug)]
pub struct Progress {
    label: String,
    unit: &'static str,
    total: usize,
    first: usize,
    position: usize,
    started: Instant,
    line_due: Instant,
    note: String,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Starts at zero of `total` items, counted in `unit`.
    pub fn new(label: impl Into<String>, total: usize, unit: &'static str) -> Self {
        let label = label.into();
        let now = Instant::now();
        let bar = (std::io::stderr().is_terminal() && !is_logged()).then(|| {
            let style = ProgressStyle::with_template(
                "{prefix:16} {bar:30} {pos:>6}/{len} {elapsed_precise} eta {eta} {msg}",
            );
            let bar = ProgressBar::new(total as u64);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.set_prefix(label.clone());
            bar
        });
        Self {
            label,
            unit,
            total,
            first: 0,
            position: 0,
            started: now,
            line_due: now + FIRST_LINE,
            note: String::new(),
            bar,
        }
    }

    /// `first` items were done before, and do not count into the speed.
    pub fn starting_at(mut self, first: usize) -> Self {
        self.first = first;
        self.position = first;
        if let Some(bar) = &self.bar {
            bar.set_position(first as u64);
            bar.reset_eta();
        }
        self
    }

    /// Text behind the bar, such as the loss so far.
    pub fn note(&mut self, note: impl Into<String>) {
        self.note = note.into();
    }

    /// `position` items are done.
    pub fn set(&mut self, position: usize) {
        self.position = position.max(self.first);
        let note = self.status();
        match &self.bar {
            Some(bar) => {
                bar.set_message(note);
                bar.set_position(position as u64);
            }
            None if Instant::now() >= self.line_due => {
                self.line_due = Instant::now() + LINE_INTERVAL;
                write_line(&format!("{}: {position}/{} {note}", self.label, self.total));
            }
            None => {}
        }
    }

    /// Ends with one plain line that stays, if anything was done.
    pub fn finish(self, summary: &str) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        if self.position == self.first {
            return; // What stopped it before it began speaks for itself.
        }
        let line = format!(
            "{}: {} {} in {:.1} s ({:.1}/s) {summary}",
            self.label,
            self.position - self.first,
            self.unit,
            self.started.elapsed().as_secs_f64(),
            self.rate()
        );
        write_line(&line);
    }

    fn status(&self) -> String {
        format!("{:.1} {}/s {}", self.rate(), self.unit, self.note)
    }

    fn rate(&self) -> f64 {
        (self.position - self.first) as f64 / self.started.elapsed().as_secs_f64().max(1e-9)
    }
}

/// The file that takes the place of standard error, and since when.
static LOG: Mutex<Option<(File, Instant)>> = Mutex::new(None);

/// From now on lines and progress of this process go to `file`, as those of a rank that draws nothing: each line behind the
/// seconds since now.
pub fn log_to(file: File) {
    *LOG.lock().unwrap_or_else(PoisonError::into_inner) = Some((file, Instant::now()));
}

/// Whether lines go to a file.
pub(crate) fn is_logged() -> bool {
    let log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    log.is_some()
}

/// One line on standard error, or in the file of [`log_to`]. A log that cannot be written must not end a run of days.
pub fn write_line(line: &str) {
    let line = line.trim_end();
    let mut log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = match &mut *log {
        Some((file, since)) => writeln!(file, "{:10.3} {line}", since.elapsed().as_secs_f64()),
        None => writeln!(std::io::stderr(), "{line}"),
    };
}
