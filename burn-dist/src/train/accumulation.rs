//! The gradients of a step, over its micro-batches.

use burn::module::Module;
use burn::optim::{GradientsAccumulator, GradientsParams};

use crate::distributed::Contribution;
use crate::optimizer::scale;

/// How the gradients of micro-batches become those of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Accumulation {
    /// Their mean by weight, which is by sample: as one batch of all samples would have it, if its loss is a mean of them.
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
    /// Of them that had samples.
    used: usize,
    weight: usize,
    /// Replicas meet within their passes, so that a batch without a weight has gradients too: of the losses of others.
    meets: bool,
}

impl<M: Module> Accumulator<M> {
    pub fn new(kind: Accumulation, meets: bool) -> Self {
        Self {
            gradients: GradientsAccumulator::new(),
            kind,
            batches: 0,
            used: 0,
            weight: 0,
            meets,
        }
    }

    /// Micro-batches so far.
    pub fn batches(&self) -> usize {
        self.batches
    }

    /// Adds a micro-batch of this weight.
    pub fn add(&mut self, model: &M, gradients: GradientsParams, weight: usize) {
        let gradients = match self.is_weighted() {
            true => scale(model, gradients, self.counts(weight) as f64),
            false => gradients,
        };
        self.gradients.accumulate(model, gradients);
        self.batches += 1;
        self.used += 1;
        self.weight += weight;
    }

    /// Adds a micro-batch without samples.
    pub fn add_nothing(&mut self) {
        self.batches += 1;
    }

    /// The gradients of the step; it begins anew.
    pub fn take(&mut self, model: &M) -> Contribution {
        self.batches = 0;
        match std::mem::take(&mut self.used) {
            0 => Contribution::nothing(),
            _ => {
                let weight = std::mem::take(&mut self.weight);
                Contribution::gradients(self.so_far(model, weight), weight)
            }
        }
    }

    /// What goes with the gradients of a last micro-batch of this weight, which a gated model hands over; the step begins
    /// anew.
    pub fn before_last(&mut self, model: &M, weight: usize) -> Contribution {
        (self.batches, self.used) = (0, 0);
        let all = std::mem::take(&mut self.weight) + weight;
        let factor = match self.is_weighted() {
            true => self.counts(weight) as f64 / all.max(1) as f64,
            false => 1.0,
        };
        Contribution::before(self.so_far(model, all), factor, all)
    }

    /// The part that the micro-batches so far have in the gradients of a step of this weight.
    fn so_far(&mut self, model: &M, weight: usize) -> GradientsParams {
        let gradients = self.gradients.grads();
        match self.is_weighted() {
            true => scale(model, gradients, 1.0 / weight.max(1) as f64),
            false => gradients,
        }
    }

    /// What the gradients of a micro-batch of this weight count.
    fn counts(&self, weight: usize) -> usize {
        weight.max(usize::from(self.meets))
    }

    fn is_weighted(&self) -> bool {
        matches!(self.kind, Accumulation::Mean(batches) if batches > 1)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use burn::nn::{Linear, LinearConfig};
    use burn::tensor::{Device, Tensor};

    use super::*;
    use crate::distributed::Vote;

    /// The gradient of the mean squared output over the rows of `inputs`.
    fn gradients(model: &Linear, inputs: Tensor<2>) -> GradientsParams {
        let loss = model.forward(inputs).square().mean();
        GradientsParams::from_grads(loss.backward(), model)
    }

    fn values(model: &Linear, gradients: &GradientsParams) -> Vec<f32> {
        let gradient = gradients.get::<2>(model.weight.id).unwrap();
        gradient.into_data().iter().collect()
    }

    /// In the order of micro-batches of three and five rows: by sample, by sum, and all at once.
    #[test]
    fn the_mean_by_sample_is_the_gradient_of_one_batch() {
        let device = Device::flex().autodiff();
        let model = LinearConfig::new(4, 2).init(&device);
        let rows: Vec<f32> = (0..8 * 4).map(|i| (i as f32 * 0.7).sin()).collect();
        let rows = Tensor::<1>::from_floats(rows.as_slice(), &device).reshape([8, 4]);
        let parts = [(0, 3), (3, 5)];
        let accumulated = |kind| {
            let mut accumulator = Accumulator::new(kind, false);
            for (start, length) in parts {
                let part = gradients(&model, rows.clone().narrow(0, start, length));
                accumulator.add(&model, part, length);
            }
            assert_eq!(accumulator.batches(), 2);
            let taken = accumulator.take(&model).alone(Vote::default());
            assert!(accumulator.batches() == 0 && taken.has_data);
            let none = accumulator.take(&model).alone(Vote::default());
            assert!(!none.has_data);
            values(&model, &taken.gradients)
        };
        let close = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6);
        let whole = values(&model, &gradients(&model, rows.clone()));
        assert!(close(&accumulated(Accumulation::Mean(2)), &whole));
        let summed: Vec<f32> = {
            let part = |(start, length)| {
                values(
                    &model,
                    &gradients(&model, rows.clone().narrow(0, start, length)),
                )
            };
            let (first, second) = (part(parts[0]), part(parts[1]));
            first.iter().zip(second).map(|(a, b)| a + b).collect()
        };
        assert!(close(&accumulated(Accumulation::Sum(2)), &summed));
        assert!(!close(&summed, &whole));
    }
}
