//! The operations of a world.

use std::ops::Range;
use std::sync::PoisonError;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use super::buffer::Buffer;
use super::engine::Task;
use super::pending::Pending;
use super::{Shared, World};
use crate::collective::executor::{Interruption, Watch};
use crate::collective::{Algorithm, Call, Element, ElementType, Operation, Reduction, partition};
use crate::supervision::{CollectiveError, State, Supervisor};

/// What is done with the data of all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// All ranks get the reduction.
    AllReduce(Reduction),
    /// Each rank gets its part of the reduction, as [`partition`] divides the elements; the rest is then without
    /// meaning.
    ReduceScatter(Reduction),
    /// All ranks get what each has in its part, as [`partition`] divides the elements: in place, of as many elements on
    /// each rank. Where ranks have different numbers, [`World::all_gather`] is for them.
    AllGather,
    /// All ranks get what `root` has.
    Broadcast {
        /// The rank that has it.
        root: usize,
    },
    /// `root` gets the reduction; what the others have is then without meaning.
    Reduce {
        /// How elements become one.
        reduction: Reduction,
        /// The rank that gets it.
        root: usize,
    },
}

/// What all ranks have contributed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gathered<T> {
    /// All elements, in the order of the ranks.
    pub values: Vec<T>,
    /// Those of each rank.
    pub parts: Vec<Range<usize>>,
}

impl<T> Gathered<T> {
    /// What `rank` has contributed.
    ///
    /// # Panics
    ///
    /// If there is no such rank.
    pub fn of(&self, rank: usize) -> &[T] {
        &self.values[self.parts[rank].clone()]
    }
}

impl World {
    /// Starts an operation on `buffer` and returns at once. Operations are carried out in the order in which they
    /// were called, blocking ones as well, by a thread of the world.
    ///
    /// ```
    /// use burn_dist_core::{Collective, World};
    /// use burn_dist_core::collective::Reduction;
    ///
    /// let world = World::init()?;
    /// let mut bucket = world.alloc::<f32>(1024)?;
    /// bucket.fill(2.0);
    /// let pending = world.start(Collective::AllReduce(Reduction::Sum), bucket)?;
    /// // … something else meanwhile …
    /// let bucket = pending.wait()?;
    /// assert_eq!(bucket[0], 2.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If an argument does not fit. All other failures come when it is waited for.
    pub fn start<T: Element>(
        &self,
        collective: Collective,
        mut buffer: Buffer<T>,
    ) -> Result<Pending<T>, CollectiveError> {
        let call = self.shared.call::<T>(collective, buffer.len())?;
        let (sender, outcome) = channel();
        let shared = self.shared.clone();
        self.shared.turns.take(|number| {
            let job = move || {
                let parts = partition(buffer.len(), shared.members.len());
                let done =
                    shared.operate(number, call, &parts, bytemuck::cast_slice_mut(&mut buffer));
                // Nobody may want it any more.
                let _ = sender.send(done.map(|()| buffer));
            };
            if let Some(jobs) = &self.jobs {
                // The thread lives as long as the world. Were it gone, the outcome would say so.
                let _ = jobs.send(Box::new(job));
            }
        });
        Ok(Pending::new(outcome))
    }

    /// Carries an operation out on `data`, after those that were called before.
    ///
    /// # Errors
    ///
    /// If an argument does not fit, or the operation fails on any rank.
    pub fn run<T: Element>(
        &self,
        collective: Collective,
        data: &mut [T],
    ) -> Result<(), CollectiveError> {
        let call = self.shared.call::<T>(collective, data.len())?;
        let parts = partition(data.len(), self.size());
        self.shared
            .operate_next(call, &parts, bytemuck::cast_slice_mut(data))
    }

    /// All ranks get the reduction of `data`: the same bits on each, and, unless [`Order::Any`](crate::collective::Order)
    /// is allowed, those of adding in the order of the ranks.
    ///
    /// # Errors
    ///
    /// If the operation fails on any rank.
    pub fn all_reduce<T: Element>(
        &self,
        data: &mut [T],
        reduction: Reduction,
    ) -> Result<(), CollectiveError> {
        self.run(Collective::AllReduce(reduction), data)
    }

    /// This rank gets its part of the reduction: which elements those are. The rest of `data` is then without meaning.
    ///
    /// # Errors
    ///
    /// If the operation fails on any rank.
    pub fn reduce_scatter<T: Element>(
        &self,
        data: &mut [T],
        reduction: Reduction,
    ) -> Result<Range<usize>, CollectiveError> {
        self.run(Collective::ReduceScatter(reduction), data)?;
        Ok(partition(data.len(), self.size()).swap_remove(self.rank()))
    }

