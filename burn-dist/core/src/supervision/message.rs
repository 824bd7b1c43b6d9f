//! What ranks and the coordinator say to each other.

use serde::{Deserialize, Serialize};

use super::agreement::{Calls, Trail};
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
    /// What it has called since it last said so.
    Called(Trail),
    /// The answer to [`FromCoordinator::Recall`].
    Calls(Calls),
    /// The process of a rank beside it has ended.
    Ended { rank: usize },
    /// It has failed.
    Failed(CollectiveError),
    /// It leaves, after so many operations.
    Leaves { after: u64 },
}

/// Where a rank is with respect to an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Standing {
    /// It has not called it; the last that it has, and whether it is still in that.
    Before {
        last: Option<(u64, Call)>,
        waits: bool,
    },
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
    /// What has the rank called?
    Recall,
    /// The job has failed.
    Abort(CollectiveError),
    /// The coordinator leaves, after so many operations.
    Leaves { after: u64 },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::{ElementType, Operation, Reduction};
    use crate::fuzzing;

    fn call() -> Call {
        Call {
            operation: Operation::Reduce,
            reduction: Some(Reduction::Mean),
            element: ElementType::BF16,
            count: 6_553_600,
            root: Some(3),
        }
    }

    #[test]
    fn damaged_messages_are_refused_or_read() {
        let call = call();
        let place = "host, process 7".to_owned();
        let error = CollectiveError::Missing {
            ranks: vec![(3, place)],
            sequence: 812,
            call,
            seconds: 300,
        };
        let standing = Standing::In {
            call,
            waits_for: vec![1, 3],
        };
        fuzzing::messages(&[
            ToCoordinator::Waiting { sequence: 7, call },
            ToCoordinator::Answer {
                sequence: 7,
                standing,
            },
            ToCoordinator::Called(Trail::new(812, Some)),
            ToCoordinator::Calls(Calls {
                first: 811,
                calls: vec![call],
            }),
            ToCoordinator::Ended { rank: 3 },
            ToCoordinator::Failed(error.clone()),
            ToCoordinator::Leaves { after: 9 },
        ]);
        fuzzing::messages(&[
            FromCoordinator::Ask { sequence: 3 },
            FromCoordinator::Recall,
            FromCoordinator::Abort(error),
            FromCoordinator::Leaves { after: 1 },
        ]);
    }
}
