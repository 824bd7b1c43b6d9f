//! Which algorithm an operation takes.
//!
//! A pure function of the operation, its bytes, the ranks and the topology, and of a [`Table`] that is compared in
//! the handshake: so all ranks choose the same without a word. Knows no transport.

use std::fmt::{Display, Formatter};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::call::{Call, Operation};

/// How an operation goes about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    /// Each rank reduces its part, all exchange with all.
    Direct,
    /// Recursive doubling of contributions: few messages, many bytes.
    Doubling,
    /// Rabenseifner's: halves of contributions, then doubling of results.
    Rabenseifner,
    /// From rank to rank, pipelined.
    Chain,
    /// Direct within a host, and a chain of hosts for each local rank.
    Hierarchical,
    /// Around a ring: additions in an order of its own, which has to be asked for by [`Order::Any`].
    Ring,
    /// A binomial tree.
    Tree,
}

impl Algorithm {
    /// All of them, in the order of their numbers in messages.
    pub const ALL: [Self; 7] = [
        Self::Direct,
        Self::Doubling,
        Self::Rabenseifner,
        Self::Chain,
        Self::Hierarchical,
        Self::Ring,
        Self::Tree,
    ];

    /// Whether it can do `operation` in a `topology`.
    pub fn serves(self, operation: Operation, topology: Topology) -> bool {
        use Operation::{
            AllGather, AllReduce, Barrier, Broadcast, Reduce, ReduceScatter, RoundTrip,
        };
        let operation = operation.in_messages();
        match self {
            Self::Direct => {
                matches!(
                    operation,
                    AllReduce | ReduceScatter | AllGather | Reduce | RoundTrip
                )
            }
            Self::Doubling => matches!(operation, AllReduce | AllGather | Barrier),
            Self::Rabenseifner => matches!(operation, AllReduce | ReduceScatter),
            Self::Chain => matches!(operation, AllReduce | Broadcast | Reduce),
            Self::Hierarchical => operation == AllReduce && topology.ranks_of_host.is_some(),
            Self::Ring => matches!(operation, AllReduce | ReduceScatter | AllGather),
            Self::Tree => matches!(operation, Broadcast | Reduce),
        }
    }

    /// Whether sums of some ranks go over the wire, as wide as they are computed.
    pub(crate) fn sends_sums(self) -> bool {
        matches!(self, Self::Chain | Self::Hierarchical | Self::Ring)
    }

    /// In which order it adds in `operation`.
    pub fn order(self, operation: Operation) -> Order {
        match (self, operation) {
            (Self::Ring, Operation::AllReduce | Operation::ReduceScatter) => Order::Any,
            _ => Order::Rank,
        }
    }
}

impl Display for Algorithm {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Direct => "direct",
            Self::Doubling => "doubling",
            Self::Rabenseifner => "rabenseifner",
            Self::Chain => "chain",
            Self::Hierarchical => "hierarchical",
            Self::Ring => "ring",
            Self::Tree => "tree",
        })
    }
}

impl FromStr for Algorithm {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|one| one.to_string() == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(|one| one.to_string()).join(", ");
            format!("expected one of {names}")
        })
    }
}

/// In which order the contributions of the ranks are added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// `((a₀ + a₁) + a₂) + …`: the same bits whatever the algorithm, the transport and the table.
    #[default]
    Rank,
    /// The order of any algorithm: the same bits on all ranks and from run to run, but others with another
    /// number of bytes, ranks, or table.
    Any,
}

impl Display for Order {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Rank => "rank",
            Self::Any => "any",
        })
    }
}

/// How ranks are spread over hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Topology {
    /// Number of ranks.
    pub ranks: usize,
    /// Ranks of each host, where all hosts have as many and theirs follow each other.
    pub ranks_of_host: Option<usize>,
}

