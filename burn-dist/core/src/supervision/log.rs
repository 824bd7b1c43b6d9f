//! What a rank knows of its operations, and which of it the coordinator has been told.

use std::time::{Duration, Instant};

use super::agreement::Trail;
use super::message::Standing;
use super::recorder::{Recorder, State};
use super::supervisor::LONG;
use super::trace::Trace;
use crate::collective::{Algorithm, Call};

/// The operations of a rank.
#[derive(Debug)]
pub(super) struct Log {
    pub recorder: Recorder,
    pub trace: Option<Trace>,
    /// The ranks that the operation under way waits for.
    pub waits_for: Vec<usize>,
    /// When it began.
    pub began: Instant,
    /// When the coordinator is to be told that it waits.
    pub tell_waiting: Duration,
    pub told_late: bool,
    /// Operations of which the coordinator has been told that they were called.
    told: u64,
}

impl Log {
    pub fn new(trace: Option<Trace>) -> Self {
        Self {
            recorder: Recorder::new(),
            trace,
            waits_for: Vec::new(),
            began: Instant::now(),
            tell_waiting: LONG,
            told_late: false,
            told: 0,
        }
    }

    /// An operation begins.
    pub fn begin(&mut self, sequence: u64, call: Call, algorithm: Algorithm) {
        self.recorder.begin(sequence, call, algorithm);
        self.waits_for.clear();
        self.began = Instant::now();
        (self.tell_waiting, self.told_late) = (LONG, false);
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
            return Standing::Before { last };
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