    /// All ranks get what each has, however much. It counts as two operations: by [`Operation::GatherCounts`] ranks first
    /// tell each other how many elements they have. [`Collective::AllGather`] is one operation, of parts that [`partition`] says.
    ///
    /// # Errors
    ///
    /// If the operation fails on any rank.
    pub fn all_gather<T: Element>(&self, own: &[T]) -> Result<Gathered<T>, CollectiveError> {
        let mut counts = vec![0i64; self.size()];
        counts[self.rank()] = own.len() as i64;
        let call = Call {
            operation: Operation::GatherCounts,
            ..self
                .shared
                .call::<i64>(Collective::AllGather, counts.len())?
        };
        let each = partition(counts.len(), self.size());
        self.shared
            .operate_next(call, &each, bytemuck::cast_slice_mut(&mut counts))?;
        let mut parts = Vec::with_capacity(counts.len());
        let mut end = 0usize;
        for (rank, count) in counts.into_iter().enumerate() {
            let next = usize::try_from(count)
                .ok()
                .and_then(|count| end.checked_add(count));
            let next = next.ok_or_else(|| {
                CollectiveError::argument(format!("rank {rank} has {count} elements to gather"))
            })?;
            parts.push(end..next);
            end = next;
        }
        let mut values = vec![T::default(); end];
        values[parts[self.rank()].clone()].copy_from_slice(own);
        let call = self.shared.call::<T>(Collective::AllGather, end)?;
        let data = bytemuck::cast_slice_mut(&mut values);
        self.shared.operate_next(call, &parts, data)?;
        Ok(Gathered { values, parts })
    }

    /// All ranks get what `root` has in `data`.
    ///
    /// # Errors
    ///
    /// If there is no such rank, or the operation fails on any.
    pub fn broadcast<T: Element>(
        &self,
        data: &mut [T],
        root: usize,
    ) -> Result<(), CollectiveError> {
        self.run(Collective::Broadcast { root }, data)
    }

    /// `root` gets the reduction of `data`; what the others have is then without meaning.
    ///
    /// # Errors
    ///
    /// If there is no such rank, or the operation fails on any.
    pub fn reduce<T: Element>(
        &self,
        data: &mut [T],
        reduction: Reduction,
        root: usize,
    ) -> Result<(), CollectiveError> {
        self.run(Collective::Reduce { reduction, root }, data)
    }

    /// How long `bytes` take from rank `one` to `other` and back; known to `one` alone. All ranks call it.
    ///
    /// # Errors
    ///
    /// If there are no two such ranks, or the operation fails on any.
    pub fn round_trip(
        &self,
        one: usize,
        other: usize,
        bytes: usize,
    ) -> Result<Option<Duration>, CollectiveError> {
        let ranks = self.size();
        if one >= ranks || other >= ranks || one == other {
            return Err(CollectiveError::argument(format!(
                "a round trip from rank {one} to {other} of {ranks}: two of them are needed"
            )));
        }
        let call = Call {
            operation: Operation::RoundTrip,
            reduction: None,
            element: ElementType::U8,
            count: bytes as u64,
            root: Some(one as u16),
        };
        // All elements are part of the other's, which tells who that is.
        let part = |rank| {
            if rank < other {
                0..0
            } else if rank == other {
                0..bytes
            } else {
                bytes..bytes
            }
        };
        let parts: Vec<Range<usize>> = (0..ranks).map(part).collect();
        self.barrier()?;
        let began = Instant::now();
        self.shared
            .operate_next(call, &parts, &mut vec![0; bytes])?;
        Ok((self.rank() == one).then(|| began.elapsed()))
    }

    /// Waits until all ranks have called it.
    ///
    /// # Errors
    ///
    /// If ranks are missing when its time is over: which. If another operation fails.
    pub fn barrier(&self) -> Result<(), CollectiveError> {
        let ranks = self.size();
        let call = Call {
            operation: Operation::Barrier,
            reduction: None,
            element: ElementType::U8,
            count: ranks as u64,
            root: None,
        };
        let mut come = vec![0u8; ranks];
        self.shared
            .operate_next(call, &partition(ranks, ranks), &mut come)
    }
}

impl Shared {
    fn call<T: Element>(
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

    fn operate_next(
        &self,
        call: Call,
        parts: &[Range<usize>],
        data: &mut [u8],
    ) -> Result<(), CollectiveError> {
        let number = self.turns.take(|number| number);
        self.operate(number, call, parts, data)
    }

    /// Carries operation `sequence` out when its turn has come.
    fn operate(
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
