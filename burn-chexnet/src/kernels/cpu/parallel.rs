//! Work on all cores, with results that do not depend on which thread came first.

use rayon::prelude::*;

/// Threads that share the work.
pub fn threads() -> usize {
    rayon::current_num_threads()
}

/// `work` with each of `0..items`, in any order.
pub fn for_each(items: usize, work: impl Fn(usize) + Sync) {
    if items <= 1 || threads() == 1 {
        (0..items).for_each(work);
    } else {
        (0..items).into_par_iter().with_max_len(1).for_each(&work);
    }
}

/// What `work` makes of each of `0..items`, in their order.
pub fn map<R: Send>(items: usize, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
    if items <= 1 || threads() == 1 {
        (0..items).map(work).collect()
    } else {
        (0..items)
            .into_par_iter()
            .with_max_len(1)
            .map(&work)
            .collect()
    }
}

/// What `work` makes of `0..items`, in as many parts as there are threads: each part begins with
/// `start` and takes its share of the items in their order. So the parts, which come in order, hold
/// the same bits however the threads run; with another number of threads their sums round otherwise.
pub fn fold<S: Send>(
    items: usize,
    start: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, usize) + Sync,
) -> Vec<S> {
    let parts = threads().min(items).max(1);
    let part = |index: usize| {
        let mut state = start();
        let range = items * index / parts..items * (index + 1) / parts;
        range.for_each(|item| work(&mut state, item));
        state
    };
    if parts == 1 {
        vec![part(0)]
    } else {
        (0..parts)
            .into_par_iter()
            .with_max_len(1)
            .map(part)
            .collect()
    }
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
            let parts = fold(items, Vec::new, |seen: &mut Vec<usize>, item| {
                seen.push(item)
            });
            assert_eq!(parts.concat(), (0..items).collect::<Vec<_>>());
        }
    }
}
