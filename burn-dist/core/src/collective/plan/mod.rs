//! What each rank sends, receives and computes in an operation.
//!
//! An algorithm is a pure function from the shape of an operation to a [`Plan`]; the
//! [executor](super::executor) carries out any plan over any transport. So an algorithm can be checked
//! without a transport, and a transport serves all algorithms.
//!
//! | module | algorithm | messages in a row | bytes a rank sends of `S` |
//! |---|---|---|---|
//! | `direct` | each rank reduces its part, all exchange with all | 2 | `2(n-1)/n · S` |
//! | `doubling` | contributions double each round, all reduce all | `log₂ n` | `(n-1) · S` |
//! | `rabenseifner` | halves of contributions, then doubling parts of the result | `2 log₂ n` | `S/2 · log₂ n + (n-1)/n · S` |
//! | `chain` | from rank to rank, pipelined | `2(n-1)` | `2 S` |
//! | `hierarchical` | direct within a host, a chain of hosts for each local rank | `2 hosts` | `S/l · 2` between hosts of `l` ranks |
//! | `ring` | from neighbour to neighbour, each part from another rank on | `2(n-1)` | `2(n-1)/n · S` |
//! | `tree` | a binomial tree from or to one rank | `log₂ n` | `S · log₂ n` at the root |
//!
//! All but `ring` reduce each element in the order of the ranks: where `direct` and `chain` reduce as they go,
//! `doubling`, `rabenseifner` and `tree` move contributions as they are and reduce at the end.
//!
//! # What a plan may rely on
//!
//! - Messages between two ranks arrive in the order of [`Plan::outgoing`], and the steps of the receiver
//!   take them in that order.
//! - A message is read from memory at any time between the end of its step [`Outgoing::after`] and its arrival.
//!   What it is read from may therefore only be written by a step that cannot come before the arrival.
//!
//! Knows no transport and no numbers, only how many there are.

mod chain;
mod direct;
mod doubling;
mod hierarchical;
mod rabenseifner;
mod ring;
#[cfg(test)]
mod simulation;
mod tree;

use std::ops::Range;

use super::call::{Call, Operation};
use super::choice::Algorithm;
#[cfg(test)]
use super::choice::Order;

/// Memory that a plan names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Area {
    /// The data of the operation.
    Buffer,
    /// Memory of the engine, without content at the start.
    Scratch,
}

/// Elements in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub area: Area,
    /// Index of the first element.
    pub start: usize,
    pub count: usize,
}

impl Span {
    pub(super) fn buffer(range: Range<usize>) -> Self {
        Self {
            area: Area::Buffer,
            start: range.start,
            count: range.len(),
        }
    }

    pub(super) fn scratch(start: usize, count: usize) -> Self {
        Self {
            area: Area::Scratch,
            start,
            count,
        }
    }
}

/// An operand of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The next message of a rank.
    Peer(usize),
    /// Own memory: what the reduction is written to, or scratch.
    Own(Span),
}

/// What a rank does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Writes the next message of `peer` to memory.
    Receive { peer: usize, to: Span },
    /// Reduces `sources`, in their order, to a span of the buffer. If it is the `last` reduction of these elements,
    /// a mean is divided.
    Reduce {
        sources: Vec<Source>,
        to: Span,
        last: bool,
    },
    /// Copies own elements from the buffer to scratch.
    Stage { from: Span, to: Span },
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outgoing {
    pub peer: usize,
    pub from: Span,
    /// Steps that have to be done before it may be sent.
    pub after: usize,
}

/// What one rank does in an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// In the order in which they are done.
    pub steps: Vec<Step>,
    /// In the order in which each peer gets its own.
    pub outgoing: Vec<Outgoing>,
    /// Elements of scratch.
    pub scratch: usize,
}

impl Plan {
    /// The plan of `shape` by `algorithm`, which has to [serve](Algorithm::serves) it.
    pub(crate) fn new(shape: &Shape<'_>, algorithm: Algorithm) -> Self {
        let mut plan = Self::default();
        if shape.ranks() == 1 {
            // One rank has all there is, and a mean of one changes nothing.
            return plan;
        }
        match (shape.call.operation.in_messages(), algorithm) {
            (
                Operation::AllReduce | Operation::Reduce | Operation::ReduceScatter,
                Algorithm::Direct,
            ) => {
                direct::reduce(shape, &mut plan);
            }
            (Operation::RoundTrip, Algorithm::Direct) => direct::round_trip(shape, &mut plan),
            (Operation::AllGather, Algorithm::Direct) => direct::all_gather(shape, &mut plan),
            (Operation::AllReduce, Algorithm::Doubling) => doubling::all_reduce(shape, &mut plan),
            (Operation::AllGather | Operation::Barrier, Algorithm::Doubling) => {
                doubling::all_gather(shape, &mut plan)
            }
            (Operation::AllReduce, Algorithm::Rabenseifner) => {
                rabenseifner::reduce_scatter(shape, &mut plan);
                doubling::all_gather(shape, &mut plan);
            }
            (Operation::ReduceScatter, Algorithm::Rabenseifner) => {
                rabenseifner::reduce_scatter(shape, &mut plan);
            }
            (Operation::AllReduce | Operation::Reduce, Algorithm::Chain) => {
                chain::reduce(shape, &mut plan);
            }
            (Operation::Broadcast, Algorithm::Chain) => chain::broadcast(shape, &mut plan),
            (Operation::AllReduce, Algorithm::Hierarchical) => {
                hierarchical::all_reduce(shape, &mut plan);
            }
            (Operation::AllReduce, Algorithm::Ring) => {
                ring::reduce_scatter(shape, &mut plan);
                ring::all_gather(shape, &mut plan);
            }
            (Operation::ReduceScatter, Algorithm::Ring) => ring::reduce_scatter(shape, &mut plan),
            (Operation::AllGather, Algorithm::Ring) => ring::all_gather(shape, &mut plan),
            (Operation::Broadcast, Algorithm::Tree) => tree::broadcast(shape, &mut plan),
            (Operation::Reduce, Algorithm::Tree) => tree::reduce(shape, &mut plan),
            (operation, algorithm) => {
                unreachable!("{operation} is not served by {algorithm}, as `serves` has said")
            }
        }
        plan
    }

