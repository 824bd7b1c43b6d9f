//! What ranks and the coordinator say to each other.

use serde::{Deserialize, Serialize};

use super::error::CollectiveError;
use crate::collective::Call;

/// From a rank to the coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum ToCoordinator {
    /// It waits in an operation for longer than usual.
    Waiting { sequence: u64, call: Call },
    /// The time of an operation is over.
    Late { sequence: u64, call: Call },
    /// The answer to [`FromCoordinator::Ask`].
    Answer { sequence: u64, standing: Standing },
    /// It has failed.
    Failed(CollectiveError),
    /// It leaves, after so many operations.
    Leaves { after: u64 },
}

/// Where a rank is with respect to an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Standing {
    /// It has not called it; the last that it has.
    Before { last: Option<(u64, Call)> },
    /// It is in it and waits for ranks.
    In { call: Call, waits_for: Vec<usize> },
    /// It has done it; what it was, unless that is too long ago.
    After { call: Option<Call> },
}

/// From the coordinator to a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum FromCoordinator {
    /// Where is the rank with respect to an operation?
    Ask { sequence: u64 },
    /// The job has failed.
    Abort(CollectiveError),
    /// The coordinator leaves, after so many operations.
    Leaves { after: u64 },
}
