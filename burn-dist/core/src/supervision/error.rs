//! What ends an operation, said the same on all ranks.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

use crate::collective::{Algorithm, Call};
use crate::host::Bytes;

/// Why an operation has failed. All ranks get the same cause; after it the world can only be left.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum CollectiveError {
    /// Two ranks call different things.
    #[error(
        "as operation {sequence} rank {} calls {} and rank {} calls {}: all ranks have to call the same in the same order",
        one.0, one.1, other.0, other.1
    )]
    Mismatch {
        /// Operations before it.
        sequence: u64,
        /// A rank and what it calls.
        one: (usize, Call),
        /// Another.
        other: (usize, Call),
    },
    /// Two ranks are at different operations.
    #[error(
        "rank {} is at operation {} ({}) and rank {} at operation {} ({}): all ranks have to call the same in the same order",
        one.0, one.1, one.2, other.0, other.1, other.2
    )]
    OutOfStep {
        /// A rank, the number of its operation and what it calls.
        one: (usize, u64, Call),
        /// Another.
        other: (usize, u64, Call),
    },
    /// Two ranks have called different things, longer ago than is known.
    #[error(
        "ranks {} and {} have not called the same before operation {before}: all ranks have to call the same in the same order",
        ranks[0], ranks[1]
    )]
    Parted {
        /// Where what is known of both begins.
        before: u64,
        /// The two.
        ranks: [usize; 2],
    },
    /// Two ranks go about it in different ways.
    #[error(
        "for operation {sequence} ({call}) rank {} takes {} and rank {} takes {}: this is a mistake of burn-dist, please report it",
        one.0, one.1, other.0, other.1
    )]
    Algorithms {
        /// Operations before it.
        sequence: u64,
        /// What is called.
        call: Call,
        /// A rank and its algorithm.
        one: (usize, Algorithm),
        /// Another.
        other: (usize, Algorithm),
    },
    /// A process does not live any more.
    #[error("rank {rank} ({place}) has died: {reason}, {}", during(last))]
    Died {
        /// The rank.
        rank: usize,
        /// Its host and process.
        place: String,
        /// What was seen of it.
        reason: String,
        /// The operation of the rank that noticed it.
        last: Option<(u64, Call)>,
    },
    /// Ranks do not answer any more.
    #[error(
        "{} within {seconds} s: stopped, overloaded or cut off, while others wait in operation {sequence} ({call})",
        said(ranks, "does not answer", "do not answer")
    )]
    Silent {
        /// Who, with the places.
        ranks: Vec<(usize, String)>,
        /// Operations before it.
        sequence: u64,
        /// What the others call.
        call: Call,
        /// The time that an operation has.
        seconds: u64,
    },
    /// Ranks did not come.
    #[error(
        "{} operation {sequence} ({call}) within {seconds} s; find out what holds it up, or allow more time by BURN_DIST_OP_TIMEOUT",
        said(ranks, "has not called", "have not called")
    )]
    Missing {
        /// Who, with what they did last.
        ranks: Vec<(usize, String)>,
        /// Operations before it.
        sequence: u64,
        /// What the others call.
        call: Call,
        /// The time that an operation has.
        seconds: u64,
    },
    /// All are there and answer, but bytes do not arrive.
    #[error(
        "operation {sequence} ({call}) is not done within {seconds} s, although all ranks have called it: {}; the connection between them is cut or slow, or allow more time by BURN_DIST_OP_TIMEOUT",
        waits(waiting)
    )]
    Stuck {
        /// Operations before it.
        sequence: u64,
        /// What is called.
        call: Call,
        /// The time that an operation has.
        seconds: u64,
        /// Each rank and whom it waits for.
        waiting: Vec<(usize, Vec<usize>)>,
    },
    /// An operation takes too long, and rank 0, which would know why, is not there any more.
    #[error(
        "operation {sequence} ({call}) is not done within {seconds} s: rank {rank} waits for {}, and rank 0, which would know why, has left; look for the first failure of another rank, or allow more time by BURN_DIST_OP_TIMEOUT",
        join(waits_for)
    )]
    Unexplained {
        /// The rank that says so.
        rank: usize,
        /// The ranks it waits for.
        waits_for: Vec<usize>,
        /// Operations before it.
        sequence: u64,
        /// What is called.
        call: Call,
        /// The time that an operation has.
        seconds: u64,
    },
    /// A rank has ended its part in the world.
    #[error("rank {rank} has left after {}, and rank {other} calls operation {sequence} ({call})", count(*after))]
    Left {
        /// The rank.
        rank: usize,
        /// Operations that it took part in.
        after: u64,
        /// A rank that has not left.
        other: usize,
        /// Operations before what that calls.
        sequence: u64,
        /// What it calls.
        call: Call,
    },
    /// What arrives from a rank is no message.
    #[error(
        "rank {rank} sends what is no message of burn-dist to rank {at}: memory or the network is broken"
    )]
    Garbage {
        /// The rank.
        rank: usize,
        /// Who has read it.
        at: usize,
    },
    /// The system refuses something.
    #[error("rank {rank} cannot go on: {reason}")]
    System {
        /// The rank.
        rank: usize,
        /// What the system says.
        reason: String,
    },
    /// There is no memory for a buffer: nothing was sent, and the world goes on; or for what all ranks gather.
    #[error("rank {rank} has no memory for a buffer of {}: {reason}", Bytes(*bytes))]
    Memory {
        /// The rank.
        rank: usize,
        /// What it wanted.
        bytes: u64,
        /// Why there is none.
        reason: String,
    },
    /// What was given does not fit; nothing was sent, and the world goes on.
    #[error("{0}")]
    Argument(String),
}

