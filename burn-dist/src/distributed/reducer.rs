//! The gradients of a step, from the backward pass into buckets and through the world.
//!
//! Buckets leave in the order of the plan on all ranks, whatever the order in which they are complete: operations of a
//! world have to be called in one order. So nothing hangs if a rank has no gradient for a parameter; its bucket leaves
//! when the backward pass is over.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::backend::ops::FloatTensorOps;
use burn::backend::{Dispatch, DispatchTensor};
use burn::module::ParamId;
use burn::tensor::{DType, Shape, Tensor, TensorData};
use burn_dist_core::World;
use burn_dist_core::collective::Reduction;

use super::bucket::{Bucket, Slot, bucket};
use super::layout::Layout;
use super::plan::{bucket_bytes, divide};
use super::{DataParallelConfig, DistributedError, Vote, Wire};

/// Buckets and where each gradient lies in them.
pub(super) struct Reducer {
    world: Arc<World>,
    layout: Arc<Layout>,
    config: DataParallelConfig,
    /// Whether sums over samples and ranks may be larger than the numbers that travel.
    is_narrow: bool,
    step: Mutex<Step>,
}

/// What a step is at.
struct Step {
    buckets: Vec<Box<dyn Bucket>>,
    /// Of each trained entry of the layout.
    slots: Vec<Option<Slot>>,
    /// Gradients that each bucket still waits for.
    missing: Vec<usize>,
    /// Whether there is a gradient of each entry.
    has_gradient: Vec<bool>,
    /// Whether the gate of each entry has been passed.
    is_passed: Vec<bool>,
    /// Entries in the order in which their gates were passed.
    order: Vec<usize>,
    /// The bucket that leaves next.
    next: usize,
    /// Of gradients of the backward pass that is to come; `None` without one.
    factor: Option<f64>,
    weight: f64,
    /// What gradients were divided by before they were added.
    divisor: f64,
    /// Whether it has begun.
    is_open: bool,
    /// Why gradients of this step cannot be reduced.
    error: Option<DistributedError>,
    /// Whether buckets follow an order that was seen.
    is_ordered: bool,
}

impl Step {
    fn new(entries: usize, is_ordered: bool) -> Self {
        Self {
            buckets: Vec::new(),
            slots: vec![None; entries],
            missing: Vec::new(),
            has_gradient: vec![false; entries],
            is_passed: vec![false; entries],
            order: Vec::new(),
            next: 0,
            factor: None,
            weight: 0.0,
            divisor: 1.0,
            is_open: false,
            error: None,
            is_ordered,
        }
    }

    /// Nothing of a step.
    fn reset(&mut self) {
        self.buckets.iter_mut().for_each(|bucket| bucket.clear());
        self.missing = vec![0; self.buckets.len()];
        for slot in self.slots.iter().flatten() {
            self.missing[slot.bucket] += 1;
        }
        self.has_gradient.fill(false);
        self.is_passed.fill(false);
        self.order.clear();
        (self.next, self.weight, self.is_open) = (0, 0.0, false);
        (self.factor, self.error) = (None, None);
    }

    /// The first cause counts.
    fn fail(&mut self, error: DistributedError) {
        self.error.get_or_insert(error);
    }

    /// Lets buckets go that are complete, or all: in their order.
    fn leave(&mut self, world: &World, all: bool) -> Result<(), DistributedError> {
        while self.next < self.buckets.len() && (all || self.missing[self.next] == 0) {
            self.buckets[self.next].start(world)?;
            self.next += 1;
        }
        Ok(())
    }
}

/// What a step has come to.
pub(super) struct Sums {
    /// Sum of the ranks' weights.
    pub weight: f64,
    /// What makes means of the sums of gradients.
    pub factor: f64,
    /// Whether any rank wants to stop.
    pub stop: bool,
    /// Whether any rank has more data.
    pub more: bool,
    /// Whether any rank has a gradient of each entry.
    pub has_gradient: Vec<bool>,
}

