//! What has become of a rank.

use std::time::Instant;

/// What has become of a rank.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub rank: usize,
    /// Exit code; `None` if a signal has ended it.
    pub code: Option<i32>,
    /// Why it has failed, if it has said so.
    pub error: Option<String>,
    /// What it has said.
    pub said: Vec<String>,
    /// What it has written to standard error.
    pub log: String,
    pub ended: Instant,
}

impl Outcome {
    /// It has failed, with one line that has all of `parts`, before `until`.
    #[track_caller]
    pub fn fails(&self, until: Instant, parts: &[&str]) {
        let Some(error) = &self.error else {
            panic!("rank {} has not failed: {self:#?}", self.rank);
        };
        assert_eq!(self.code, Some(1), "{self:#?}");
        for part in parts {
            assert!(error.contains(part), "no {part:?} in {self:#?}");
        }
        let late = self.ended.saturating_duration_since(until);
        assert!(late.is_zero(), "late by {late:?}: {self:#?}");
    }

    /// It has not failed.
    #[track_caller]
    pub fn succeeds(&self) {
        assert_eq!(self.code, Some(0), "{self:#?}");
    }
}
