//! From rank to rank, pipelined: each rank adds its contribution to what the rank before has sent.
//!
//! The one algorithm that adds in the order of the ranks as it goes, with two neighbours a rank whatever their number.

use super::{Plan, Shape, Source, Span};
use crate::collective::call::Operation;

/// All-reduce and reduce: up the chain, and the result back to all, or from the end to the root.
pub(super) fn reduce(shape: &Shape<'_>, plan: &mut Plan) {
    let (rank, end) = (shape.rank, shape.ranks() - 1);
    let all = 0..shape.count();
    let rounds = shape.segments(std::slice::from_ref(&all));
    let to_all = shape.call.operation == Operation::AllReduce;
    // A segment has to go to the end and back while others follow it.
    let ahead = 2 * (end - rank) + 1;
    for round in 0..rounds + ahead {
        let segment = Span::buffer(shape.segment(&all, round));
        if rank > 0 {
            let sources = vec![Source::Peer(rank - 1), Source::Own(segment)];
            plan.reduce(sources, segment, rank == end);
        }
        if rank < end {
            plan.send(rank + 1, segment);
        } else if !to_all && shape.root() != rank {
            plan.send(shape.root(), segment);
        }
        let Some(round) = round.checked_sub(ahead - 1) else {
            continue;
        };
        let result = Span::buffer(shape.segment(&all, round));
        if to_all {
            if rank < end {
                plan.receive(rank + 1, result);
            }
            if rank > 0 {
                plan.send(rank - 1, result);
            }
        } else if shape.root() == rank && rank < end {
            plan.receive(end, result);
        }
    }
}

/// From the root to the rank after it, and so on around.
pub(super) fn broadcast(shape: &Shape<'_>, plan: &mut Plan) {
    let all = 0..shape.count();
    let last = (shape.root() + shape.ranks() - 1) % shape.ranks();
    for round in 0..shape.segments(std::slice::from_ref(&all)) {
        let segment = Span::buffer(shape.segment(&all, round));
        if shape.rank != shape.root() {
            plan.receive(shape.before(1), segment);
        }
        if shape.rank != last {
            plan.send(shape.after(1), segment);
        }
    }
}
