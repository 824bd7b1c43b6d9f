//! How a run ended.

use std::fmt;
use std::path::PathBuf;

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome<T> {
    /// It was trained and measured.
    Finished(T),
    /// It was trained and measured, and what came of it is with the main rank.
    WithMain,
    /// It was asked to stop.
    Stopped(Stopped),
}

/// Where a run stopped that was asked to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Steps of the optimiser so far.
    pub steps: usize,
    /// The snapshot, which holds all until then.
    pub snapshot: Option<PathBuf>,
}

impl<T> Outcome<T> {
    /// The same with `change` applied to what was finished.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Outcome<U> {
        match self {
            Self::Finished(finished) => Outcome::Finished(change(finished)),
            Self::WithMain => Outcome::WithMain,
            Self::Stopped(stopped) => Outcome::Stopped(stopped),
        }
    }
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stopped after step {}", self.steps)?;
        match &self.snapshot {
            Some(snapshot) => write!(f, ", saved in {}", snapshot.display()),
            None => Ok(()),
        }
    }
}
