//! The time in which the processes of a job have to come together.

use std::time::{Duration, Instant};

/// What who has come in time has at least for what comes then.
const LEAST: Duration = Duration::from_secs(10);

/// A time and its end, the same for all that has to be done in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeLimit {
    began: Instant,
    pub end: Instant,
}

impl TimeLimit {
    /// `given` from now on.
    pub fn of(given: Duration) -> Self {
        let began = Instant::now();
        let end = began + given;
        Self { began, end }
    }

    /// The same with `more` at its end.
    pub fn and(self, more: Duration) -> Self {
        let end = self.end + more;
        Self { end, ..self }
    }

    /// The same for those who are there, and may have come at the last moment.
    pub fn once_there(self) -> Self {
        let end = self.end.max(Instant::now() + LEAST);
        Self { end, ..self }
    }

    /// What is left of it.
    pub fn rest(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// All of it, in seconds.
    pub fn seconds(&self) -> f64 {
        self.end.duration_since(self.began).as_secs_f64()
    }
}
