//! What a rank has doubles each round, so that few rounds suffice.
//!
//! The all-gather of Bruck et al., "Efficient algorithms for all-to-all communications in multiport message-passing
//! systems" (1997): recursive doubling for any number of ranks. Contributions stay as they are until a rank has all
//! of them, so the order of additions is that of the ranks.

use std::ops::Range;

use super::{Plan, Shape, Source, Span};

/// Each rank gathers what all contribute and reduces it by itself.
pub(super) fn all_reduce(shape: &Shape<'_>, plan: &mut Plan) {
    let (ranks, count) = (shape.ranks(), shape.count());
    plan.scratch = ranks * count;
    let block = |rank: usize| rank * count..(rank + 1) * count;
    plan.stage(0..count, Span::scratch(block(shape.rank).start, count));
    gather(shape, plan, |plan, own, peer, blocks| {
        let (start, end) = (block(blocks.start).start, block(blocks.end - 1).end);
        let span = Span::scratch(start, end - start);
        if own {
            plan.send(peer, span)
        } else {
            plan.receive(peer, span)
        }
    });
    let sources = (0..ranks).map(|rank| Source::Own(Span::scratch(block(rank).start, count)));
    plan.reduce(sources.collect(), Span::buffer(0..count), true);
}

/// Each rank gets the parts of all others, where it has its own.
pub(super) fn all_gather(shape: &Shape<'_>, plan: &mut Plan) {
    gather(shape, plan, |plan, own, peer, blocks| {
        let elements = shape.parts[blocks.start].start..shape.parts[blocks.end - 1].end;
        for segment in 0..shape.segments(std::slice::from_ref(&elements)) {
            let span = Span::buffer(shape.segment(&elements, segment));
            if own {
                plan.send(peer, span)
            } else {
                plan.receive(peer, span)
            }
        }
    });
}

/// Rounds in which each rank sends the blocks it has to one rank and receives as many from another:
/// `exchange(plan, whether to send, peer, blocks in a row)`.
fn gather(
    shape: &Shape<'_>,
    plan: &mut Plan,
    exchange: impl Fn(&mut Plan, bool, usize, Range<usize>),
) {
    let ranks = shape.ranks();
    let mut distance = 1;
    while distance < ranks {
        let blocks = distance.min(ranks - distance);
        let (to, from) = (shape.before(distance), shape.after(distance));
        for run in around(shape.rank, blocks, ranks) {
            exchange(plan, true, to, run);
        }
        for run in around(from, blocks, ranks) {
            exchange(plan, false, from, run);
        }
        distance *= 2;
    }
}

/// `blocks` from `first` on, around the end of `ranks`: one run or two.
fn around(first: usize, blocks: usize, ranks: usize) -> impl Iterator<Item = Range<usize>> {
    let end = (first + blocks).min(ranks);
    let rest = 0..(first + blocks).saturating_sub(ranks);
    [first..end, rest].into_iter().filter(|run| !run.is_empty())
}
