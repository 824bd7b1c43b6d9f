//! Rank 0 finds out what does not fit together.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::net::Shutdown;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::error::CollectiveError;
use super::message::{FromCoordinator, Standing, ToCoordinator};
use super::supervisor::Supervisor;
use crate::collective::Call;
use crate::rendezvous::{Stream, wire};
use crate::transport::LaneError;

/// The time for an answer, when an operation is late.
const ANSWERS: Duration = Duration::from_millis(400);
/// The least time between two inquiries about an operation: many ranks wait in one.
const PAUSE: Duration = Duration::from_millis(200);
/// How long an inquiry is known.
const KNOWN: Duration = Duration::from_secs(10);
/// How long ranks that have not left are heard when rank 0 has: those that are stopped never do.
const FAREWELL: Duration = Duration::from_secs(5);

/// The coordinator of a world.
#[derive(Debug)]
pub(super) struct Coordinator {
    /// Of rank 0, which owns this.
    supervisor: Weak<Supervisor>,
    state: Mutex<Coordination>,
}

#[derive(Debug, Default)]
struct Coordination {
    streams: BTreeMap<usize, Arc<Stream>>,
    /// Ranks that have left, after how many operations.
    left: BTreeMap<usize, u64>,
    inquiries: BTreeMap<u64, Inquiry>,
    over: bool,
    /// Ends when all threads that hear a rank have.
    hearing: Option<Receiver<Infallible>>,
}

/// What ranks say of an operation.
#[derive(Debug)]
struct Inquiry {
    began: Instant,
    /// Who waits, and what it calls.
    asked_by: (usize, Call),
    asked: BTreeSet<usize>,
    answers: BTreeMap<usize, Standing>,
    /// There will be a verdict on the answers.
    judged: bool,
}

impl Coordinator {
    /// Hears the ranks at the ends of `streams`.
    pub fn start(
        supervisor: &Arc<Supervisor>,
        streams: BTreeMap<usize, Stream>,
    ) -> std::io::Result<Arc<Self>> {
        let mut shared = BTreeMap::new();
        for (rank, stream) in streams {
            let limit = Some(Duration::from_secs(1));
            stream.socket().set_write_timeout(limit)?;
            shared.insert(rank, Arc::new(stream));
        }
        let (heard, hearing) = channel();
        let coordinator = Arc::new(Self {
            supervisor: Arc::downgrade(supervisor),
            state: Mutex::new(Coordination {
                streams: shared.clone(),
                hearing: Some(hearing),
                ..Coordination::default()
            }),
        });
        for (rank, stream) in shared {
            let (coordinator, heard) = (Arc::downgrade(&coordinator), heard.clone());
            let thread = std::thread::Builder::new()
                .name("coordinator".into())
                .stack_size(256 << 10);
            thread.spawn(move || {
                hear(rank, &stream, &coordinator);
                drop(heard);
            })?;
        }
        Ok(coordinator)
    }

    fn state(&self) -> MutexGuard<'_, Coordination> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `rank` says something.
    pub fn hear(self: &Arc<Self>, rank: usize, message: ToCoordinator) {
        match message {
            ToCoordinator::Waiting { sequence, call } => self.inquire(rank, sequence, call, false),
            ToCoordinator::Late { sequence, call } => self.inquire(rank, sequence, call, true),
            ToCoordinator::Answer { sequence, standing } => self.note(rank, sequence, standing),
            ToCoordinator::Failed(error) => self.abort(&error),
            ToCoordinator::Leaves { after } => {
                let mut state = self.state();
                state.left.insert(rank, after);
                state.streams.remove(&rank);
                // It may be waited for already.
                let waiting = state.inquiries.range(after..).next();
                let waiting = waiting.map(|(sequence, inquiry)| (*sequence, inquiry.asked_by));
                drop(state);
                if let Some((sequence, (other, call))) = waiting {
                    self.abort(&CollectiveError::Left {
                        rank,
                        after,
                        other,
                        sequence,
                        call,
                    });
                }
            }
        }
    }