impl Reducer {
    pub fn new(
        world: Arc<World>,
        layout: Arc<Layout>,
        config: DataParallelConfig,
    ) -> Result<Self, DistributedError> {
        // Until the order of the backward pass is known: fields are mostly used in their order.
        let trained = (0..layout.entries.len()).filter(|index| layout.entries[*index].is_trained);
        let order: Vec<usize> = trained.rev().collect();
        let is_narrow = layout.entries.iter().any(|entry| {
            let is_half = entry.dtype == DType::F16 || config.wire == Wire::F16;
            entry.is_trained && is_half
        });
        let reducer = Self {
            is_narrow,
            // Without gates there is none to be seen.
            step: Mutex::new(Step::new(layout.entries.len(), !config.gates())),
            world,
            layout,
            config,
        };
        reducer.plan(&mut reducer.step(), &order)?;
        Ok(reducer)
    }

    fn step(&self) -> MutexGuard<'_, Step> {
        // Who panics while it holds a step ends the run; what it leaves is not used.
        self.step.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lays entries out in buckets, in an order that is the same on all ranks.
    fn plan(&self, step: &mut Step, order: &[usize]) -> Result<(), DistributedError> {
        let entries = &self.layout.entries;
        let bytes = |index: &usize| entries[*index].elements() * entries[*index].dtype.size();
        let total = order.iter().map(bytes).sum();
        let most = self
            .config
            .bucket_bytes
            .unwrap_or_else(|| bucket_bytes(total));
        step.buckets.clear();
        // A bucket has numbers of one type.
        for run in order.chunk_by(|a, b| entries[*a].dtype == entries[*b].dtype) {
            let sizes: Vec<usize> = run.iter().map(bytes).collect();
            for range in divide(&sizes, most) {
                let mut elements = 0;
                for index in &run[range.clone()] {
                    let slot = Slot {
                        bucket: step.buckets.len(),
                        start: elements,
                    };
                    step.slots[*index] = Some(slot);
                    elements += entries[*index].elements();
                }
                let dtype = entries[run[range.start]].dtype;
                step.buckets
                    .push(bucket(&self.world, elements, dtype, self.config.wire)?);
            }
        }
        step.reset();
        Ok(())
    }

    /// A step begins in which the rank counts `weight` times: what gradients are to be divided by before they are added,
    /// which is what all ranks count where their sum has no room on the wire, and else 1.
    ///
    /// # Errors
    ///
    /// If the last step is not over, or ranks cannot tell each other.
    pub fn open(&self, weight: f64) -> Result<f64, DistributedError> {
        if self.step().is_open {
            return Err(DistributedError::Option(
                "a step has begun already: reduce has to follow each gate, and what several passes give goes into one of them, as a Contribution"
                    .to_owned(),
            ));
        }
        let mut all = [weight];
        if self.is_narrow {
            self.world.all_reduce(&mut all, Reduction::Sum)?;
        }
        let mut step = self.step();
        (step.is_open, step.weight) = (true, weight);
        step.divisor = match (self.is_narrow, all[0] > 0.0) {
            (true, true) => all[0],
            _ => 1.0,
        };
        Ok(step.divisor)
    }

    /// A backward pass begins whose gradients count `factor` times.
    pub fn begin(&self, factor: f64) {
        self.step().factor = Some(factor);
    }

    /// Takes the gradient of a parameter while the backward pass goes on. What fails is told when it is over: nothing
    /// may end the pass from here.
    pub fn take(&self, id: ParamId, gradient: DispatchTensor) {
        let Some(index) = self.layout.index(id) else {
            return self.fail_new();
        };
        let elements = self.layout.entries[index].elements();
        let flat = Dispatch::float_reshape(gradient, Shape::new([elements]));
        let read = Tensor::<1>::from_dispatch(flat).try_into_data();
        let mut step = self.step();
        let passed = std::mem::replace(&mut step.is_passed[index], true);
        let factor = match step.factor {
            Some(factor) if !passed => factor,
            _ => {
                let tensor = self.layout.entries[index].path.clone();
                return step.fail(DistributedError::Twice { tensor });
            }
        };
        match read {
            Ok(data) => self.add(&mut step, index, &data, factor),
            Err(error) => step.fail(self.unreadable(index, error)),
        }
        step.order.push(index);
        if let Some(slot) = step.slots[index] {
            step.missing[slot.bucket] -= 1;
        }
        let left = step.leave(&self.world, false);
        left.unwrap_or_else(|error| step.fail(error));
    }