impl Topology {
    /// The topology of ranks with the given hosts, each named by any number.
    ///
    /// ```
    /// use burn_dist_core::collective::Topology;
    ///
    /// assert_eq!(Topology::new(&[7, 7, 2, 2]).ranks_of_host, Some(2));
    /// assert_eq!(Topology::new(&[7, 2, 7, 2]).ranks_of_host, None);
    /// assert_eq!(Topology::new(&[7, 7, 2]).ranks_of_host, None);
    /// ```
    pub fn new(hosts: &[u64]) -> Self {
        let runs: Vec<&[u64]> = hosts.chunk_by(|a, b| a == b).collect();
        let each = runs.first().map_or(1, |run| run.len());
        let mut names: Vec<u64> = runs.iter().map(|run| run[0]).collect();
        names.sort_unstable();
        names.dedup();
        let regular = names.len() == runs.len() && runs.iter().all(|run| run.len() == each);
        Self {
            ranks: hosts.len(),
            ranks_of_host: regular.then_some(each),
        }
    }

    /// Several hosts, and several ranks on each.
    pub(super) fn is_nested(self) -> bool {
        self.ranks_of_host
            .is_some_and(|each| each > 1 && each < self.ranks)
    }
}

/// Up to which sizes an algorithm is taken: what `burn-dist tune` measures. The fields are the keys of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Bytes that all ranks contribute together, up to which contributions are doubled.
    pub doubling_up_to: u64,
    /// Bytes of the operation up to which halves of contributions go on.
    pub rabenseifner_up_to: u64,
    /// Ranks up to which all exchange with all; beyond, bytes go from neighbour to neighbour.
    pub direct_up_to_ranks: usize,
    /// Bytes up to which a broadcast or a reduction takes a tree.
    pub tree_up_to: u64,
}

/// Its limits, in a line.
impl Display for Table {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Self {
            doubling_up_to,
            rabenseifner_up_to,
            direct_up_to_ranks,
            tree_up_to,
        } = self;
        write!(
            f,
            "doubling to {doubling_up_to}, rabenseifner to {rabenseifner_up_to}, direct to {direct_up_to_ranks} ranks, tree to {tree_up_to}"
        )
    }
}

impl Default for Table {
    fn default() -> Self {
        Self {
            doubling_up_to: 32 << 10,
            rabenseifner_up_to: 128 << 10,
            direct_up_to_ranks: 64,
            tree_up_to: 64 << 10,
        }
    }
}

impl Table {
    /// The algorithm of a call.
    pub fn choose(&self, call: &Call, topology: Topology, order: Order) -> Algorithm {
        let ranks = topology.ranks;
        let bytes = call.count * call.element.size() as u64;
        let large = |neighbours| match ranks {
            ranks if ranks <= self.direct_up_to_ranks => Algorithm::Direct,
            _ => neighbours,
        };
        let ordered = match order {
            Order::Rank => Algorithm::Chain,
            Order::Any => Algorithm::Ring,
        };
        match call.operation {
            Operation::Barrier => Algorithm::Doubling,
            Operation::RoundTrip => Algorithm::Direct,
            Operation::Broadcast | Operation::Reduce if bytes <= self.tree_up_to => Algorithm::Tree,
            Operation::Broadcast => Algorithm::Chain,
            Operation::Reduce => large(Algorithm::Chain),
            Operation::AllGather | Operation::GatherCounts if bytes <= self.doubling_up_to => {
                Algorithm::Doubling
            }
            Operation::AllGather | Operation::GatherCounts => large(Algorithm::Ring),
            Operation::AllReduce if bytes * ranks as u64 <= self.doubling_up_to => {
                Algorithm::Doubling
            }
            // Of two ranks each half of a half is what the other needs: nothing goes on.
            Operation::AllReduce | Operation::ReduceScatter
                if ranks > 2 && bytes <= self.rabenseifner_up_to =>
            {
                Algorithm::Rabenseifner
            }
            Operation::AllReduce if topology.is_nested() => Algorithm::Hierarchical,
            Operation::AllReduce => large(ordered),
            Operation::ReduceScatter => match order {
                Order::Rank => Algorithm::Direct,
                Order::Any => large(Algorithm::Ring),
            },
        }
    }
}
