//! Halves of what ranks have to send go on each round, until each rank has all contributions to its part.
//!
//! Rabenseifner's reduce-scatter (Thakur et al., "Optimization of collective communication operations in MPICH",
//! 2005) adds as it goes, in an order of its own. Here contributions are exchanged as they are, by Bruck's all-to-all
//! (1997): as few rounds, as many bytes as half the elements each round, any number of ranks, and at the
//! end each rank reduces its part in the order of the ranks.

use super::{Plan, Shape, Source, Span};

/// Each rank gets its part, reduced.
pub(super) fn reduce_scatter(shape: &Shape<'_>, plan: &mut Plan) {
    let (rank, ranks) = (shape.rank, shape.ranks());
    // Where the contribution is that goes `slot` ranks further than where it comes from: at first all are own.
    let mut slots: Vec<Span> = (0..ranks)
        .map(|slot| Span::buffer(shape.parts[shape.after(slot)].clone()))
        .collect();
    let mut distance = 1;
    while distance < ranks {
        let moving = (1..ranks).filter(|slot| slot & distance != 0);
        for slot in moving.clone() {
            for message in messages(shape, slots[slot]) {
                plan.send(shape.after(distance), message);
            }
        }
        for slot in moving {
            // What has come that far has the rest of its way before it.
            let rest = slot & !(2 * distance - 1);
            let arrived = plan.allocate(shape.parts[shape.after(rest)].len());
            for message in messages(shape, arrived) {
                plan.receive(shape.before(distance), message);
            }
            slots[slot] = arrived;
        }
        distance *= 2;
    }
    let own = Span::buffer(shape.parts[rank].clone());
    let source = |from: usize| Source::Own(slots[(rank + ranks - from) % ranks]);
    plan.reduce((0..ranks).map(source).collect(), own, true);
}

/// A span in messages.
fn messages(shape: &Shape<'_>, span: Span) -> impl Iterator<Item = Span> {
    let range = span.start..span.start + span.count;
    let segments = shape.segments(std::slice::from_ref(&range));
    (0..segments).map(move |index| {
        let segment = shape.segment(&range, index);
        Span {
            start: segment.start,
            count: segment.len(),
            ..span
        }
    })
}
