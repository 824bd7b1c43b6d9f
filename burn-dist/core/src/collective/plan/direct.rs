//! Each rank reduces its part of the elements, and all exchange with all.
//!
//! Two messages in a row and the least bytes there can be, at a connection from each rank to each other. Between two
//! ranks it is the best there is.

use super::{Plan, Shape, Source, Span};
use crate::collective::call::Operation;

/// Segments whose contributions are sent before the result of the first is: keeps both directions of a
/// connection busy, and what is in flight in the cache.
const AHEAD: usize = 2;

/// All-reduce, reduce and reduce-scatter: they differ in who gets the results.
pub(super) fn reduce(shape: &Shape<'_>, plan: &mut Plan) {
    let (rank, ranks) = (shape.rank, shape.ranks());
    let peers: Vec<usize> = (1..ranks).map(|distance| shape.after(distance)).collect();
    let rounds = shape.segments(shape.parts);
    for round in 0..rounds + AHEAD {
        if round < rounds {
            for &peer in &peers {
                let segment = shape.segment(&shape.parts[peer], round);
                plan.send_early(peer, Span::buffer(segment));
            }
            let own = Span::buffer(shape.segment(&shape.parts[rank], round));
            let source = |from| match from {
                from if from == rank => Source::Own(own),
                from => Source::Peer(from),
            };
            plan.reduce((0..ranks).map(source).collect(), own, true);
        }
        let Some(round) = round.checked_sub(AHEAD - 1).filter(|round| *round < rounds) else {
            continue;
        };
        let own = Span::buffer(shape.segment(&shape.parts[rank], round));
        for &peer in peers.iter().filter(|peer| gets_results(shape, **peer)) {
            plan.send(peer, own);
        }
        if gets_results(shape, rank) {
            for &peer in &peers {
                plan.receive(peer, Span::buffer(shape.segment(&shape.parts[peer], round)));
            }
        }
    }
}

fn gets_results(shape: &Shape<'_>, rank: usize) -> bool {
    match shape.call.operation {
        Operation::Reduce => rank == shape.root(),
        Operation::ReduceScatter => false,
        _ => true,
    }
}

/// Each rank sends its part to each other.
pub(super) fn all_gather(shape: &Shape<'_>, plan: &mut Plan) {
    for round in 0..shape.segments(shape.parts) {
        let own = shape.segment(&shape.parts[shape.rank], round);
        for distance in 1..shape.ranks() {
            plan.send_early(shape.after(distance), Span::buffer(own.clone()));
        }
        for distance in 1..shape.ranks() {
            let peer = shape.before(distance);
            plan.receive(peer, Span::buffer(shape.segment(&shape.parts[peer], round)));
        }
    }
}

/// The root sends all elements to the owner of the one part that has any, which sends them back.
pub(super) fn round_trip(shape: &Shape<'_>, plan: &mut Plan) {
    let all = 0..shape.count();
    let other = shape.parts.iter().position(|part| !part.is_empty());
    let (root, other) = (shape.root(), other.unwrap_or_default());
    for round in 0..shape.segments(std::slice::from_ref(&all)) {
        let segment = Span::buffer(shape.segment(&all, round));
        if shape.rank == root {
            plan.send_early(other, segment);
            plan.receive(other, segment);
        } else if shape.rank == other {
            plan.receive(root, segment);
            plan.send(root, segment);
        }
    }
}
