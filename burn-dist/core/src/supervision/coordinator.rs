//! Rank 0 finds out what does not fit together.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::Shutdown;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::agreement::{Agreement, Trail};
use super::error::CollectiveError;
use super::farewell::Farewell;
use super::inquiry::Inquiry;
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

/// The coordinator of a world.
#[derive(Debug)]
pub(super) struct Coordinator {
    /// Of rank 0, which owns this.
    supervisor: Weak<Supervisor>,
    state: Mutex<Coordination>,
    /// A rank has said something while rank 0 leaves, or has gone.
    pub(super) heard: Condvar,
}

#[derive(Debug, Default)]
pub(super) struct Coordination {
    pub streams: BTreeMap<usize, Arc<Stream>>,
    /// Ranks that have left, after how many operations.
    pub left: BTreeMap<usize, u64>,
    inquiries: BTreeMap<u64, Inquiry>,
    agreement: Agreement,
    pub over: bool,
    /// While rank 0 leaves.
    pub farewell: Option<Farewell>,
    /// Ends when all threads that hear a rank have.
    pub hearing: Option<Receiver<Infallible>>,
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
            heard: Condvar::new(),
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

    pub(super) fn state(&self) -> MutexGuard<'_, Coordination> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `rank` says something.
    pub fn hear(self: &Arc<Self>, rank: usize, message: ToCoordinator) {
        match message {
            ToCoordinator::Waiting { sequence, call } => self.inquire(rank, sequence, call, false),
            ToCoordinator::Late { sequence, call } => self.inquire(rank, sequence, call, true),
            ToCoordinator::Answer { sequence, standing } => self.note(rank, sequence, standing),
            ToCoordinator::Called(trail) => self.compare(rank, &trail),
            ToCoordinator::Calls(calls) => {
                let parted = self.state().agreement.recall(rank, calls);
                if let Some(error) = parted {
                    self.abort(&error);
                }
            }
            ToCoordinator::Ended { rank } => self.lost(rank, "its process has ended"),
            ToCoordinator::Failed(error) => self.abort(&error),
            ToCoordinator::Leaves { after } => {
                let mut state = self.state();
                state.left.insert(rank, after);
                state.streams.remove(&rank);
                self.heard.notify_all();
                if let Some(error) = state.agreement.left(rank) {
                    drop(state);
                    return self.abort(&error);
                }
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

    /// `rank` says what it has called.
    fn compare(self: &Arc<Self>, rank: usize, trail: &Trail) {
        let mut state = self.state();
        let Some(parted) = state.agreement.compare(rank, trail) else {
            return;
        };
        for rank in parted.into_iter().filter(|rank| *rank != 0) {
            match state.streams.get(&rank) {
                // Who is gone is noticed by the thread that hears it.
                Some(stream) => drop(wire::send(&mut &**stream, &FromCoordinator::Recall)),
                None => {
                    let left = state.agreement.left(rank);
                    drop(state);
                    return left.map_or((), |error| self.abort(&error));
                }
            }
        }
        drop(state);
        let supervisor = self.supervisor.upgrade().filter(|_| parted.contains(&0));
        if let Some(supervisor) = supervisor {
            supervisor.answer(FromCoordinator::Recall);
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
        if let Some(inquiry) = state.inquiries.get_mut(&sequence) {
            inquiry.waiting.insert(rank);
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
        let waiting = known.map(|inquiry| inquiry.waiting.clone());
        let inquiry = Inquiry {
            began: Instant::now(),
            asked_by: (rank, call),
            waiting: waiting.unwrap_or_else(|| [rank].into()),
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
        if let Some(farewell) = &mut state.farewell {
            farewell.note(rank, sequence, &standing);
            self.heard.notify_all();
        }
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
        let seconds = supervisor.timeout.as_secs();
        let verdict = inquiry.verdict(sequence, seconds, |rank| supervisor.place(rank));
        if let Some(error) = verdict {
            self.abort(&error);
        }
    }

    /// `rank` has gone without a word.
    fn lost(&self, rank: usize, reason: &str) {
        let Some(supervisor) = self.supervisor.upgrade() else {
            return;
        };
        let mut state = self.state();
        let stream = state.streams.remove(&rank);
        let known = stream.is_none() || state.over;
        drop(state);
        self.heard.notify_all();
        if let Some(stream) = stream {
            // Held open by a child of the rank, it would be heard for ever.
            let _ = stream.socket().shutdown(Shutdown::Both);
        }
        if !known {
            self.abort(&CollectiveError::Died {
                rank,
                place: supervisor.place(rank),
                reason: reason.to_owned(),
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
        self.heard.notify_all();
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
            Err(_) => return coordinator.lost(rank, &LaneError::Closed.to_string()),
        }
    }
}