    /// Asks all what they do as operation `sequence`, in which `rank` waits.
    fn inquire(self: &Arc<Self>, rank: usize, sequence: u64, call: Call, late: bool) {
        let mut state = self.state();
        let left = state.left.iter().find(|(_, after)| **after <= sequence);
        if let Some((&left, &after)) = left {
            drop(state);
            return self.abort(&CollectiveError::Left {
                rank: left,
                after,
                other: rank,
                sequence,
                call,
            });
        }
        let known = state.inquiries.get(&sequence);
        if let Some(one) = known.map(|inquiry| inquiry.asked_by) {
            if one.1 != call {
                drop(state);
                let other = (rank, call);
                return self.abort(&CollectiveError::Mismatch {
                    sequence,
                    one,
                    other,
                });
            }
            // All have just been asked, or are about to be judged. That it is heard is what the rank learns.
            let asked = known.is_some_and(|i| i.judged || (!late && i.began.elapsed() < PAUSE));
            if asked {
                if let Some(stream) = state.streams.get(&rank) {
                    let _ = wire::send(&mut &**stream, &FromCoordinator::Ask { sequence });
                }
                return;
            }
        }
        let inquiry = Inquiry {
            began: Instant::now(),
            asked_by: (rank, call),
            asked: state.streams.keys().copied().chain([0]).collect(),
            answers: BTreeMap::new(),
            judged: late,
        };
        state
            .inquiries
            .retain(|_, inquiry| inquiry.judged || inquiry.began.elapsed() < KNOWN);
        state.inquiries.insert(sequence, inquiry);
        let message = FromCoordinator::Ask { sequence };
        for stream in state.streams.values() {
            // Who is gone is noticed by the thread that hears it.
            let _ = wire::send(&mut &**stream, &message);
        }
        drop(state);
        if late {
            let coordinator = self.clone();
            let thread = std::thread::Builder::new().stack_size(256 << 10);
            // Without a thread there is no verdict, and each rank says what it knows.
            let _ = thread.spawn(move || {
                std::thread::sleep(ANSWERS);
                coordinator.judge(sequence);
            });
        }
        if let Some(supervisor) = self.supervisor.upgrade() {
            self.note(0, sequence, supervisor.standing(sequence));
        }
    }

    /// `rank` says where it is with respect to an operation.
    fn note(&self, rank: usize, sequence: u64, standing: Standing) {
        let mut state = self.state();
        let Some(inquiry) = state.inquiries.get_mut(&sequence) else {
            return;
        };
        let theirs = match &standing {
            Standing::In { call, .. } => Some(*call),
            Standing::After { call } => *call,
            Standing::Before { .. } => None,
        };
        inquiry.answers.insert(rank, standing);
        let one = inquiry.asked_by;
        drop(state);
        if let Some(theirs) = theirs.filter(|theirs| *theirs != one.1) {
            self.abort(&CollectiveError::Mismatch {
                sequence,
                one,
                other: (rank, theirs),
            });
        }
    }

