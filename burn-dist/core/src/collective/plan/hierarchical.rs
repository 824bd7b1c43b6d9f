//! Direct within a host, and between hosts a chain for each local rank.
//!
//! Each local rank is the leader of its part of the elements: it reduces what the ranks of its host contribute to
//! that part onto what the leader of the host before has sent. Only the sums of a host leave it, all
//! leaders use the network at the same time, and the additions are in the order of the ranks, which is why those of a
//! host have to follow each other.

use super::{Plan, Shape, Source, Span, partition};

/// All ranks get the result.
///
/// # Panics
///
/// If hosts have not as many ranks, one after the other: [`Algorithm::serves`](super::Algorithm::serves) has said no.
#[allow(clippy::expect_used)]
pub(super) fn all_reduce(shape: &Shape<'_>, plan: &mut Plan) {
    let locals = shape.ranks_of_host.expect("hosts of as many ranks");
    let (host, local) = (shape.rank / locals, shape.rank % locals);
    let end = shape.ranks() / locals - 1;
    let parts = partition(shape.count(), locals);
    let rounds = shape.segments(&parts);
    let first = host * locals;
    let neighbours: Vec<usize> = (1..locals).map(|d| (local + d) % locals).collect();
    // As in a chain: a segment goes to the last host and back while others follow it.
    let ahead = 2 * (end - host) + 2;
    for round in 0..rounds + ahead {
        let own = Span::buffer(shape.segment(&parts[local], round));
        for &neighbour in &neighbours {
            let segment = shape.segment(&parts[neighbour], round);
            plan.send_early(first + neighbour, Span::buffer(segment));
        }
        let before = (host > 0).then(|| Source::Peer(shape.rank - locals));
        let here = (0..locals).map(|of| match of {
            of if of == local => Source::Own(own),
            of => Source::Peer(first + of),
        });
        let sources: Vec<Source> = before.into_iter().chain(here).collect();
        if sources.len() > 1 {
            plan.reduce(sources, own, host == end);
        }
        if host < end {
            plan.send(shape.rank + locals, own);
        }
        let Some(round) = round.checked_sub(ahead - 1) else {
            continue;
        };
        let result = Span::buffer(shape.segment(&parts[local], round));
        if host < end {
            plan.receive(shape.rank + locals, result);
        }
        if host > 0 {
            plan.send(shape.rank - locals, result);
        }
        for &neighbour in &neighbours {
            plan.send(first + neighbour, result);
        }
        for &neighbour in &neighbours {
            let segment = shape.segment(&parts[neighbour], round);
            plan.receive(first + neighbour, Span::buffer(segment));
        }
    }
}
