//! The gradients of a step, over its micro-batches.

use burn::module::Module;
use burn::optim::{GradientsAccumulator, GradientsParams};

use crate::optimizer::scale;

/// How the gradients of micro-batches become those of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Accumulation {
    /// Their mean by sample: as one batch of all samples would have it, if its loss is a mean of them.
    Mean(usize),
    /// Their sum, as burn-train has it.
    Sum(usize),
}

impl Accumulation {
    /// Micro-batches in a step.
    pub fn batches(self) -> usize {
        let (Self::Mean(batches) | Self::Sum(batches)) = self;
        batches.max(1)
    }
}

/// The gradients of the micro-batches so far.
pub(super) struct Accumulator<M> {
    gradients: GradientsAccumulator<M>,
    kind: Accumulation,
    batches: usize,
    samples: usize,
}

impl<M: Module> Accumulator<M> {
    pub fn new(kind: Accumulation) -> Self {
        Self {
            gradients: GradientsAccumulator::new(),
            kind,
            batches: 0,
            samples: 0,
        }
    }

    /// Micro-batches so far.
    pub fn batches(&self) -> usize {
        self.batches
    }

    /// Adds a micro-batch of `samples`.
    pub fn add(&mut self, model: &M, gradients: GradientsParams, samples: usize) {
        let gradients = match self.is_weighted() {
            true => scale(model, gradients, samples as f64),
            false => gradients,
        };
        self.gradients.accumulate(model, gradients);
        self.batches += 1;
        self.samples += samples;
    }

    /// The gradients of the step; it begins anew.
    pub fn take(&mut self, model: &M) -> GradientsParams {
        let gradients = self.gradients.grads();
        let samples = std::mem::take(&mut self.samples);
        self.batches = 0;
        match self.is_weighted() {
            true => scale(model, gradients, 1.0 / samples.max(1) as f64),
            false => gradients,
        }
    }

    fn is_weighted(&self) -> bool {
        matches!(self.kind, Accumulation::Mean(batches) if batches > 1)
    }
}
