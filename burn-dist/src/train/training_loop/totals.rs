//! Sums of losses over batches and replicas.

use burn::module::Module;

use super::super::snapshot::Totals;
use super::super::{Replica, StepOutput, TrainError};

impl Totals {
    /// Adds a batch, unless its loss is not finite.
    pub(super) fn add<O: StepOutput>(
        &mut self,
        output: &O,
        phase: &'static str,
        epoch: usize,
        batch: usize,
    ) -> Result<(), TrainError> {
        let loss = output
            .loss()
            .try_into_scalar::<f64>()
            .map_err(|e| TrainError::Burn(e.to_string()))?;
        if !loss.is_finite() {
            return Err(TrainError::NonFiniteLoss {
                phase,
                loss,
                epoch,
                batch,
                samples: output.names(),
            });
        }
        self.loss += loss * output.weight() as f64;
        self.weight += output.weight() as f64;
        self.samples += output.samples() as f64;
        Ok(())
    }

    /// Those of all replicas together.
    pub(super) fn of_all<M: Module>(self, replica: &dyn Replica<M>) -> Result<Self, TrainError> {
        let mut sums = [self.loss, self.weight, self.samples];
        replica.sum(&mut sums)?;
        let [loss, weight, samples] = sums;
        Ok(Self {
            loss,
            weight,
            samples,
        })
    }

    /// The mean over all replicas and the samples it was taken over.
    pub(super) fn mean<M: Module>(
        self,
        replica: &dyn Replica<M>,
        phase: &'static str,
    ) -> Result<(f64, usize), TrainError> {
        let all = self.of_all(replica)?;
        if all.samples == 0.0 {
            return Err(TrainError::NoData { phase });
        }
        // Without anything that the loss is a mean of it is 0.
        Ok((all.loss / all.weight.max(1.0), all.samples as usize))
    }
}
