//! Which items of an epoch a rank gets.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What becomes of the end of an epoch that does not give every rank a whole batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Uneven {
    /// Ranks share it as evenly as they can; one without any takes part in the step all the same.
    #[default]
    Join,
    /// Items from the start of the epoch come once more, so that the last batch is whole on all ranks: the same items
    /// whatever ranks there are, as long as their batches are together as large.
    Pad,
    /// It is left out.
    Drop,
}

impl FromStr for Uneven {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "join" => Ok(Self::Join),
            "pad" => Ok(Self::Pad),
            "drop" => Ok(Self::Drop),
            other => Err(format!("{other:?} is neither join nor pad nor drop")),
        }
    }
}

/// The part of a rank in every batch of a run: of one large batch after the other the ranks take `batch_size` items
/// each, in their order. So a step has the same items whatever ranks there are, as long as these are together as many.
///
/// A pure function: a rank needs to know of the others only their number.
///
/// ```
/// use burn_dist::train::Shard;
///
/// let order = [7, 3, 9, 1, 8, 2, 5]; // of the whole epoch, the same on all ranks
/// let of_rank = |rank| Shard::new(rank, 2, 2).of(&order);
/// assert_eq!(of_rank(0), [7, 3, 8, 2]); // batches 7, 3 and 8, 2
/// assert_eq!(of_rank(1), [9, 1, 5]); // batches 9, 1 and 5
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    rank: usize,
    ranks: usize,
    batch_size: usize,
    uneven: Uneven,
}

impl Shard {
    /// The part of `rank` among `ranks`, with batches of `batch_size` items each; what is uneven at the end is
    /// [joined](Uneven::Join).
    ///
    /// # Panics
    ///
    /// If there is no such rank, or batches have no item.
    pub fn new(rank: usize, ranks: usize, batch_size: usize) -> Self {
        assert!(rank < ranks, "rank {rank} of {ranks}: they count from 0");
        assert!(batch_size > 0, "a batch has one item at least");
        Self {
            rank,
            ranks,
            batch_size,
            uneven: Uneven::default(),
        }
    }

    /// What becomes of an uneven end.
    pub fn uneven(self, uneven: Uneven) -> Self {
        Self { uneven, ..self }
    }

    /// Items of a batch of this rank.
    pub fn batch_size(&self) -> usize {
        self.batch_size
    }

    /// The items of this rank, a batch after the other, where `order` is that of all ranks together.
    pub fn of<T: Clone>(&self, order: &[T]) -> Vec<T> {
        self.of_rest(0, order)
    }

    /// The [items](Self::of) of this rank behind the first `first` of all ranks, which are whole batches, or all.
    ///
    /// # Panics
    ///
    /// If there are fewer than `first`.
    pub fn of_rest<T: Clone>(&self, first: usize, order: &[T]) -> Vec<T> {
        let whole = self.batch_size * self.ranks;
        let left = &order[first..];
        let mut own = Vec::with_capacity(left.len() / self.ranks + self.batch_size);
        let steps = left.chunks_exact(whole);
        let rest = steps.remainder();
        for step in steps {
            own.extend_from_slice(&step[self.rank * self.batch_size..][..self.batch_size]);
        }
        let (least, more) = (rest.len() / self.ranks, rest.len() % self.ranks);
        match self.uneven {
            Uneven::Drop => {}
            Uneven::Join => {
                let start = self.rank * least + self.rank.min(more);
                let count = least + usize::from(self.rank < more);
                own.extend_from_slice(&rest[start..start + count]);
            }
            Uneven::Pad if rest.is_empty() => {}
            Uneven::Pad => {
                let padded = rest.iter().chain(order.iter().cycle());
                let before = self.rank * self.batch_size;
                own.extend(padded.skip(before).take(self.batch_size).cloned());
            }
        }
        own
    }

    /// Items of an epoch of `items` that are used.
    pub fn used(&self, items: usize) -> usize {
        match self.uneven {
            Uneven::Drop => items - items % (self.batch_size * self.ranks),
            Uneven::Join | Uneven::Pad => items,
        }
    }

