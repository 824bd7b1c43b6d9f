//! A table from times that were measured.
//!
//! The file that `burn-dist tune` writes, and `BURN_DIST_TUNE` names, is a [`Table`] as JSON: an object with every one of
//! these keys and no other. What they mean, and by default are:
//!
//! | key | default | means |
//! |---|---|---|
//! | `doubling_up_to` | 32768 | an all-reduce takes doubling if its bytes times the ranks are no more; an all-gather if its bytes are no more |
//! | `rabenseifner_up_to` | 131072 | above that, an all-reduce or reduce-scatter of three ranks or more takes Rabenseifner's if its bytes are no more |
//! | `direct_up_to_ranks` | 64 | larger ones take the direct algorithm if the ranks are no more, and go from neighbour to neighbour otherwise |
//! | `tree_up_to` | 65536 | a broadcast or reduce takes a tree if its bytes are no more |
//!
//! ```
//! use burn_dist_core::collective::Table;
//!
//! let text = r#"{
//!   "doubling_up_to": 32768, "rabenseifner_up_to": 131072, "direct_up_to_ranks": 64, "tree_up_to": 65536
//! }"#;
//! assert_eq!(serde_json::from_str::<Table>(text)?, Table::default());
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! Knows no transport: whoever measures says what was found.

use super::call::Operation;
use super::choice::{Algorithm, Table, Topology};

/// How long an operation took by an algorithm.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// What was done.
    pub operation: Operation,
    /// By which algorithm.
    pub algorithm: Algorithm,
    /// Bytes of the operation.
    pub bytes: u64,
    /// Seconds of the slowest rank in each round. In a round all algorithms are measured one after the other, so that
    /// what else the machine does concerns all of them.
    pub seconds: Vec<f64>,
}

/// What has to be gained before another algorithm is taken than by default: less is not worth a table that differs from
/// one measurement to the next.
const GAIN: f64 = 0.1;

impl Table {
    /// The algorithms of `operation` between which a table decides, where ranks are spread like this: what there is to
    /// measure.
    pub fn contenders(operation: Operation, topology: Topology) -> &'static [Algorithm] {
        use Algorithm::{Chain, Direct, Doubling, Hierarchical, Rabenseifner, Tree};
        match operation {
            Operation::AllReduce if topology.is_nested() => &[Doubling, Rabenseifner, Hierarchical],
            // Of two ranks none takes Rabenseifner's.
            Operation::AllReduce if topology.ranks > 2 => &[Doubling, Rabenseifner, Direct, Chain],
            Operation::AllReduce => &[Doubling, Direct, Chain],
            Operation::Broadcast => &[Tree, Chain],
            _ => &[],
        }
    }

    /// The table for what `timings` show: that by default, but for limits beyond which, or below which, another algorithm
    /// was faster by a tenth in three of four rounds. What was not measured stays as it is by default.
    ///
    /// ```
    /// use burn_dist_core::collective::{Algorithm, Operation, Table, Timing, Topology};
    ///
    /// let timing = |algorithm, bytes, seconds: [f64; 3]| Timing {
    ///     operation: Operation::AllReduce, algorithm, bytes, seconds: seconds.into(),
    /// };
    /// let timings = [
    ///     timing(Algorithm::Doubling, 1024, [1e-6, 2e-6, 1e-6]),
    ///     timing(Algorithm::Direct, 1024, [2e-6, 3e-6, 2e-6]),
    ///     timing(Algorithm::Doubling, 4096, [9e-6, 8e-6, 9e-6]),
    ///     timing(Algorithm::Direct, 4096, [3e-6, 4e-6, 3e-6]),
    /// ];
    /// let table = Table::of(&timings, Topology::new(&[0, 0]));
    /// assert_eq!(table.doubling_up_to, 2 * 1024);
    /// ```
    pub fn of(timings: &[Timing], topology: Topology) -> Self {
        use Algorithm::{Chain, Direct, Doubling, Hierarchical, Rabenseifner, Tree};
        let default = Self::default();
        let ranks = topology.ranks;
        let [all_reduce, broadcast] = [Operation::AllReduce, Operation::Broadcast]
            .map(|operation| Measured { timings, operation });
        let largest = all_reduce.sizes(Direct).last().copied().unwrap_or(0);
        let by_default = ranks <= default.direct_up_to_ranks;
        let direct_up_to_ranks = match by_default {
            true if all_reduce.is_faster(Chain, Direct, largest) => ranks - 1,
            false if all_reduce.is_faster(Direct, Chain, largest) => ranks,
            _ => default.direct_up_to_ranks,
        };
        let large = match ranks <= direct_up_to_ranks {
            _ if topology.is_nested() => Hierarchical,
            true => Direct,
            false => Chain,
        };
        let rabenseifner_up_to =
            all_reduce.limit(Rabenseifner, default.rabenseifner_up_to, 1, |_| large);
        let middle = |bytes| match ranks > 2 && bytes <= rabenseifner_up_to {
            true => Rabenseifner,
            false => large,
        };
        Self {
            doubling_up_to: all_reduce.limit(
                Doubling,
                default.doubling_up_to,
                ranks as u64,
                middle,
            ),
            rabenseifner_up_to,
            direct_up_to_ranks,
            tree_up_to: broadcast.limit(Tree, default.tree_up_to, 1, |_| Chain),
        }
    }
}

