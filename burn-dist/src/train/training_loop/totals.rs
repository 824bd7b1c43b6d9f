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
        self.loss += loss * output.samples() as f64;
        self.samples += output.samples() as f64;
        Ok(())
    }

    /// The mean over all replicas and the samples it was taken over.
    pub(super) fn mean<M: Module>(
        self,
        replica: &dyn Replica<M>,
        phase: &'static str,
    ) -> Result<(f64, usize), TrainError> {
        let mut sums = [self.loss, self.samples];
        replica.sum(&mut sums)?;
        match sums {
            [_, 0.0] => Err(TrainError::NoData { phase }),
            [loss, samples] => Ok((loss / samples, samples as usize)),
        }
    }
}
