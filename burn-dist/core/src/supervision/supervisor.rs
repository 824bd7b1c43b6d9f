//! What a rank knows of the others, and of the first failure.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::coordinator::Coordinator;
use super::error::CollectiveError;
use super::log::Log;
use super::message::{FromCoordinator, Standing, ToCoordinator};
use super::recorder::State;
use super::trace::Trace;
use super::watch;
use crate::collective::{Algorithm, Call};
use crate::rendezvous::{Member, Stream, wire};
use crate::report::Report;
use crate::transport::LaneError;

/// From then on, and again after as long, the coordinator is told that a rank waits: another may have called something
/// else meanwhile.
pub(super) const LONG: Duration = Duration::from_millis(250);
/// How long a rank that has noticed something waits for the coordinator to say what it was.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// The supervision of one rank.
#[derive(Debug)]
pub(crate) struct Supervisor {
    pub rank: usize,
    pub members: Vec<Member>,
    /// The time that an operation has.
    pub timeout: Duration,
    coordinator: OnceLock<Link>,
    pub(super) log: Mutex<Log>,
    failure: OnceLock<CollectiveError>,
    pub(super) failed: AtomicBool,
    flight_is_written: Once,
    leaver_is_awaited: Once,
    /// The coordinator has ended, since rank 0 has, or this rank has left.
    pub(super) uncoordinated: AtomicBool,
    /// After how many operations rank 0 has left.
    pub(super) coordinator_left: OnceLock<u64>,
    /// When the coordinator was last heard.
    pub(super) heard: Mutex<Instant>,
    /// The folder for the records of a failure.
    flights: PathBuf,
    report: Report,
}

/// What is written, and where.
#[derive(Debug)]
pub(crate) struct Writings {
    /// A folder for the last operations of each rank, when it fails.
    pub flights: PathBuf,
    /// A file for the timeline of all operations.
    pub trace: Option<PathBuf>,
    /// Where it is said where the records of a failure are.
    pub report: Report,
}

/// The way to the coordinator.
#[derive(Debug)]
enum Link {
    Here(Arc<Coordinator>),
    There(Mutex<Arc<Stream>>),
}