/// The timings of an operation.
struct Measured<'a> {
    timings: &'a [Timing],
    operation: Operation,
}

impl Measured<'_> {
    fn of(&self, algorithm: Algorithm) -> impl Iterator<Item = &Timing> {
        let wanted = (self.operation, algorithm);
        let timings = self.timings.iter();
        timings.filter(move |timing| (timing.operation, timing.algorithm) == wanted)
    }

    /// The sizes at which `algorithm` was measured, in their order.
    fn sizes(&self, algorithm: Algorithm) -> Vec<u64> {
        let mut sizes: Vec<u64> = self.of(algorithm).map(|timing| timing.bytes).collect();
        sizes.sort_unstable();
        sizes
    }

    /// Whether `one` is faster than `other` beyond what rounds differ by.
    fn is_faster(&self, one: Algorithm, other: Algorithm, bytes: u64) -> bool {
        let rounds = |algorithm| {
            let found = self.of(algorithm).find(|timing| timing.bytes == bytes);
            found.map_or(&[][..], |timing| &timing.seconds)
        };
        let pairs = rounds(one).iter().zip(rounds(other));
        let gains: Vec<bool> = pairs
            .map(|(one, other)| *one < other * (1.0 - GAIN))
            .collect();
        let gained = gains.iter().filter(|gained| **gained).count();
        !gains.is_empty() && 4 * gained >= 3 * gains.len()
    }

    /// The limit up to which `algorithm` is taken, and beyond it what `next` says for a size: `default`, moved as far as
    /// sizes next to it show. A limit counts `unit` times the bytes of the operation.
    fn limit(
        &self,
        algorithm: Algorithm,
        default: u64,
        unit: u64,
        next: impl Fn(u64) -> Algorithm,
    ) -> u64 {
        let sizes = self.sizes(algorithm);
        let (below, above) = sizes.split_at(sizes.partition_point(|size| size * unit <= default));
        let is_better = |size: &&u64| self.is_faster(algorithm, next(**size), **size);
        let is_worse = |size: &&u64| self.is_faster(next(**size), algorithm, **size);
        if let Some(size) = above.iter().take_while(is_better).last() {
            return size * unit;
        }
        match below.iter().rev().take_while(is_worse).count() {
            0 => default,
            worse if worse == below.len() => 0,
            worse => below[below.len() - worse - 1] * unit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [u64; 3] = [1_000, 10_000, 100_000];

    /// Seconds of each algorithm at each size, in four rounds that differ by a tenth of that at most.
    fn timings(operation: Operation, rows: &[(Algorithm, [f64; 3])]) -> Vec<Timing> {
        let rounds = |seconds: f64| [1.0, 1.03, 0.98, 1.01].map(|factor| factor * seconds);
        let of_row = |(algorithm, seconds): &(Algorithm, [f64; 3])| {
            let algorithm = *algorithm;
            let sizes = SIZES.into_iter().zip(*seconds);
            sizes.map(move |(bytes, seconds)| Timing {
                operation,
                algorithm,
                bytes,
                seconds: rounds(seconds).into(),
            })
        };
        rows.iter().flat_map(of_row).collect()
    }

    fn table(operation: Operation, rows: &[(Algorithm, [f64; 3])], ranks: usize) -> Table {
        Table::of(&timings(operation, rows), Topology::new(&vec![0; ranks]))
    }

    #[test]
    fn limits_move_to_where_the_fastest_changes() {
        use Algorithm::{Chain, Direct, Doubling, Rabenseifner, Tree};
        let rows = [
            (Doubling, [1.0, 9.0, 90.0]),
            (Rabenseifner, [2.0, 5.0, 50.0]),
            (Direct, [3.0, 8.0, 20.0]),
            (Chain, [4.0, 7.0, 30.0]),
        ];
        let found = table(Operation::AllReduce, &rows, 3);
        // 32 KiB are beyond 10,000 bytes of three ranks.
        assert_eq!(found.doubling_up_to, 3 * 1_000);
        assert_eq!(found.rabenseifner_up_to, 10_000);
        assert_eq!(found.direct_up_to_ranks, 64);
        let rows = [
            (Doubling, [1.0; 3]),
            (Rabenseifner, [2.0; 3]),
            (Direct, [2.0; 3]),
            (Chain, [2.0; 3]),
        ];
        let found = table(Operation::AllReduce, &rows, 4);
        assert_eq!(found.doubling_up_to, 4 * 100_000);
        // Nobody takes a chain there, however fast it is.
        let rows = [
            (Doubling, [2.0; 3]),
            (Direct, [2.0; 3]),
            (Chain, [1.0, 1.0, 3.0]),
        ];
        assert_eq!(table(Operation::AllReduce, &rows, 2), Table::default());
        let rows = [(Tree, [2.0; 3]), (Chain, [1.0; 3])];
        assert_eq!(table(Operation::Broadcast, &rows, 4).tree_up_to, 0);
        let rows = [(Tree, [1.0; 3]), (Chain, [2.0; 3])];
        assert_eq!(table(Operation::Broadcast, &rows, 4).tree_up_to, 100_000);
    }

    #[test]
    fn what_is_about_as_fast_moves_nothing() {
        use Algorithm::{Chain, Direct, Doubling, Rabenseifner, Tree};
        let default = Table::default();
        for other in [0.95, 1.05] {
            let rows = [
                (Doubling, [1.0; 3]),
                (Rabenseifner, [other; 3]),
                (Direct, [1.0; 3]),
                (Chain, [other; 3]),
            ];
            assert_eq!(table(Operation::AllReduce, &rows, 4), default);
            let rows = [(Tree, [1.0; 3]), (Chain, [other; 3])];
            assert_eq!(table(Operation::Broadcast, &rows, 4), default);
        }
    }

    #[test]
    fn what_is_faster_in_some_rounds_only_moves_nothing() {
        let timing = |algorithm, seconds: [f64; 4]| Timing {
            operation: Operation::Broadcast,
            algorithm,
            bytes: 1_000,
            seconds: seconds.into(),
        };
        for (seconds, expected) in [
            // Half as long in two rounds, as long in two.
            ([1.0, 1.0, 2.0, 2.0], Table::default().tree_up_to),
            ([1.0, 1.0, 1.0, 2.0], 0),
        ] {
            let timings = [
                timing(Algorithm::Tree, [2.0; 4]),
                timing(Algorithm::Chain, seconds),
            ];
            let found = Table::of(&timings, Topology::new(&[0, 0]));
            assert_eq!(found.tree_up_to, expected, "{seconds:?}");
        }
    }

    #[test]
    fn what_was_not_measured_stays() {
        assert_eq!(Table::of(&[], Topology::new(&[0, 0])), Table::default());
        use Algorithm::{Chain, Direct};
        let rows = [(Direct, [1.0, 1.0, 9.0]), (Chain, [2.0, 2.0, 5.0])];
        let found = table(Operation::AllReduce, &rows, 8);
        assert_eq!(found.direct_up_to_ranks, 7);
        assert_eq!(found.doubling_up_to, Table::default().doubling_up_to);
        // By default so many take a chain.
        assert_eq!(
            table(Operation::AllReduce, &rows, 100).direct_up_to_ranks,
            64
        );
        let rows = [(Direct, [1.0; 3]), (Chain, [2.0; 3])];
        assert_eq!(
            table(Operation::AllReduce, &rows, 100).direct_up_to_ranks,
            100
        );
    }

    /// Else what is measured decides nothing, or what decides is not measured.
    #[test]
    fn what_is_measured_is_what_the_default_may_choose() {
        use crate::collective::{Call, ElementType, Order, Reduction};
        for hosts in [&[0, 0][..], &[0; 4], &[0, 0, 1, 1]] {
            let topology = Topology::new(hosts);
            for operation in [Operation::AllReduce, Operation::Broadcast] {
                let contenders = Table::contenders(operation, topology);
                assert!(contenders.iter().all(|one| one.serves(operation, topology)));
                for power in 0..30 {
                    let call = Call {
                        operation,
                        reduction: Some(Reduction::Sum),
                        element: ElementType::U8,
                        count: 1 << power,
                        root: None,
                    };
                    let chosen = Table::default().choose(&call, topology, Order::Rank);
                    assert!(
                        contenders.contains(&chosen),
                        "{operation}, {power}: {chosen}"
                    );
                }
            }
        }
    }
}
