//! Work on all cores, with results that do not depend on how many there are, nor on which thread came
//! first: what is rounded together is cut by the sizes of the work alone.

use std::ops::Range;

use rayon::prelude::*;

/// Pieces that work is cut into at least, where it can be: more than most machines have cores, and few
/// enough that a piece is worth the way to its thread.
pub const PIECES: usize = 16;

/// Pixels over which a part of a sum is worth a place of its own, and adding it to the others.
const PIXELS_OF_A_PART: usize = 384;

/// Parts of a sum over `pixels`.
pub fn parts(pixels: usize) -> usize {
    (pixels / PIXELS_OF_A_PART).clamp(2, PIECES)
}

fn is_alone() -> bool {
    rayon::current_num_threads() == 1
}

/// `work` with each of `0..items`, in any order.
pub fn for_each(items: usize, work: impl Fn(usize) + Sync) {
    if items <= 1 || is_alone() {
        (0..items).for_each(work);
    } else {
        (0..items).into_par_iter().with_max_len(1).for_each(&work);
    }
}

/// What `work` makes of each of `0..items`, in their order.
pub fn map<R: Send>(items: usize, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
    if items <= 1 || is_alone() {
        (0..items).map(work).collect()
    } else {
        (0..items)
            .into_par_iter()
            .with_max_len(1)
            .map(&work)
            .collect()
    }
}

/// A sum over `0..items`: each of `parts` begins with `start` and takes its share of the items in their
/// order; then `merge` adds neighbours, and neighbours of those, whoever made them.
pub fn fold<S: Send>(
    items: usize,
    parts: usize,
    start: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, usize) + Sync,
    merge: impl Fn(&mut S, S) + Sync,
) -> S {
    let parts = parts.min(items).max(1);
    let part = |index: usize| {
        let mut sum = start();
        let range = items * index / parts..items * (index + 1) / parts;
        range.for_each(|item| work(&mut sum, item));
        sum
    };
    tree(0..parts, &part, &merge)
}

fn tree<S: Send>(
    parts: Range<usize>,
    part: &(impl Fn(usize) -> S + Sync),
    merge: &(impl Fn(&mut S, S) + Sync),
) -> S {
    if parts.len() == 1 {
        return part(parts.start);
    }
    let middle = parts.start + parts.len() / 2;
    let first = || tree(parts.start..middle, part, merge);
    let second = || tree(middle..parts.end, part, merge);
    let (mut first, second) = if is_alone() {
        (first(), second())
    } else {
        rayon::join(first, second)
    };
    merge(&mut first, second);
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn each_item_is_worked_on_once() {
        for items in [0, 1, 2, 3, 7, 100] {
            let times: Vec<AtomicUsize> = (0..items).map(|_| AtomicUsize::new(0)).collect();
            for_each(items, |item| {
                times[item].fetch_add(1, Ordering::Relaxed);
            });
            assert!(times.iter().all(|n| n.load(Ordering::Relaxed) == 1));
            let joined = fold(
                items,
                5,
                Vec::new,
                |seen, item| seen.push(item),
                |one, other| one.extend(other),
            );
            assert_eq!(joined, (0..items).collect::<Vec<_>>());
        }
    }
}