    /// Adds a gradient of earlier passes, or of a pass without gates.
    pub fn add_gradient(&self, index: usize, gradient: &TensorData, factor: f64) {
        self.add(&mut self.step(), index, gradient, factor);
    }

    /// A gradient of a parameter that was not there at the start.
    pub fn fail_new(&self) {
        let error = DistributedError::Changed("a parameter is new".to_owned());
        self.step().fail(error);
    }

    /// A gradient that could not be had.
    pub fn fail_gradient(&self, index: usize, error: impl std::fmt::Display) {
        let error = self.unreadable(index, error);
        self.step().fail(error);
    }

    fn unreadable(&self, index: usize, error: impl std::fmt::Display) -> DistributedError {
        DistributedError::Gradient {
            tensor: self.layout.entries[index].path.clone(),
            reason: error.to_string(),
        }
    }

    fn add(&self, step: &mut Step, index: usize, gradient: &TensorData, factor: f64) {
        let Some(slot) = step.slots[index] else {
            return step.fail(DistributedError::Changed(format!(
                "{} was not trained",
                self.layout.entries[index].path
            )));
        };
        step.has_gradient[index] = true;
        let added = step.buckets[slot.bucket].add(slot.start, gradient, factor);
        if let Err(reason) = added {
            step.fail(self.unreadable(index, reason));
        }
    }

    /// The backward pass is over: sums over all ranks, of which this one says `vote`. Gradients can then be read.
    pub fn finish(&self, vote: Vote) -> Result<Sums, DistributedError> {
        let mut step = self.step();
        step.factor = None;
        if !step.is_open {
            return Err(DistributedError::Option(
                "nothing was gated and there is no contribution: a rank without data has to say so, by Contribution::nothing"
                    .to_owned(),
            ));
        }
        if let Some(error) = step.error.take() {
            return Err(error);
        }
        step.leave(&self.world, true)?;
        let number = |said: bool| f64::from(u8::from(said));
        let mut said = vec![step.weight, number(vote.stop), number(vote.more)];
        said.extend(step.has_gradient.iter().map(|has| number(*has)));
        self.world.all_reduce(&mut said, Reduction::Sum)?;
        for bucket in &mut step.buckets {
            bucket.wait()?;
        }
        Ok(Sums {
            weight: said[0],
            factor: step.divisor / said[0],
            stop: said[1] > 0.0,
            more: said[2] > 0.0,
            has_gradient: said[3..].iter().map(|count| *count > 0.0).collect(),
        })
    }

    /// The reduced gradient of an entry, times `factor`.
    pub fn read(&self, index: usize, factor: f64) -> Option<TensorData> {
        let step = self.step();
        let slot = step.slots[index]?;
        let entry = &self.layout.entries[index];
        let shape = Shape::from(entry.shape.clone());
        Some(step.buckets[slot.bucket].read(slot.start, shape, factor, entry.dtype))
    }

    /// All is read: the next step may begin.
    ///
    /// # Errors
    ///
    /// After the first step, if rank 0 cannot tell the others the order of its backward pass.
    pub fn end(&self) -> Result<(), DistributedError> {
        let mut step = self.step();
        if !step.is_ordered {
            return self.order(&mut step);
        }
        step.reset();
        Ok(())
    }

    /// Lays buckets out in the order in which rank 0 has got its gradients; those that it has not come last.
    fn order(&self, step: &mut Step) -> Result<(), DistributedError> {
        let entries = self.layout.entries.len();
        let mut first: Vec<i64> = step.order.iter().map(|index| *index as i64).collect();
        first.resize(entries, -1);
        self.world.broadcast(&mut first, 0)?;
        let mut order: Vec<usize> = Vec::new();
        let trained = |index: &usize| {
            self.layout
                .entries
                .get(*index)
                .is_some_and(|e| e.is_trained)
        };
        let told = first
            .iter()
            .filter_map(|index| usize::try_from(*index).ok());
        for index in told
            .filter(trained)
            .chain((0..entries).rev().filter(trained))
        {
            if !order.contains(&index) {
                order.push(index);
            }
        }
        step.is_ordered = true;
        self.plan(step, &order)
    }
}