    /// Items of all ranks, of an epoch of `items`, that are behind them when this rank has `own` behind it.
    pub fn behind(&self, own: usize, items: usize) -> usize {
        let used = self.used(items);
        match own.is_multiple_of(self.batch_size) {
            true => used.min(own * self.ranks),
            // Only the last batch is smaller.
            false => used,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(ranks: usize, batch_size: usize, uneven: Uneven, items: usize) -> Vec<Vec<usize>> {
        let order: Vec<usize> = (0..items).collect();
        let of = |rank| {
            let shard = Shard::new(rank, ranks, batch_size).uneven(uneven);
            shard.of(&order)
        };
        (0..ranks).map(of).collect()
    }

    #[test]
    fn an_uneven_end_is_joined_padded_or_dropped() {
        assert_eq!(
            all(3, 2, Uneven::Join, 10),
            [vec![0, 1, 6, 7], vec![2, 3, 8], vec![4, 5, 9]]
        );
        assert_eq!(
            all(3, 2, Uneven::Pad, 10),
            [[0, 1, 6, 7], [2, 3, 8, 9], [4, 5, 0, 1]]
        );
        assert_eq!(all(3, 2, Uneven::Drop, 10), [[0, 1], [2, 3], [4, 5]]);
        assert_eq!(all(3, 2, Uneven::Pad, 1), [[0, 0], [0, 0], [0, 0]]);
        assert!(all(3, 2, Uneven::Pad, 0).concat().is_empty());
    }

    proptest! {
        #[test]
        fn no_item_is_used_twice_and_none_left_out(
            ranks in 1usize..10, batch_size in 1usize..9, items in 0usize..200,
        ) {
            let parts = all(ranks, batch_size, Uneven::Join, items);
            let mut found = parts.concat();
            found.sort_unstable();
            prop_assert_eq!(found, (0..items).collect::<Vec<_>>());
            // Whoever has data at the end, rank 0 has.
            prop_assert!(parts.iter().all(|part| part.len() <= parts[0].len()));
        }

        #[test]
        fn a_step_has_the_same_items_whatever_the_ranks(
            ranks in 1usize..6, batch_size in 1usize..6, items in 0usize..150,
        ) {
            let parts = all(ranks, batch_size, Uneven::Join, items);
            let whole = ranks * batch_size;
            for (step, expected) in (0..items).collect::<Vec<_>>().chunks(whole).enumerate() {
                let of_step = parts.iter().filter_map(|part| part.chunks(batch_size).nth(step));
                prop_assert_eq!(of_step.collect::<Vec<_>>().concat(), expected);
            }
        }

        #[test]
        fn what_is_left_of_an_epoch_is_its_end(
            ranks in 1usize..6, batch_size in 1usize..6, items in 0usize..150, steps in 0usize..10,
        ) {
            let first = (steps * ranks * batch_size).min(items);
            let order: Vec<usize> = (0..items).collect();
            for uneven in [Uneven::Join, Uneven::Pad, Uneven::Drop] {
                for rank in 0..ranks {
                    let shard = Shard::new(rank, ranks, batch_size).uneven(uneven);
                    let whole = shard.of(&order);
                    let behind = (steps * batch_size).min(whole.len());
                    prop_assert_eq!(&shard.of_rest(first, &order), &whole[behind..]);
                }
            }
        }

        #[test]
        fn a_padded_step_has_the_same_items_whatever_the_ranks(
            ranks in 1usize..6, batch_size in 1usize..6, items in 0usize..150,
        ) {
            let parts = all(ranks, batch_size, Uneven::Pad, items);
            let alone = all(1, ranks * batch_size, Uneven::Pad, items).concat();
            for (step, expected) in alone.chunks(ranks * batch_size).enumerate() {
                let of_step = parts.iter().filter_map(|part| part.chunks(batch_size).nth(step));
                prop_assert_eq!(of_step.collect::<Vec<_>>().concat(), expected);
            }
        }

        #[test]
        fn padded_ranks_have_as_many_and_dropped_ones_as_well(
            ranks in 1usize..10, batch_size in 1usize..9, items in 0usize..200,
        ) {
            for uneven in [Uneven::Pad, Uneven::Drop] {
                let parts = all(ranks, batch_size, uneven, items);
                prop_assert!(parts.iter().all(|part| part.len() == parts[0].len()));
                let mut found = parts.concat();
                found.sort_unstable();
                found.dedup();
                let used = Shard::new(0, ranks, batch_size).uneven(uneven).used(items);
                prop_assert_eq!(found, (0..used).collect::<Vec<_>>());
            }
        }

        #[test]
        fn ranks_agree_on_what_is_behind_them(
            ranks in 1usize..10, batch_size in 1usize..9, items in 0usize..200,
        ) {
            for uneven in [Uneven::Join, Uneven::Pad, Uneven::Drop] {
                for (rank, own) in all(ranks, batch_size, uneven, items).iter().enumerate() {
                    let shard = Shard::new(rank, ranks, batch_size).uneven(uneven);
                    let mut behind = 0;
                    for (step, batch) in own.chunks(batch_size).enumerate() {
                        behind += batch.len();
                        let expected = shard.used(items).min((step + 1) * ranks * batch_size);
                        prop_assert_eq!(shard.behind(behind, items), expected);
                    }
                }
            }
        }
    }
}
