//! From neighbour to neighbour around a ring, each part from another rank on.
//!
//! The least bytes with two neighbours a rank, after Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for
//! clusters of workstations" (2009). The contributions to a part are added in the order in which it passes the
//! ranks, which is another for each part: the same on all ranks and from run to run, but not the order of the ranks.

use super::{Plan, Shape, Source, Span};

/// Each rank gets its part, reduced.
pub(super) fn reduce_scatter(shape: &Shape<'_>, plan: &mut Plan) {
    let rounds = shape.segments(shape.parts);
    let segment = |part: usize, round| Span::buffer(shape.segment(&shape.parts[part], round));
    for round in 0..rounds {
        plan.send_early(shape.after(1), segment(shape.before(1), round));
    }
    for hop in 2..=shape.ranks() {
        let part = shape.before(hop);
        for round in 0..rounds {
            let to = segment(part, round);
            let sources = vec![Source::Peer(shape.before(1)), Source::Own(to)];
            plan.reduce(sources, to, hop == shape.ranks());
            if hop < shape.ranks() {
                plan.send(shape.after(1), to);
            }
        }
    }
}

/// Each rank gets the parts of all others.
pub(super) fn all_gather(shape: &Shape<'_>, plan: &mut Plan) {
    let rounds = shape.segments(shape.parts);
    let segment = |part: usize, round| Span::buffer(shape.segment(&shape.parts[part], round));
    for round in 0..rounds {
        plan.send(shape.after(1), segment(shape.rank, round));
    }
    for hop in 1..shape.ranks() {
        for round in 0..rounds {
            let arrived = segment(shape.before(hop), round);
            plan.receive(shape.before(1), arrived);
            if hop + 1 < shape.ranks() {
                plan.send(shape.after(1), arrived);
            }
        }
    }
}
