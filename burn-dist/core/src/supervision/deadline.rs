//! How long an operation may take, and what a rank says of one that takes longer.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::error::CollectiveError;
use super::message::ToCoordinator;
use super::supervisor::{GRACE, LONG, Supervisor, lock};

/// How long before its end an operation is late at most: for the verdict of the coordinator to come in time.
const VERDICT: Duration = Duration::from_millis(600);

impl Supervisor {
    /// The operation under way waits for `peers`; an error if it need not any more.
    pub fn waiting(&self, peers: &[usize]) -> Result<(), CollectiveError> {
        self.failure()?;
        let (taken, current, tell_waiting, tell_late, told_late) = {
            let mut log = lock(&self.log);
            if log.waits_for != peers {
                log.waits_for = peers.to_vec();
            }
            let taken = log.taken();
            let Some(record) = log.recorder.last() else {
                return Ok(());
            };
            let current = (record.sequence, record.call);
            let tell_waiting = taken >= log.tell_waiting;
            if tell_waiting {
                log.tell_waiting = taken + LONG;
            }
            let tell_late = taken >= self.late() && log.told_late.is_none();
            if tell_late {
                log.told_late = Some((Instant::now(), taken));
            }
            (taken, current, tell_waiting, tell_late, log.told_late)
        };
        let (sequence, call) = current;
        if tell_late {
            self.tell(&ToCoordinator::Late { sequence, call });
        } else if tell_waiting {
            if let Some(left) = self.coordinator_has_left() {
                return Err(self.fail(left));
            }
            self.tell(&ToCoordinator::Waiting { sequence, call });
        }
        // However late it was told, there is time for the verdict.
        let verdict = self.timeout - self.late();
        let is_over = |(_, told_at): &(Instant, Duration)| {
            taken >= self.timeout && taken - *told_at >= verdict
        };
        let Some((late_since, _)) = told_late.filter(is_over) else {
            return Ok(());
        };
        // Nobody has said why.
        if self.uncoordinated.load(Ordering::Acquire) {
            return Err(self.fail(CollectiveError::Unexplained {
                rank: self.rank,
                waits_for: peers.to_vec(),
                sequence,
                call,
                seconds: self.timeout.as_secs(),
            }));
        }
        // A coordinator that asks may be about to say it. One that does not is what is missing.
        let asks = self.rank == 0 || *lock(&self.heard) > late_since;
        if asks && taken < self.timeout + GRACE {
            return Ok(());
        }
        Err(self.fail(self.silent(0, sequence, call)))
    }

    /// When an operation is late.
    pub(super) fn late(&self) -> Duration {
        self.timeout - (self.timeout / 4).min(VERDICT)
    }
}