/// A poisoned lock holds what a thread has left that has panicked: only records.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Supervisor {
    /// The supervision of `rank` among `members`; `streams` lead to rank 0, or on rank 0 to all others.
    pub fn start(
        rank: usize,
        members: Vec<Member>,
        mut streams: std::collections::BTreeMap<usize, Stream>,
        timeout: Duration,
        writings: Writings,
    ) -> io::Result<Arc<Self>> {
        let trace = writings
            .trace
            .map(|path| Trace::create(&path, rank))
            .transpose()?;
        let supervisor = Arc::new(Self {
            rank,
            members,
            timeout,
            coordinator: OnceLock::new(),
            log: Mutex::new(Log::new(trace)),
            failure: OnceLock::new(),
            failed: AtomicBool::new(false),
            flight_is_written: Once::new(),
            leaver_is_awaited: Once::new(),
            uncoordinated: AtomicBool::new(false),
            coordinator_left: OnceLock::new(),
            heard: Mutex::new(Instant::now()),
            flights: writings.flights,
            report: writings.report,
        });
        let link = if rank == 0 {
            Link::Here(Coordinator::start(&supervisor, streams)?)
        } else {
            let stream = streams.remove(&0).ok_or(io::ErrorKind::NotConnected)?;
            stream.socket().set_write_timeout(Some(GRACE))?;
            let stream = Arc::new(stream);
            let reading = stream.clone();
            let weak = Arc::downgrade(&supervisor);
            let thread = std::thread::Builder::new().name("supervision".into());
            thread.spawn(move || {
                listen(&reading, &weak);
            })?;
            Link::There(Mutex::new(stream))
        };
        // Set once, here.
        let _ = supervisor.coordinator.set(link);
        if supervisor.members.len() > 1 || lock(&supervisor.log).trace.is_some() {
            watch::start(&supervisor)?;
        }
        Ok(supervisor)
    }

    /// An operation begins.
    pub fn begin(
        &self,
        sequence: u64,
        call: Call,
        algorithm: Algorithm,
    ) -> Result<(), CollectiveError> {
        self.failure()?;
        lock(&self.log).begin(sequence, call, algorithm);
        self.coordinator_has_left()
            .map_or(Ok(()), |left| Err(self.fail(left)))
    }

    /// It has ended.
    pub fn end(&self, state: State) {
        let mut log = lock(&self.log);
        log.waits_for.clear();
        log.end(state);
    }

    /// The operation under way.
    pub fn under_way(&self) -> Option<(u64, Call)> {
        lock(&self.log).under_way()
    }

    /// Host and process of a rank.
    pub fn place(&self, rank: usize) -> String {
        let member = self.members.get(rank);
        member.map_or_else(String::new, |member| {
            format!("{}, process {}", member.host.name, member.process)
        })
    }

    /// Fails, unless it has before: the first cause.
    pub fn fail(&self, error: CollectiveError) -> CollectiveError {
        if self.failure.set(error.clone()).is_ok() {
            self.write_flight();
            self.tell(&ToCoordinator::Failed(error.clone()));
        }
        self.settle();
        self.failure.get().cloned().unwrap_or(error)
    }

    /// Makes a failure known to the program, if there is one. Not before the records are written: a program that learns of
    /// it may end at once.
    fn settle(&self) {
        let Some(error) = self.failure.get() else {
            return;
        };
        self.write_flight();
        if let CollectiveError::Left { rank, .. } = error {
            // Its program may be about to end for a reason of its own, which is to be seen before what this one says.
            let await_end = || watch::await_end(&self.members, self.rank, *rank);
            self.leaver_is_awaited.call_once(await_end);
        }
        self.failed.store(true, Ordering::Release);
    }

    /// The failure, if there is one.
    pub fn failure(&self) -> Result<(), CollectiveError> {
        if !self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        self.failure.get().cloned().map_or(Ok(()), Err)
    }

    /// What is to be done from time to time; whether it is to be done again.
    pub(super) fn round(&self) -> bool {
        if let Some(trace) = &mut lock(&self.log).trace {
            trace.flush();
        }
        self.tell_called();
        !self.failed.load(Ordering::Acquire)
    }

    /// Tells the coordinator what was called since it was last told.
    fn tell_called(&self) {
        let untold = lock(&self.log).untold();
        if let Some(trail) = untold {
            self.tell(&ToCoordinator::Called(trail));
        }
    }

    /// The process of `rank`, beside this one, has ended a while ago.
    pub(super) fn ended(&self, rank: usize) {
        if rank > 0 {
            self.tell(&ToCoordinator::Ended { rank });
        } else if self.coordinator_left.get().is_none()
            && !self.uncoordinated.load(Ordering::Acquire)
        {
            let last = self.under_way();
            self.fail(CollectiveError::Died {
                rank,
                place: self.place(rank),
                reason: "its process has ended".to_owned(),
                last,
            });
        }
    }

    /// Whom the operation under way has waited for, for a while.
    pub(super) fn waits_long_for(&self) -> Vec<usize> {
        lock(&self.log).waits_long_for()
    }

    /// This rank leaves the world. Rank 0 waits until the others have done what it took part in.
    pub fn leave(&self, after: u64) {
        self.settle();
        self.tell_called();
        if let Some(trace) = &mut lock(&self.log).trace {
            trace.close();
        }
        match self.coordinator.get() {
            Some(Link::Here(coordinator)) => coordinator.leave(after),
            Some(Link::There(stream)) => {
                self.tell(&ToCoordinator::Leaves { after });
                // What the thread that listens finds is the own end, and no death of rank 0.
                self.uncoordinated.store(true, Ordering::Release);
                // The thread that listens ends with the stream; an error says that it has.
                let _ = lock(stream).shutdown(std::net::Shutdown::Both);
            }
            None => {}
        }
    }

    pub(super) fn tell(&self, message: &ToCoordinator) {
        match self.coordinator.get() {
            Some(Link::Here(coordinator)) => coordinator.hear(self.rank, message.clone()),
            // A coordinator that is gone is noticed by the thread that listens.
            Some(Link::There(stream)) => drop(wire::send(&mut &**lock(stream), message)),
            None => {}
        }
    }

    /// Where this rank is with respect to an operation.
    pub(super) fn standing(&self, sequence: u64) -> Standing {
        lock(&self.log).standing(sequence)
    }

    pub(super) fn answer(&self, message: FromCoordinator) {
        match message {
            FromCoordinator::Ask { sequence } => {
                let standing = self.standing(sequence);
                self.tell(&ToCoordinator::Answer { sequence, standing });
            }
            FromCoordinator::Recall => {
                let calls = lock(&self.log).recorder.calls();
                self.tell(&ToCoordinator::Calls(calls));
            }
            FromCoordinator::Abort(error) => {
                // An earlier one stands.
                let _ = self.failure.set(error.during(self.under_way()));
                self.settle();
            }
            FromCoordinator::Leaves { after } => {
                // Said once; it is heard until its connection ends.
                let _ = self.coordinator_left.set(after);
            }
        }
    }

    /// The file of this rank's records, once it has failed.
    pub fn flight(&self) -> PathBuf {
        self.flights.join(format!("rank-{}.json", self.rank))
    }

    /// Writes the records down, once, or waits until another thread has.
    fn write_flight(&self) {
        self.flight_is_written.call_once(|| self.write_records());
    }

    /// What fails here must not hide what has failed before.
    fn write_records(&self) {
        let mut log = lock(&self.log);
        log.end(State::Failed);
        let flight = serde_json::json!({
            "rank": self.rank,
            "world_size": self.members.len(),
            "error": self.failure.get().map(ToString::to_string),
            "waits_for": log.waits_for,
            "operations": log.recorder.records().collect::<Vec<_>>(),
        });
        if let Some(trace) = &mut log.trace {
            trace.flush();
        }
        drop(log);
        let write = || -> io::Result<()> {
            std::fs::create_dir_all(&self.flights)?;
            let mut file = std::fs::File::create(self.flight())?;
            file.write_all(flight.to_string().as_bytes())
        };
        let is_written = write().is_ok();
        let error = self.failure.get();
        if is_written && error.is_some_and(CollectiveError::is_a_matter_of_time) {
            let folder = self.flights.display();
            let line = format!("what each rank did last is in {folder}, in a file for each");
            self.report.note(&line);
        }
    }
}

/// Answers the coordinator until it or this rank is gone.
fn listen(stream: &Stream, supervisor: &std::sync::Weak<Supervisor>) {
    loop {
        let message = wire::receive::<FromCoordinator>(&mut &*stream);
        let Some(supervisor) = supervisor.upgrade() else {
            return;
        };
        *lock(&supervisor.heard) = Instant::now();
        match message {
            Ok(message) => supervisor.answer(message),
            Err(_) => {
                let is_known = supervisor.uncoordinated.swap(true, Ordering::AcqRel)
                    || supervisor.coordinator_left.get().is_some();
                if !is_known {
                    let last = supervisor.under_way();
                    supervisor.fail(CollectiveError::Died {
                        rank: 0,
                        place: supervisor.place(0),
                        reason: LaneError::Closed.to_string(),
                        last,
                    });
                }
                return;
            }
        }
    }
}
