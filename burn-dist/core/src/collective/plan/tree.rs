//! A binomial tree from one rank to all, or from all to one.

use super::{Plan, Shape, Source, Span};

/// The root sends to a rank half the way around, both to ranks a quarter on, and so on.
pub(super) fn broadcast(shape: &Shape<'_>, plan: &mut Plan) {
    let all = 0..shape.count();
    let place = place(shape);
    for round in 0..shape.segments(std::slice::from_ref(&all)) {
        let segment = Span::buffer(shape.segment(&all, round));
        if place > 0 {
            plan.receive(at(shape, parent(place)), segment);
        }
        for child in children(place, shape.ranks()).rev() {
            plan.send(at(shape, child), segment);
        }
    }
}

/// Contributions go to the root as they are, which reduces them in the order of the ranks.
pub(super) fn reduce(shape: &Shape<'_>, plan: &mut Plan) {
    let (ranks, count, place) = (shape.ranks(), shape.count(), place(shape));
    // By their places in the tree, so that those of a subtree follow each other.
    let mine = subtree(place, ranks);
    let block = |of: usize| Span::scratch((of - place) * count, count);
    plan.scratch = mine * count;
    plan.stage(0..count, block(place));
    for child in children(place, ranks) {
        let blocks = subtree(child, ranks);
        let span = Span::scratch(block(child).start, blocks * count);
        plan.receive(at(shape, child), span);
    }
    if place > 0 {
        plan.send(at(shape, parent(place)), Span::scratch(0, mine * count));
    } else {
        let source = |rank| Source::Own(block((rank + ranks - shape.root()) % ranks));
        plan.reduce(
            (0..ranks).map(source).collect(),
            Span::buffer(0..count),
            true,
        );
    }
}

/// Where this rank is in the tree; the root is at 0.
fn place(shape: &Shape<'_>) -> usize {
    shape.before(shape.root())
}

/// The rank at a place.
fn at(shape: &Shape<'_>, place: usize) -> usize {
    (shape.root() + place) % shape.ranks()
}

/// The place without its lowest bit.
fn parent(place: usize) -> usize {
    place & (place - 1)
}

/// The places with one bit more below the lowest, nearest first.
fn children(place: usize, ranks: usize) -> impl DoubleEndedIterator<Item = usize> {
    let highest = ranks.next_power_of_two().trailing_zeros();
    let bits = if place == 0 {
        highest
    } else {
        place.trailing_zeros()
    };
    let children = (0..bits).map(move |bit| place + (1 << bit));
    children.filter(move |child| *child < ranks)
}

/// Places of the tree from `place` on.
fn subtree(place: usize, ranks: usize) -> usize {
    if place == 0 {
        return ranks;
    }
    (1 << place.trailing_zeros()).min(ranks - place)
}
