//! How rank 0 leaves, and with it the coordinator: not before all have done what it took part in, since nobody else would
//! tell them of a failure in it. Whatever they call later needs rank 0 and fails at once.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::net::Shutdown;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::coordinator::{Coordination, Coordinator};
use super::message::{FromCoordinator, Standing};
use crate::rendezvous::{Stream, wire};

/// How long a rank is waited for that does not answer: those that are stopped never do.
const SILENCE: Duration = Duration::from_secs(5);
/// The time between two questions to a rank that is not done.
const AGAIN: Duration = Duration::from_millis(50);

/// What is known of the others while rank 0 leaves.
#[derive(Debug)]
pub(super) struct Farewell {
    began: Instant,
    /// The last operation that rank 0 took part in.
    last: u64,
    /// Ranks that have done it.
    done: BTreeSet<usize>,
    /// When a rank last answered.
    heard: BTreeMap<usize, Instant>,
}

impl Farewell {
    fn new(last: u64) -> Self {
        Self {
            began: Instant::now(),
            last,
            done: BTreeSet::new(),
            heard: BTreeMap::new(),
        }
    }

    /// `rank` says where it is.
    pub fn note(&mut self, rank: usize, sequence: u64, standing: &Standing) {
        if sequence < self.last {
            return;
        }
        self.heard.insert(rank, Instant::now());
        let is_past = sequence > self.last;
        if is_past || matches!(standing, Standing::After { .. }) {
            self.done.insert(rank);
        }
    }

    /// Whether `rank` is still to be waited for.
    fn awaits(&self, rank: usize) -> bool {
        let heard = self.heard.get(&rank).unwrap_or(&self.began);
        !self.done.contains(&rank) && heard.elapsed() < SILENCE
    }
}

impl Coordinator {
    /// Rank 0 leaves after so many operations: waits until all others have done these, or have gone, or do not answer, or
    /// the job has failed, for no longer than `limit`. It then ends without waiting for those that go on.
    pub fn leave(&self, after: u64, limit: Duration) {
        let mut state = self.state();
        state.left.insert(0, after);
        for stream in state.streams.values() {
            // Who is gone need not know.
            let _ = wire::send(&mut &**stream, &FromCoordinator::Leaves { after });
        }
        let began = Instant::now();
        let mut asked = None::<Instant>;
        state.farewell = after.checked_sub(1).map(Farewell::new);
        while let Some(farewell) = state.farewell.as_ref().filter(|_| !state.over) {
            let awaited = state.streams.iter();
            let mut awaited = awaited
                .filter(|(rank, _)| farewell.awaits(**rank))
                .peekable();
            if awaited.peek().is_none() || began.elapsed() >= limit {
                break;
            }
            if asked.is_none_or(|asked| asked.elapsed() >= AGAIN) {
                asked = Some(Instant::now());
                let sequence = farewell.last;
                for (_, stream) in awaited {
                    // Who is gone is noticed by the thread that hears it.
                    let _ = wire::send(&mut &**stream, &FromCoordinator::Ask { sequence });
                }
            }
            let heard = self.heard.wait_timeout(state, AGAIN);
            state = heard.unwrap_or_else(PoisonError::into_inner).0;
        }
        self.end(&mut state);
    }

    fn end(&self, state: &mut Coordination) {
        state.over = true;
        for stream in state.streams.values() {
            // Who is there reads the last word before the end.
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
        let _ = hearing.recv_timeout(SILENCE);
        for stream in streams.iter().filter_map(Weak::upgrade) {
            let _ = stream.socket().shutdown(Shutdown::Both);
        }
    };
    // Without a thread they are heard for as long as they are there.
    let _ = thread.spawn(end);
}
