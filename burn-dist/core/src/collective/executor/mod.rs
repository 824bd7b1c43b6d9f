//! Carries a plan out over lanes.
//!
//! One loop: send what may go, take what has arrived, and wait when neither moves. Messages and steps are worked off in
//! pieces, so that a reduction begins before its messages are complete.
//!
//! | module | what it is for |
//! |---|---|
//! | `leaving` | messages that are sent or lent |
//! | `arriving` | steps, from messages as they come |
//! | `numbers` | reductions of bytes that are elements |
//!
//! Knows of a transport only what a [`Lane`] offers, and of failures elsewhere only what [`Watch`] says.

mod arriving;
mod leaving;
#[cfg(test)]
mod loan_tests;
mod numbers;
#[cfg(test)]
mod tests;

use std::io;

use super::call::Header;
use super::element::ElementType;
use super::plan::{Area, Plan, Source, Span, Step};
use crate::supervision::CollectiveError;
use crate::transport::{Doorbell, Interest, Lane, LaneError, Poll, Waiting};
use arriving::Progress;
use leaving::Leaving;

/// Messages from this size on are lent, where the peer can read them in place: below, a copy is as fast.
pub(crate) const LENT: usize = 16 << 10;
/// Bytes that say where something is that is lent.
const PLACE: usize = 8;

/// The connections of a rank to another.
pub(crate) type Link = Vec<Box<dyn Lane>>;

/// Whether an operation that waits has failed elsewhere, or is late.
pub(crate) trait Watch {
    /// Told from time to time while nothing moves, with the ranks that are waited for.
    ///
    /// # Errors
    ///
    /// If there is nothing to wait for any more.
    fn waiting(&self, peers: &[usize]) -> Result<(), Interruption>;
}

/// Why an operation did not end.
#[derive(Debug)]
pub(crate) enum Interruption {
    /// The connection to a rank has ended.
    Link { peer: usize, error: LaneError },
    /// A rank has called something else.
    Mismatch { peer: usize, theirs: Box<Header> },
    /// What a rank sends is no message.
    Garbage { peer: usize },
    /// [`Watch`] has said so.
    Watch(Box<CollectiveError>),
    /// The system cannot wait.
    Waiting(io::Error),
}

/// What an operation works on.
pub(crate) struct Work<'a> {
    pub plan: &'a Plan,
    /// The head of all its messages; their bytes are filled in.
    pub header: Header,
    /// The type that goes over the wire.
    pub element: ElementType,
    /// Divides a mean.
    pub ranks: usize,
    pub buffer: &'a mut [u8],
    pub scratch: &'a mut [u8],
}

impl Work<'_> {
    fn bytes(&self, span: Span) -> &[u8] {
        let size = self.element.size();
        let range = span.start * size..(span.start + span.count) * size;
        match span.area {
            Area::Buffer => &self.buffer[range],
            Area::Scratch => &self.scratch[range],
        }
    }
}

/// An operation under way.
struct Execution<'a, 'b> {
    work: Work<'a>,
    links: &'b mut [Link],
    leaving: Vec<Leaving>,
    /// Messages that have arrived from each rank, complete.
    arrived: Vec<usize>,
    done: usize,
    step: Progress,
}

/// Carries `work` out.
pub(crate) fn execute(
    work: Work<'_>,
    links: &mut [Link],
    poll: Poll,
    doorbell: Option<&Doorbell>,
    watch: &dyn Watch,
) -> Result<(), Interruption> {
    let mut execution = Execution {
        leaving: leaving::of(work.plan, links),
        arrived: vec![0; links.len()],
        work,
        links,
        done: 0,
        step: Progress::default(),
    };
    let mut waiting = Waiting::new(poll);
    loop {
        let sent = execution.send()?;
        let taken = execution.take()?;
        if execution.is_over() {
            return Ok(());
        }
        if sent || taken {
            waiting.over();
            continue;
        }
        if waiting.looks_again() {
            continue;
        }
        let interests = execution.interests();
        let lanes = interests.iter().map(|(peer, lane, interest)| {
            let lane: &dyn Lane = execution.links[*peer][*lane].as_ref();
            (lane, *interest)
        });
        waiting
            .wait(lanes, doorbell)
            .map_err(Interruption::Waiting)?;
        let awaited =
            |(peer, _, interest): &(usize, usize, Interest)| interest.arrival.then_some(*peer);
        watch.waiting(&interests.iter().filter_map(awaited).collect::<Vec<_>>())?;
        for (peer, lane, _) in interests {
            let open = execution.links[peer][lane].check();
            open.map_err(|error| Interruption::Link { peer, error })?;
        }
    }
}

/// Bytes that fill a message up, so that what follows is aligned.
fn filling(bytes: usize) -> usize {
    bytes.next_multiple_of(8) - bytes
}

impl Drop for Execution<'_, '_> {
    fn drop(&mut self) {
        // Failed: what was lent goes back to the program, whoever may still be reading it.
        if !self.is_over() {
            self.links
                .iter_mut()
                .flatten()
                .for_each(|lane| lane.revoke_loans());
        }
    }
}

impl Execution<'_, '_> {
    fn is_over(&self) -> bool {
        let all_sent = self.leaving.iter().all(|l| l.next == l.messages.len());
        let all_done = all_sent && self.done == self.work.plan.steps.len();
        let is_over = |leaving: &Leaving| {
            leaving.is_flushed && self.links[leaving.peer][leaving.lane].is_paid_back()
        };
        all_done && self.leaving.iter().all(is_over)
    }

    /// What could let the operation go on.
    fn interests(&self) -> Vec<(usize, usize, Interest)> {
        let mut interests: Vec<(usize, usize, Interest)> = Vec::new();
        let mut add = |peer: usize, lane: usize, of: fn(&mut Interest) -> &mut bool| {
            let known = interests.iter().position(|i| (i.0, i.1) == (peer, lane));
            let index = known.unwrap_or_else(|| {
                interests.push((peer, lane, Interest::default()));
                interests.len() - 1
            });
            *of(&mut interests[index].2) = true;
        };
        for (index, leaving) in self.leaving.iter().enumerate() {
            if self.next_to_send(index).is_some() || !leaving.is_flushed {
                add(leaving.peer, leaving.lane, |interest| &mut interest.room);
            } else if !self.links[leaving.peer][leaving.lane].is_paid_back() {
                add(leaving.peer, leaving.lane, |interest| &mut interest.loans);
            }
        }
        for peer in self.awaited() {
            let lane = self.arrived[peer] % self.links[peer].len();
            add(peer, lane, |interest| &mut interest.arrival);
        }
        interests
    }
}
