//! All tell rank 0 that they are connected to each other, or why not, and learn from it what becomes of the job: so who
//! dies while the others still connect is named on all of them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::RendezvousError;
use super::handshake::PATIENCE;
use super::stream::Stream;
use super::time_limit::TimeLimit;
use super::wire::{self, Until, WireError};

/// Between two looks.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// How long rank 0 may take to say what it knows.
const MOMENT: Duration = Duration::from_millis(500);

/// From a rank: how it is with its connections. From rank 0: how it is with all.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Said {
    Connected,
    Failed(String),
}

/// What is known of the others while a rank connects.
pub(super) struct Completion<'a> {
    rank: usize,
    /// To rank 0, or on rank 0 to each other.
    control: &'a BTreeMap<usize, Stream>,
    connected: RefCell<BTreeSet<usize>>,
}

impl<'a> Completion<'a> {
    pub fn new(rank: usize, control: &'a BTreeMap<usize, Stream>) -> Self {
        Self {
            rank,
            control,
            connected: RefCell::default(),
        }
    }

    /// Whether the job may still start.
    ///
    /// # Errors
    ///
    /// If a rank has gone or failed, as far as this one can know.
    pub fn check(&self) -> Result<(), RendezvousError> {
        for (&rank, stream) in self.control {
            if self.connected.borrow().contains(&rank) {
                // What it says next is said to the supervision.
                continue;
            }
            let lost = |reason: String| RendezvousError::Lost { rank, reason };
            match stream.is_readable() {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    return Err(lost("its connection was closed".into()));
                }
                Err(error) => return Err(lost(error.to_string())),
            }
            let deadline = Instant::now() + PATIENCE;
            let said = wire::receive(&mut Until { stream, deadline });
            let said = said.map_err(|error| match error {
                WireError::Io(error) if error.kind() == ErrorKind::TimedOut => {
                    RendezvousError::Silent {
                        ranks: vec![rank],
                        seconds: PATIENCE.as_secs_f64(),
                        awaited: "the rest of a message",
                    }
                }
                error => lost(error.to_string()),
            });
            match said? {
                Said::Connected => drop(self.connected.borrow_mut().insert(rank)),
                Said::Failed(reason) => return Err(RendezvousError::Refused(reason)),
            }
        }
        Ok(())
    }

    /// Says what has become of the own connections, and waits for those of all.
    ///
    /// # Errors
    ///
    /// If the own could not be made, or those of another rank.
    pub fn conclude<T>(
        self,
        own: Result<T, RendezvousError>,
        time: TimeLimit,
    ) -> Result<T, RendezvousError> {
        let own = own.map_err(|error| match error {
            RendezvousError::Unconnectable { .. } => self.cause().unwrap_or(error),
            error => error,
        });
        let outcome = own.and_then(|links| {
            if self.rank != 0 {
                self.say(&Said::Connected);
            }
            self.wait(time)?;
            Ok(links)
        });
        match &outcome {
            Ok(_) if self.rank != 0 => {}
            Ok(_) => self.say(&Said::Connected),
            Err(error) => self.say(&Said::Failed(error.to_string())),
        }
        outcome
    }

    /// Why another has closed a connection that this rank wanted, if rank 0 says it in a moment or is gone.
    fn cause(&self) -> Option<RendezvousError> {
        let until = Instant::now() + MOMENT;
        while Instant::now() < until {
            if let Err(cause) = self.check() {
                return Some(cause);
            }
            std::thread::sleep(LOOK);
        }
        None
    }

    /// Waits for what all others say: of rank 0, or to rank 0.
    fn wait(&self, time: TimeLimit) -> Result<(), RendezvousError> {
        let (time, awaited) = match self.rank {
            0 => (time, "that it is connected to all others"),
            // Rank 0 knows who is missing, and says it.
            _ => (time.and(PATIENCE), "that all are connected"),
        };
        loop {
            self.check()?;
            let connected = self.connected.borrow();
            if connected.len() == self.control.len() {
                return Ok(());
            }
            if time.rest().is_zero() {
                let missing = self.control.keys().filter(|rank| !connected.contains(rank));
                return Err(RendezvousError::Silent {
                    ranks: missing.copied().collect(),
                    seconds: time.seconds(),
                    awaited,
                });
            }
            drop(connected);
            std::thread::sleep(LOOK);
        }
    }

    fn say(&self, said: &Said) {
        for stream in self.control.values() {
            let deadline = Instant::now() + PATIENCE;
            // Who is gone need not know, or is found to be.
            let _ = wire::send(&mut Until { stream, deadline }, said);
        }
    }
}