crate::debug_as_display!(CollectiveError);

fn during(last: &Option<(u64, Call)>) -> String {
    match last {
        Some((sequence, call)) => format!("during operation {sequence} ({call})"),
        None => "between operations".to_owned(),
    }
}

fn count(operations: u64) -> String {
    match operations {
        1 => "1 operation".to_owned(),
        operations => format!("{operations} operations"),
    }
}

/// `rank 3 (b, process 7) does not answer`, `ranks 3 (…) and 4 (…) do not answer`.
fn said(ranks: &[(usize, String)], one: &str, several: &str) -> String {
    let names = ranks.iter().map(|(rank, more)| format!("{rank} ({more})"));
    let names: Vec<String> = names.collect();
    match names.as_slice() {
        [name] => format!("rank {name} {one}"),
        names => format!("ranks {} {several}", names.join(", ")),
    }
}

fn join(ranks: &[usize]) -> String {
    let ranks: Vec<String> = ranks.iter().map(usize::to_string).collect();
    ranks.join(" and ")
}

/// `rank 1 waits for 2, rank 2 waits for 1`, at most some of them.
fn waits(waiting: &[(usize, Vec<usize>)]) -> String {
    const SHOWN: usize = 8;
    let mut texts: Vec<String> = waiting
        .iter()
        .filter(|(_, peers)| !peers.is_empty())
        .map(|(rank, peers)| format!("rank {rank} waits for {}", join(peers)))
        .collect();
    if texts.len() > SHOWN {
        let more = texts.len() - SHOWN;
        texts.truncate(SHOWN);
        texts.push(format!("{more} more wait"));
    }
    texts.join(", ")
}

impl CollectiveError {
    /// A death that was noticed between operations, as a rank sees it that is in one.
    pub(super) fn during(mut self, under_way: Option<(u64, Call)>) -> Self {
        if let Self::Died { last, .. } = &mut self {
            *last = last.or(under_way);
        }
        self
    }

    /// Whether it is by what ranks did, and did not, that its cause is found.
    pub(super) fn is_a_matter_of_time(&self) -> bool {
        matches!(
            self,
            Self::Silent { .. }
                | Self::Missing { .. }
                | Self::Stuck { .. }
                | Self::Unexplained { .. }
        )
    }

    /// An argument that does not fit.
    pub(crate) fn argument(reason: impl Display) -> Self {
        Self::Argument(reason.to_string())
    }
}
