//! Which gradients travel together: a pure function of their sizes and order, so that it is the same on all ranks.

use std::ops::Range;

/// Buckets are no smaller than that, unless the model is: a message has a cost of its own.
const SMALLEST: usize = 1 << 20;
/// Nor larger: the first could only leave when much of the backward pass is over.
const LARGEST: usize = 25 << 20;
/// Buckets of a model, about.
const BUCKETS: usize = 8;

/// The bytes of a usual bucket of a model whose gradients have `total`.
pub(super) fn bucket_bytes(total: usize) -> usize {
    (total / BUCKETS).clamp(SMALLEST, LARGEST)
}

/// Divides gradients with the given bytes, in the order in which they become complete, into buckets of up to `most`
/// bytes, but for gradients that are larger alone. The first is small, so that something travels soon, and so is the
/// last, which nothing hides.
///
/// The ranges follow each other and have all gradients.
pub(super) fn divide(bytes: &[usize], most: usize) -> Vec<Range<usize>> {
    let small = most.min(SMALLEST);
    let mut buckets = Vec::new();
    // From the end, what fits in the last.
    let mut last = bytes.len();
    let mut size = 0;
    while last > 0 && (size == 0 || size + bytes[last - 1] <= small) {
        last -= 1;
        size += bytes[last];
    }
    let (mut start, mut size) = (0, 0);
    for (index, bytes) in bytes.iter().enumerate().take(last) {
        let limit = if buckets.is_empty() { small } else { most };
        if size > 0 && size + bytes > limit {
            buckets.push(start..index);
            (start, size) = (index, 0);
        }
        size += bytes;
    }
    if start < last {
        buckets.push(start..last);
    }
    if last < bytes.len() {
        buckets.push(last..bytes.len());
    }
    buckets
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn first_and_last_are_small_and_the_rest_about_an_eighth() {
        // 28 MiB in parts of half a MiB.
        let bytes = [MIB / 2; 56];
        let most = bucket_bytes(28 * MIB);
        assert_eq!(most, 28 * MIB / 8);
        let buckets = divide(&bytes, most);
        assert_eq!((buckets[0].len(), buckets[buckets.len() - 1].len()), (2, 2));
        assert!(buckets[1..buckets.len() - 1].iter().all(|b| b.len() <= 7));
        assert_eq!(buckets.len(), 2 + 52usize.div_ceil(7));
        assert_eq!(bucket_bytes(1 << 40), LARGEST);
        assert_eq!(bucket_bytes(10), SMALLEST);
    }

    proptest! {
        #[test]
        fn every_gradient_is_in_one_bucket_and_none_is_too_large(
            bytes in proptest::collection::vec(0usize..4_000_000, 0..60),
            most in 1usize..8_000_000,
        ) {
            let buckets = divide(&bytes, most);
            let mut next = 0;
            for bucket in &buckets {
                prop_assert_eq!(bucket.start, next);
                prop_assert!(!bucket.is_empty());
                next = bucket.end;
                let size: usize = bytes[bucket.clone()].iter().sum();
                prop_assert!(bucket.len() == 1 || size <= most || bytes[bucket.clone()].iter().filter(|b| **b > 0).count() == 1);
            }
            prop_assert_eq!(next, bytes.len());
        }
    }
}
