//! What happens while nothing fails: notes and warnings, a line each.

use std::fmt::{Debug, Display, Formatter};
use std::io::Write as _;
use std::sync::Arc;

/// Where notes and warnings go; standard error, unless told otherwise.
#[derive(Clone)]
pub struct Report(Arc<Write>);

type Write = dyn Fn(Level, &str) + Send + Sync;

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Good to know.
    Note,
    /// Something is not as it should be, and goes on.
    Warning,
}

impl Report {
    /// Calls `write` for each line, which may be at any time and in any thread.
    pub fn new(write: impl Fn(Level, &str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(write))
    }

    /// To standard error, with `rank` before each line.
    pub fn of_rank(rank: usize) -> Self {
        Self::new(move |level, line| {
            let kind = match level {
                Level::Note => "",
                Level::Warning => "warning: ",
            };
            // In one piece, since other ranks write to the same screen.
            let line = format!("rank {rank}: {kind}{line}\n");
            // Nobody may read it any more, which is no reason to fail.
            let _ = std::io::stderr().write_all(line.as_bytes());
        })
    }

    /// Nowhere.
    pub fn silent() -> Self {
        Self::new(|_, _| {})
    }

    pub(crate) fn note(&self, line: &str) {
        (self.0)(Level::Note, line);
    }

    pub(crate) fn warn(&self, line: &str) {
        (self.0)(Level::Warning, line);
    }
}

impl Debug for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("Report")
    }
}

/// Numbers of ranks in a line: `0, 3 and 997 others`.
pub(crate) struct Numbers<'a>(pub &'a [usize]);

impl Display for Numbers<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        const SHOWN: usize = 8;
        let shown = self.0.iter().take(SHOWN).map(usize::to_string);
        f.write_str(&shown.collect::<Vec<_>>().join(", "))?;
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            1 => f.write_str(" and 1 other"),
            more => write!(f, " and {more} others"),
        }
    }
}
