//! The operations of a world.

use std::ops::Range;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use super::World;
use super::buffer::Buffer;
use super::pending::Pending;
use crate::collective::{Call, Element, ElementType, Operation, Reduction, partition};
use crate::supervision::CollectiveError;

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
    /// If the operation fails on any rank, or a rank has no memory for what all have.
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
        // The others are about to wait for what this rank cannot take part in.
        let values = self.shared.zeros(end);
        let mut values: Vec<T> = values.map_err(|error| self.shared.supervisor.fail(error))?;
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
