//! How an operation of a world is carried out: in its turn, by the algorithm that fits it, watched while it waits, and
//! with what stopped it told as what that means to all ranks.

use std::ops::Range;
use std::sync::PoisonError;

use super::engine::Task;
use super::{Collective, Shared};
use crate::collective::executor::{Interruption, Watch};
use crate::collective::{Algorithm, Call, Element, Operation};
use crate::supervision::{CollectiveError, State, Supervisor};

impl Shared {
    /// `collective` on `count` elements, as ranks tell it each other.
    ///
    /// # Errors
    ///
    /// If there is no such root.
    pub(super) fn call<T: Element>(
        &self,
        collective: Collective,
        count: usize,
    ) -> Result<Call, CollectiveError> {
        let (operation, reduction, root) = match collective {
            Collective::AllReduce(reduction) => (Operation::AllReduce, Some(reduction), None),
            Collective::ReduceScatter(reduction) => {
                (Operation::ReduceScatter, Some(reduction), None)
            }
            Collective::AllGather => (Operation::AllGather, None, None),
            Collective::Broadcast { root } => (Operation::Broadcast, None, Some(root)),
            Collective::Reduce { reduction, root } => {
                (Operation::Reduce, Some(reduction), Some(root))
            }
        };
        let ranks = self.members.len();
        if let Some(root) = root.filter(|root| *root >= ranks) {
            return Err(CollectiveError::argument(format!(
                "{operation} with root {root} of {ranks} ranks: they count from 0"
            )));
        }
        Ok(Call {
            operation,
            reduction,
            element: T::TYPE,
            count: count as u64,
            // More ranks than a message can name do not come together.
            root: root.map(|root| root as u16),
        })
    }

    /// Carries an operation out, the next one of this rank.
    pub(super) fn operate_next(
        &self,
        call: Call,
        parts: &[Range<usize>],
        data: &mut [u8],
    ) -> Result<(), CollectiveError> {
        let number = self.turns.take(|number| number);
        self.operate(number, call, parts, data)
    }

    /// Carries operation `sequence` out when its turn has come.
    pub(super) fn operate(
        &self,
        sequence: u64,
        call: Call,
        parts: &[Range<usize>],
        data: &mut [u8],
    ) -> Result<(), CollectiveError> {
        let _turn = self.turns.wait(sequence);
        let algorithm = self.algorithm(&call);
        self.supervisor.begin(sequence, call, algorithm)?;
        let task = Task {
            call,
            algorithm,
            group: self.group,
            sequence,
            parts,
        };
        // An engine whose thread has panicked is not used again: its streams are somewhere within a message.
        let mut engine = match self.engine.lock() {
            Ok(engine) => engine,
            Err(poisoned) => {
                drop(PoisonError::into_inner(poisoned));
                return Err(self.supervisor.fail(CollectiveError::System {
                    rank: self.identity.rank,
                    reason: "an operation has panicked".into(),
                }));
            }
        };
        let outcome = engine.run(&task, data, &Guard(&self.supervisor));
        let outcome = outcome.map_err(|interruption| self.error(&task, interruption));
        self.supervisor.end(match outcome {
            Ok(()) => State::Done,
            Err(_) => State::Failed,
        });
        outcome
    }

    fn algorithm(&self, call: &Call) -> Algorithm {
        let wanted = self.options.algorithm;
        let served = wanted.filter(|wanted| wanted.serves(call.operation, self.topology));
        served.unwrap_or_else(|| {
            self.options
                .table
                .choose(call, self.topology, self.options.order)
        })
    }

    /// What an interruption means to all ranks.
    fn error(&self, task: &Task<'_>, interruption: Interruption) -> CollectiveError {
        let rank = self.identity.rank;
        let own = (rank, task.call);
        let supervisor = &self.supervisor;
        match interruption {
            Interruption::Link { peer, error } => supervisor.lost(peer, &error),
            Interruption::Watch(error) => *error,
            Interruption::Garbage { peer } => supervisor.fail(CollectiveError::Garbage {
                rank: peer,
                at: rank,
            }),
            Interruption::Waiting(error) => supervisor.fail(CollectiveError::System {
                rank,
                reason: error.to_string(),
            }),
            Interruption::Mismatch { peer, theirs } if theirs.sequence != task.sequence => {
                let theirs = (theirs.sequence, theirs.call);
                supervisor.out_of_step((task.sequence, task.call), peer, theirs)
            }
            Interruption::Mismatch { peer, theirs } => supervisor.fail(match *theirs {
                theirs if theirs.call != task.call => CollectiveError::Mismatch {
                    sequence: task.sequence,
                    one: own,
                    other: (peer, theirs.call),
                },
                theirs if theirs.algorithm != task.algorithm => CollectiveError::Algorithms {
                    sequence: task.sequence,
                    call: task.call,
                    one: (rank, task.algorithm),
                    other: (peer, theirs.algorithm),
                },
                _ => CollectiveError::Garbage {
                    rank: peer,
                    at: rank,
                },
            }),
        }
    }
}

/// The supervisor, as the executor knows it.
struct Guard<'a>(&'a Supervisor);

impl Watch for Guard<'_> {
    fn waiting(&self, peers: &[usize]) -> Result<(), Interruption> {
        let waiting = self.0.waiting(peers);
        waiting.map_err(|error| Interruption::Watch(Box::new(error)))
    }
}