    /// Sends `from` to `peer` after the steps that are planned so far. Nothing is no message.
    fn send(&mut self, peer: usize, from: Span) {
        self.send_after(self.steps.len(), peer, from);
    }

    /// Sends `from`, as it is at the start.
    fn send_early(&mut self, peer: usize, from: Span) {
        self.send_after(0, peer, from);
    }

    fn send_after(&mut self, after: usize, peer: usize, from: Span) {
        if from.count > 0 {
            self.outgoing.push(Outgoing { peer, from, after });
        }
    }

    fn receive(&mut self, peer: usize, to: Span) {
        if to.count > 0 {
            self.steps.push(Step::Receive { peer, to });
        }
    }

    fn reduce(&mut self, sources: Vec<Source>, to: Span, last: bool) {
        debug_assert!(
            to.area == Area::Buffer,
            "the executor reduces to the buffer"
        );
        if to.count > 0 {
            self.steps.push(Step::Reduce { sources, to, last });
        }
    }

    /// Copies `range` of the buffer to new scratch.
    fn stage(&mut self, range: Range<usize>, to: Span) {
        if !range.is_empty() {
            let from = Span::buffer(range);
            self.steps.push(Step::Stage { from, to });
        }
    }

    /// `count` elements of scratch that nothing else uses.
    fn allocate(&mut self, count: usize) -> Span {
        let span = Span::scratch(self.scratch, count);
        self.scratch += count;
        span
    }
}

/// The least that an algorithm has to know of an operation.
#[derive(Clone, Debug)]
pub(crate) struct Shape<'a> {
    /// Rank that the plan is for.
    pub rank: usize,
    /// What is called.
    pub call: Call,
    /// The elements that each rank owns: contributes to an all-gather, keeps of a reduce-scatter. One after the
    /// other, together the buffer.
    pub parts: &'a [Range<usize>],
    /// Elements of a message, at most.
    pub segment: usize,
    /// Ranks of each host, where all hosts have as many and theirs follow each other.
    pub ranks_of_host: Option<usize>,
}

impl Shape<'_> {
    fn ranks(&self) -> usize {
        self.parts.len()
    }

    fn count(&self) -> usize {
        self.parts.last().map_or(0, |part| part.end)
    }

    /// The rank `distance` after this one, around the end.
    fn after(&self, distance: usize) -> usize {
        (self.rank + distance) % self.ranks()
    }

    /// The rank `distance` before this one, around the start.
    fn before(&self, distance: usize) -> usize {
        (self.rank + self.ranks() - distance % self.ranks()) % self.ranks()
    }

    /// The `index`th message of `range`; empty after the last.
    fn segment(&self, range: &Range<usize>, index: usize) -> Range<usize> {
        let start = range.end.min(range.start + index * self.segment);
        start..range.end.min(start + self.segment)
    }

    /// Messages of the longest of `ranges`.
    fn segments(&self, ranges: &[Range<usize>]) -> usize {
        let longest = ranges.iter().map(ExactSizeIterator::len).max();
        longest.unwrap_or(0).div_ceil(self.segment)
    }

    fn root(&self) -> usize {
        self.call.root.map_or(0, usize::from)
    }
}

/// `count` elements in `parts` as equal as can be, each but the last a multiple of 16 elements where there are enough:
/// whole vectors of the processor.
///
/// ```
/// assert_eq!(burn_dist_core::collective::partition(100, 3), [0..48, 48..80, 80..100]);
/// assert_eq!(burn_dist_core::collective::partition(2, 3), [0..1, 1..2, 2..2]);
/// ```
///
/// # Panics
///
/// If `parts` is 0.
pub fn partition(count: usize, parts: usize) -> Vec<Range<usize>> {
    let unit = if count >= 16 * parts { 16 } else { 1 };
    let units = count.div_ceil(unit);
    let (each, more) = (units / parts, units % parts);
    let start = |part: usize| count.min((part * each + part.min(more)) * unit);
    (0..parts)
        .map(|part| start(part)..start(part + 1))
        .collect()
}
