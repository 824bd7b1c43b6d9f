//! The order of an epoch. It may not depend on any other room.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

/// The `indices` in the shuffled order of one epoch, whatever number its epochs count from.
///
/// The order depends on `indices`, `seed` and `epoch` alone: not on the machine, the number of
/// threads, or the epochs that ran before. So a resumed run sees what an unbroken run sees. The
/// generator is ChaCha8 with a key of `seed` and `epoch`, both little-endian.
///
/// ```
/// use chest_datasets::epoch_order;
///
/// let order = epoch_order(&[3, 5, 8, 13], 42, 0);
/// assert_eq!(order, epoch_order(&[3, 5, 8, 13], 42, 0));
/// ```
pub fn epoch_order(indices: &[usize], seed: u64, epoch: u64) -> Vec<usize> {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..16].copy_from_slice(&epoch.to_le_bytes());
    let mut order = indices.to_vec();
    order.shuffle(&mut ChaCha8Rng::from_seed(key));
    order
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_order_is_fixed_by_seed_and_epoch() {
        let indices: Vec<usize> = (0..8).collect();
        // Fixed values: a resumed run must find the order of the run that it resumes.
        assert_eq!(epoch_order(&indices, 42, 0), [5, 7, 4, 2, 6, 1, 0, 3]);
        assert_eq!(epoch_order(&indices, 42, 1), [1, 2, 5, 3, 6, 4, 0, 7]);
        assert_eq!(epoch_order(&indices, 43, 0), [6, 7, 1, 3, 2, 0, 5, 4]);
        assert!(epoch_order(&[], 42, 0).is_empty());
    }

    proptest! {
        #[test]
        fn every_index_stays_once(
            indices in proptest::collection::btree_set(0_usize..1000, 0..100),
            seed: u64,
            epoch: u64,
        ) {
            let indices: Vec<usize> = indices.into_iter().collect();
            let mut order = epoch_order(&indices, seed, epoch);
            order.sort_unstable();
            prop_assert_eq!(order, indices);
        }
    }
}
