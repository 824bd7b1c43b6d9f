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

/// How long ranks are waited for that do not answer, as those that are stopped, or that have not called what rank 0 has
/// done while nobody waits for them.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time between two questions to a rank that is not done.
const AGAIN: Duration = Duration::from_millis(50);

/// What is known of the others while rank 0 leaves.
#[derive(Debug)]
pub(super) struct Farewell {
    /// How long it has taken so far, without the time in which this process was stopped.
    taken: Duration,
    /// The last operation that rank 0 took part in.
    last: u64,
    /// Ranks that have done it.
    done: BTreeSet<usize>,
    /// When a rank last said that it waits in an operation.
    waited: BTreeMap<usize, Duration>,
}

impl Farewell {
    fn new(last: u64) -> Self {
        Self {
            taken: Duration::ZERO,
            last,
            done: BTreeSet::new(),
            waited: BTreeMap::new(),
        }
    }

    /// `rank` says where it is.
    pub fn note(&mut self, rank: usize, sequence: u64, standing: &Standing) {
        if sequence < self.last {
            return;
        }
        let (is_done, waits) = match standing {
            Standing::After { .. } => (true, false),
            Standing::In { .. } => (sequence > self.last, true),
            Standing::Before { last, waits } => {
                let at = last.map(|(sequence, _)| sequence);
                let is_past = at > Some(self.last) || (at == Some(self.last) && !waits);
                (is_past, *waits)
            }
        };
        if is_done {
            self.done.insert(rank);
        } else if waits {
            self.waited.insert(rank, self.taken);
        }
    }

    /// Whether `rank` is still to be waited for. One that waits itself gets its answer within the time of its operation.
    fn awaits(&self, rank: usize) -> bool {
        let since = self.waited.get(&rank).copied().unwrap_or_default();
        !self.done.contains(&rank) && self.taken - since < PATIENCE
    }
}

impl Coordinator {
    /// Rank 0 leaves after so many operations: waits until all others have done these, as long as any of them waits for
    /// another, and until the job has failed. It then ends without waiting for those that go on.
    pub fn leave(&self, after: u64) {
        let mut state = self.state();
        state.left.insert(0, after);
        for stream in state.streams.values() {
            // Who is gone need not know.
            let _ = wire::send(&mut &**stream, &FromCoordinator::Leaves { after });
        }
        // A panic is to be seen, whatever the others wait for.
        let last = after.checked_sub(1).filter(|_| !std::thread::panicking());
        state.farewell = last.map(Farewell::new);
        let (mut asked, mut looked) = (None::<Instant>, Instant::now());
        while !state.over {
            let Coordination {
                farewell: Some(farewell),
                streams,
                ..
            } = &mut *state
            else {
                break;
            };
            farewell.taken += looked.elapsed().min(2 * AGAIN);
            looked = Instant::now();
            if !streams.keys().any(|rank| farewell.awaits(*rank)) {
                break;
            }
            if asked.is_none_or(|asked| asked.elapsed() >= AGAIN) {
                asked = Some(Instant::now());
                let sequence = farewell.last;
                let others = streams.iter();
                for (_, stream) in others.filter(|(rank, _)| !farewell.done.contains(rank)) {
                    // Who is gone is noticed by the thread that hears it.
                    let _ = wire::send(&mut &**stream, &FromCoordinator::Ask { sequence });
                }
            }
            let heard = self.heard.wait_timeout(state, AGAIN);
            state = heard.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.over = true;
        let streams = std::mem::take(&mut state.streams);
        for stream in streams.values() {
            // Who is there reads the last word before the end.
            let _ = stream.shutdown(Shutdown::Write);
        }
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
        let _ = hearing.recv_timeout(PATIENCE);
        for stream in streams.iter().filter_map(Weak::upgrade) {
            let _ = stream.socket().shutdown(Shutdown::Both);
        }
    };
    // Without a thread they are heard for as long as they are there.
    let _ = thread.spawn(end);
}