    /// Says why an operation is late.
    fn judge(&self, sequence: u64) {
        let Some(supervisor) = self.supervisor.upgrade() else {
            return;
        };
        let mut state = self.state();
        let Some(inquiry) = state.inquiries.remove(&sequence) else {
            return;
        };
        drop(state);
        let call = inquiry.asked_by.1;
        let seconds = supervisor.timeout.as_secs();
        let silent = inquiry
            .asked
            .iter()
            .filter(|rank| !inquiry.answers.contains_key(rank));
        let silent: Vec<(usize, String)> = silent.map(|r| (*r, supervisor.place(*r))).collect();
        let missing = inquiry
            .answers
            .iter()
            .filter_map(|(rank, standing)| match standing {
                Standing::Before { last } => Some((*rank, last_of(last))),
                _ => None,
            });
        let missing: Vec<(usize, String)> = missing.collect();
        let waiting = inquiry
            .answers
            .iter()
            .filter_map(|(rank, standing)| match standing {
                Standing::In { waits_for, .. } => Some((*rank, waits_for.clone())),
                _ => None,
            });
        let waiting: Vec<(usize, Vec<usize>)> = waiting.collect();
        if silent.is_empty() && missing.is_empty() && waiting.is_empty() {
            // It was done at the last moment.
            return;
        }
        self.abort(&if !silent.is_empty() {
            CollectiveError::Silent {
                ranks: silent,
                sequence,
                call,
                seconds,
            }
        } else if !missing.is_empty() {
            CollectiveError::Missing {
                ranks: missing,
                sequence,
                call,
                seconds,
            }
        } else {
            CollectiveError::Stuck {
                sequence,
                call,
                seconds,
                waiting,
            }
        });
    }

    /// `rank` has gone without a word.
    fn lost(&self, rank: usize) {
        let Some(supervisor) = self.supervisor.upgrade() else {
            return;
        };
        let mut state = self.state();
        let known = state.streams.remove(&rank).is_none() || state.over;
        drop(state);
        if !known {
            self.abort(&CollectiveError::Died {
                rank,
                place: supervisor.place(rank),
                reason: LaneError::Closed.to_string(),
                last: supervisor.under_way(),
            });
        }
    }

    /// Ends the job on all ranks.
    fn abort(&self, error: &CollectiveError) {
        let mut state = self.state();
        if state.over {
            return;
        }
        state.over = true;
        let message = FromCoordinator::Abort(error.clone());
        for stream in state.streams.values() {
            // Who is gone need not know.
            let _ = wire::send(&mut &**stream, &message);
        }
        drop(state);
        if let Some(supervisor) = self.supervisor.upgrade() {
            supervisor.answer(message);
        }
    }

    /// Rank 0 leaves, and with it the coordinator.
    pub fn leave(&self, after: u64) {
        let mut state = self.state();
        state.over = true;
        for stream in state.streams.values() {
            // Who is gone need not know, and who is there reads it before the end.
            let _ = wire::send(&mut &**stream, &FromCoordinator::Leaves { after });
            let _ = stream.shutdown(Shutdown::Write);
        }
        let streams = std::mem::take(&mut state.streams);
        if let Some(hearing) = state.hearing.take() {
            hang_up(streams.into_values(), hearing);
        }
    }
}

/// Ends what is still heard of the ranks at the ends of `streams` after a while, without waiting for it.
fn hang_up(streams: impl Iterator<Item = Arc<Stream>>, hearing: Receiver<Infallible>) {
    // Those that go meanwhile are not held.
    let streams: Vec<Weak<Stream>> = streams.map(|stream| Arc::downgrade(&stream)).collect();
    let thread = std::thread::Builder::new()
        .name("coordinator".into())
        .stack_size(256 << 10);
    let end = move || {
        // Nothing is ever sent: it ends with the last thread, or with the time.
        let _ = hearing.recv_timeout(FAREWELL);
        for stream in streams.iter().filter_map(Weak::upgrade) {
            let _ = stream.socket().shutdown(Shutdown::Both);
        }
    };
    // Without a thread they are heard for as long as they are there.
    let _ = thread.spawn(end);
}

fn last_of(last: &Option<(u64, Call)>) -> String {
    match last {
        Some((sequence, call)) => format!("its last was operation {sequence}, {call}"),
        None => "it has called none".to_owned(),
    }
}

/// Hears a rank until it is gone.
fn hear(rank: usize, stream: &Stream, coordinator: &Weak<Coordinator>) {
    loop {
        let message = wire::receive(&mut &*stream);
        let Some(coordinator) = coordinator.upgrade() else {
            return;
        };
        match message {
            Ok(message) => coordinator.hear(rank, message),
            Err(_) => return coordinator.lost(rank),
        }
    }
}
