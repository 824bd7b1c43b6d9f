//! What a rank knows of its operations, and which of it the coordinator has been told.

use std::time::{Duration, Instant};

use super::agreement::Trail;
use super::message::Standing;
use super::recorder::{Recorder, State};
use super::supervisor::LONG;
use super::trace::Trace;
use crate::collective::{Algorithm, Call};

/// The longest time between two looks at an operation that waits. What is longer, this process was stopped, or had no core.
const LOOK: Duration = Duration::from_millis(100);

/// The operations of a rank.
#[derive(Debug)]
pub(super) struct Log {
    pub recorder: Recorder,
    pub trace: Option<Trace>,
    /// The ranks that the operation under way waits for.
    pub waits_for: Vec<usize>,
    /// How long it has taken, without the time in which this process was stopped.
    taken: Duration,
    /// When that was last looked at.
    looked: Instant,
    /// When the coordinator is to be told that it waits.
    pub tell_waiting: Duration,
    /// When it was told that the operation is late, and how long that had taken.
    pub told_late: Option<(Instant, Duration)>,
    /// Operations of which the coordinator has been told that they were called.
    told: u64,
}

impl Log {
    pub fn new(trace: Option<Trace>) -> Self {
        Self {
            recorder: Recorder::new(),
            trace,
            waits_for: Vec::new(),
            taken: Duration::ZERO,
            looked: Instant::now(),
            tell_waiting: LONG,
            told_late: None,
            told: 0,
        }
    }

    /// An operation begins.
    pub fn begin(&mut self, sequence: u64, call: Call, algorithm: Algorithm) {
        self.recorder.begin(sequence, call, algorithm);
        self.waits_for.clear();
        (self.taken, self.looked) = (Duration::ZERO, Instant::now());
        (self.tell_waiting, self.told_late) = (LONG, None);
    }

    /// How long the operation under way has taken, as far as it was waited for: a process that was stopped, with all of
    /// its job or alone, had no time to wait in.
    pub fn taken(&mut self) -> Duration {
        let now = Instant::now();
        self.taken += now.duration_since(self.looked).min(LOOK);
        self.looked = now;
        self.taken
    }

    /// The operation under way has ended, if one is.
    pub fn end(&mut self, state: State) {
        if self.under_way().is_none() {
            return;
        }
        let ended = self.recorder.end(state);
        if let (Some(trace), Some(record)) = (&mut self.trace, ended) {
            trace.add(record);
        }
    }

    /// Whom the operation under way has waited for, for a while.
    pub fn waits_long_for(&self) -> Vec<usize> {
        match self.taken >= LONG {
            true => self.waits_for.clone(),
            false => Vec::new(),
        }
    }

    /// The operation under way.
    pub fn under_way(&self) -> Option<(u64, Call)> {
        let last = self.recorder.last();
        let last = last.filter(|record| record.state == State::UnderWay);
        last.map(|record| (record.sequence, record.call))
    }

    /// Where this rank is with respect to an operation.
    pub fn standing(&self, sequence: u64) -> Standing {
        let last = self.recorder.last();
        if last.is_none_or(|last| last.sequence < sequence) {
            let last = last.map(|record| (record.sequence, record.call));
            let waits = self.under_way().is_some();
            return Standing::Before { last, waits };
        }
        match self.recorder.find(sequence) {
            Some(record) if record.state == State::UnderWay => Standing::In {
                call: record.call,
                waits_for: self.waits_for.clone(),
            },
            found => Standing::After {
                call: found.map(|record| record.call),
            },
        }
    }

    /// What was called, if the coordinator has not been told all of it.
    pub fn untold(&mut self) -> Option<Trail> {
        let count = self.recorder.count();
        let told = std::mem::replace(&mut self.told, count);
        (count > told).then(|| self.recorder.trail())
    }
}
