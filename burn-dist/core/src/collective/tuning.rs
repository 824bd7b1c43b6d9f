//! A table from times that were measured.
//!
//! Knows no transport: whoever measures says what was found.

use super::call::Operation;
use super::choice::{Algorithm, Table, Topology};

/// How long an operation took by an algorithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// What was done.
    pub operation: Operation,
    /// By which algorithm.
    pub algorithm: Algorithm,
    /// Bytes of the operation.
    pub bytes: u64,
    /// Seconds of the slowest rank.
    pub seconds: f64,
}

impl Table {
    /// The table by which each size takes what was the fastest in `timings`, as far as limits can say so. What was not
    /// measured stays as it is by default.
    ///
    /// ```
    /// use burn_dist_core::collective::{Algorithm, Operation, Table, Timing, Topology};
    ///
    /// let timing = |algorithm, bytes, seconds| Timing {
    ///     operation: Operation::AllReduce, algorithm, bytes, seconds,
    /// };
    /// let timings = [
    ///     timing(Algorithm::Doubling, 1024, 1e-6), timing(Algorithm::Direct, 1024, 2e-6),
    ///     timing(Algorithm::Doubling, 4096, 9e-6), timing(Algorithm::Direct, 4096, 3e-6),
    /// ];
    /// let table = Table::of(&timings, Topology::new(&[0, 0]));
    /// assert_eq!(table.doubling_up_to, 2 * 1024);
    /// ```
    pub fn of(timings: &[Timing], topology: Topology) -> Self {
        use Algorithm::{Chain, Direct, Doubling, Rabenseifner, Tree};
        let default = Self::default();
        let ranks = topology.ranks as u64;
        let all_reduce = |algorithm, than: &[Algorithm]| {
            fastest_up_to(timings, Operation::AllReduce, algorithm, than)
        };
        let large = timings
            .iter()
            .filter(|timing| timing.operation == Operation::AllReduce);
        let largest = large.map(|timing| timing.bytes).max();
        let seconds = |algorithm| {
            let found = timings.iter().find(|timing| {
                (timing.operation, timing.algorithm) == (Operation::AllReduce, algorithm)
                    && Some(timing.bytes) == largest
            });
            found.map(|timing| timing.seconds)
        };
        let chain_is_faster =
            matches!((seconds(Chain), seconds(Direct)), (Some(a), Some(b)) if a < b);
        let up_to_ranks = if chain_is_faster {
            topology.ranks - 1
        } else {
            default.direct_up_to_ranks.max(topology.ranks)
        };
        Self {
            doubling_up_to: all_reduce(Doubling, &[Direct, Rabenseifner, Chain])
                .map_or(default.doubling_up_to, |bytes| bytes * ranks),
            rabenseifner_up_to: all_reduce(Rabenseifner, &[Direct, Chain])
                .unwrap_or(default.rabenseifner_up_to),
            direct_up_to_ranks: if largest.is_some() {
                up_to_ranks
            } else {
                default.direct_up_to_ranks
            },
            tree_up_to: fastest_up_to(timings, Operation::Broadcast, Tree, &[Chain])
                .unwrap_or(default.tree_up_to),
        }
    }
}

/// The size up to which `algorithm` is faster than all of `than`, 0 if at none; `None` if it was not measured.
fn fastest_up_to(
    timings: &[Timing],
    operation: Operation,
    algorithm: Algorithm,
    than: &[Algorithm],
) -> Option<u64> {
    let of = |one: Algorithm, bytes: u64| {
        let found = timings.iter().find(|timing| {
            (timing.operation, timing.algorithm, timing.bytes) == (operation, one, bytes)
        });
        found.map(|timing| timing.seconds)
    };
    let mut sizes: Vec<u64> = timings
        .iter()
        .filter(|timing| (timing.operation, timing.algorithm) == (operation, algorithm))
        .map(|timing| timing.bytes)
        .collect();
    sizes.sort_unstable();
    sizes.first()?;
    let is_fastest = |bytes: &u64| {
        let own = of(algorithm, *bytes);
        let others = than.iter().filter_map(|other| of(*other, *bytes));
        own.is_some_and(|own| others.into_iter().all(|other| own <= other))
    };
    Some(sizes.into_iter().take_while(is_fastest).last().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timings(operation: Operation, rows: &[(Algorithm, [f64; 3])]) -> Vec<Timing> {
        let of_row = |(algorithm, seconds): &(Algorithm, [f64; 3])| {
            let algorithm = *algorithm;
            [1_000, 10_000, 100_000]
                .into_iter()
                .zip(*seconds)
                .map(move |(bytes, seconds)| Timing {
                    operation,
                    algorithm,
                    bytes,
                    seconds,
                })
        };
        rows.iter().flat_map(of_row).collect()
    }

    #[test]
    fn limits_are_where_the_fastest_changes() {
        use Algorithm::{Chain, Direct, Doubling, Rabenseifner, Tree};
        let mut all = timings(
            Operation::AllReduce,
            &[
                (Doubling, [1.0, 9.0, 90.0]),
                (Rabenseifner, [2.0, 5.0, 50.0]),
                (Direct, [3.0, 6.0, 20.0]),
                (Chain, [4.0, 7.0, 30.0]),
            ],
        );
        all.extend(timings(
            Operation::Broadcast,
            &[(Tree, [2.0, 3.0, 4.0]), (Chain, [1.0, 4.0, 3.0])],
        ));
        let table = Table::of(&all, Topology::new(&[0; 4]));
        assert_eq!(table.doubling_up_to, 4 * 1_000);
        assert_eq!(table.rabenseifner_up_to, 10_000);
        assert_eq!(table.direct_up_to_ranks, 64);
        // Slower at the smallest size: nowhere, whatever comes after.
        assert_eq!(table.tree_up_to, 0);
    }

    #[test]
    fn what_was_not_measured_stays() {
        assert_eq!(Table::of(&[], Topology::new(&[0, 0])), Table::default());
        use Algorithm::{Chain, Direct};
        let rows = [(Direct, [1.0, 1.0, 9.0]), (Chain, [2.0, 2.0, 5.0])];
        let table = Table::of(
            &timings(Operation::AllReduce, &rows),
            Topology::new(&[0; 8]),
        );
        assert_eq!(table.direct_up_to_ranks, 7);
        assert_eq!(table.doubling_up_to, Table::default().doubling_up_to);
    }
}
