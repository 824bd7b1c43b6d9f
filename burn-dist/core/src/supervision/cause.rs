//! What a rank says of a connection that has ended and of a message that it does not expect: not who has gone at last,
//! but why.

use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::error::CollectiveError;
use super::message::ToCoordinator;
use super::supervisor::{GRACE, LONG, Supervisor, lock};
use crate::collective::Call;
use crate::transport::LaneError;

/// How long a coordinator that says nothing may take to be back: of the five seconds in which a death is to be known.
const PATIENCE: Duration = Duration::from_secs(3);

impl Supervisor {
    /// The connection to `peer` has ended: what the coordinator says of it, or that it has died.
    pub fn lost(&self, peer: usize, reason: &LaneError) -> CollectiveError {
        let began = Instant::now();
        let last = self.under_way();
        let taken = lock(&self.log).taken();
        // Whether the peer has left, or ended for another's sake, the coordinator knows.
        self.ask_for_cause();
        if let Some(left) = self.coordinator_has_left() {
            return self.fail(left);
        }
        let alone = self.uncoordinated.load(Ordering::Acquire);
        let asks = self.rank == 0 || alone || *lock(&self.heard) > began;
        self.fail(match last {
            // Who has gone at the end of its time, because rank 0 says nothing, is not the cause.
            Some((sequence, call)) if !asks && taken >= self.timeout / 2 => {
                self.silent(0, sequence, call)
            }
            Some((sequence, call)) if is_silence(reason) => self.silent(peer, sequence, call),
            _ => CollectiveError::Died {
                rank: peer,
                place: self.place(peer),
                reason: match asks {
                    true => reason.to_string(),
                    false => format!(
                        "{reason}, and rank 0 ({}), which would know why, does not answer",
                        self.place(0)
                    ),
                },
                last,
            },
        })
    }

    /// A message of `peer` is of another operation than that under way: what is to be said of it.
    pub fn out_of_step(
        &self,
        own: (u64, Call),
        peer: usize,
        theirs: (u64, Call),
    ) -> CollectiveError {
        let (sequence, call) = theirs;
        let record = lock(&self.log).recorder.find(sequence).cloned();
        // Where they have parted, if this rank was there.
        if let Some(record) = record.filter(|record| record.call != call) {
            return self.fail(CollectiveError::Mismatch {
                sequence,
                one: (self.rank, record.call),
                other: (peer, call),
            });
        }
        // Else the peer knows, which the coordinator asks.
        self.ask_for_cause();
        self.fail(CollectiveError::OutOfStep {
            one: (self.rank, own.0, own.1),
            other: (peer, sequence, call),
        })
    }

    /// Gives the coordinator a moment to say what is wrong with the operation under way, and some more if it says nothing
    /// at all and there is time.
    fn ask_for_cause(&self) {
        let Some((sequence, call)) = self.under_way() else {
            return;
        };
        let (began, mut tell) = (Instant::now(), Duration::ZERO);
        let over =
            || self.failed.load(Ordering::Acquire) || self.uncoordinated.load(Ordering::Acquire);
        let may_answer = || {
            let is_heard = self.rank == 0 || *lock(&self.heard) > began;
            !is_heard && began.elapsed() < PATIENCE && lock(&self.log).taken() < self.timeout
        };
        while !over() && (began.elapsed() < GRACE || may_answer()) {
            if began.elapsed() >= tell {
                tell += LONG;
                self.tell(&ToCoordinator::Waiting { sequence, call });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// `rank` does not answer while an operation is under way.
    pub(super) fn silent(&self, rank: usize, sequence: u64, call: Call) -> CollectiveError {
        CollectiveError::Silent {
            ranks: vec![(rank, self.place(rank))],
            sequence,
            call,
            seconds: self.timeout.as_secs(),
        }
    }

    /// Rank 0 has left before the operation under way.
    pub(super) fn coordinator_has_left(&self) -> Option<CollectiveError> {
        let after = *self.coordinator_left.get()?;
        let (sequence, call) = self.under_way()?;
        (after <= sequence).then_some(CollectiveError::Left {
            rank: 0,
            after,
            other: self.rank,
            sequence,
            call,
        })
    }
}

/// Whether nothing comes from the other side any more, rather than that it has ended.
fn is_silence(reason: &LaneError) -> bool {
    let kind = match reason {
        LaneError::Io(error) => error.kind(),
        _ => return false,
    };
    matches!(
        kind,
        io::ErrorKind::TimedOut
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
    )
}
