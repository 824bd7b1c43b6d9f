//! The last operations of a rank: a flight recorder.

use std::collections::VecDeque;
use std::time::Instant;

use serde::Serialize;

use super::agreement::{self, Calls, Trail};
use crate::collective::{Algorithm, Call, Order};

/// Operations that are kept.
const KEPT: usize = 1_000;

/// An operation, as it was called.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Record {
    /// Operations before it.
    pub sequence: u64,
    /// What was called.
    pub call: Call,
    /// How it went about it.
    pub algorithm: Algorithm,
    /// In which order it adds.
    pub order: Order,
    /// When it began, in microseconds since the world did.
    pub began_us: u64,
    /// When it ended, in microseconds since the world did.
    pub ended_us: Option<u64>,
    /// What became of it.
    pub state: State,
    /// Of all calls up to this one.
    #[serde(skip)]
    digest: u64,
}

/// What became of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is under way.
    UnderWay,
    /// It is done.
    Done,
    /// It has failed.
    Failed,
}

/// The records of a rank.
#[derive(Debug)]
pub(super) struct Recorder {
    origin: Instant,
    records: VecDeque<Record>,
}

impl Recorder {
    pub fn new() -> Self {
        Self {
            origin: Instant::now(),
            records: VecDeque::with_capacity(KEPT),
        }
    }

    fn now(&self) -> u64 {
        self.origin.elapsed().as_micros() as u64
    }

    pub fn begin(&mut self, sequence: u64, call: Call, algorithm: Algorithm) {
        let before = self.records.back().map_or(0, |last| last.digest);
        if self.records.len() == KEPT {
            self.records.pop_front();
        }
        self.records.push_back(Record {
            sequence,
            call,
            algorithm,
            order: algorithm.order(call.operation),
            began_us: self.now(),
            ended_us: None,
            state: State::UnderWay,
            digest: agreement::digest(before, &call),
        });
    }

    /// The last operation has ended; its record.
    pub fn end(&mut self, state: State) -> Option<&Record> {
        let now = self.now();
        let last = self.records.back_mut()?;
        (last.ended_us, last.state) = (Some(now), state);
        Some(last)
    }

    pub fn last(&self) -> Option<&Record> {
        self.records.back()
    }

    /// The record of an operation, unless it is too old, or to come.
    pub fn find(&self, sequence: u64) -> Option<&Record> {
        let first = self.records.front()?.sequence;
        let index = usize::try_from(sequence.checked_sub(first)?).ok()?;
        self.records.get(index)
    }

    /// Operations that have begun.
    pub fn count(&self) -> u64 {
        self.last().map_or(0, |last| last.sequence + 1)
    }

    pub fn trail(&self) -> Trail {
        Trail::new(self.count(), |number| Some(self.find(number - 1)?.digest))
    }

    pub fn calls(&self) -> Calls {
        Calls {
            first: self.records.front().map_or(0, |first| first.sequence),
            calls: self.records.iter().map(|record| record.call).collect(),
        }
    }

    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.iter()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::collective::{ElementType, Operation};

    #[test]
    fn the_last_thousand_are_kept() {
        let mut recorder = Recorder::new();
        assert!(recorder.find(0).is_none() && recorder.last().is_none());
        let call = Call {
            operation: Operation::Barrier,
            reduction: None,
            element: ElementType::U8,
            count: 2,
            root: None,
        };
        for sequence in 0..1_500 {
            recorder.begin(sequence, call, Algorithm::Doubling);
            recorder.end(State::Done);
        }
        assert_eq!(recorder.records().count(), KEPT);
        assert!(recorder.find(499).is_none() && recorder.find(1_500).is_none());
        assert_eq!(recorder.find(500).unwrap().sequence, 500);
        assert_eq!(recorder.find(1_499), recorder.last());
        assert_eq!((recorder.count(), recorder.calls().first), (1_500, 500));
        assert_eq!(recorder.calls().calls.len(), KEPT);
    }
}
