//! The schedule of the CheXNet paper: the learning rate is divided when the validation loss
//! stalls.

use serde::{Deserialize, Serialize};

/// Multiplies the learning rate by `factor` when the validation loss has not improved for more
/// than `patience` epochs, as PyTorch's `ReduceLROnPlateau` in mode `min`.
///
/// With patience 0 it does so after each epoch without improvement: the paper's "decayed by a
/// factor of 10 each time the validation loss plateaus after an epoch".
///
/// ```
/// use burn_dist::train::Plateau;
/// let mut plateau = Plateau::new(0.1, 0);
/// assert_eq!(plateau.observe(1.0, 1e-3), 1e-3); // the first value
/// assert_eq!(plateau.observe(0.9, 1e-3), 1e-3); // better
/// assert_eq!(plateau.observe(0.9, 1e-3), 1e-4); // stalled
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plateau {
    /// Factor on the learning rate, 0.1 in the paper.
    pub factor: f64,
    /// Epochs without improvement that are forgiven.
    pub patience: usize,
    /// The learning rate never falls below it.
    pub minimum: f64,
    /// An improvement is a loss below `best · (1 − threshold)`; PyTorch's default is 1e-4.
    pub threshold: f64,
    best: Option<f64>,
    stalled: usize,
}

impl Plateau {
    /// With PyTorch's threshold and a learning rate that may fall to 1e-8.
    pub fn new(factor: f64, patience: usize) -> Self {
        Self {
            factor,
            patience,
            minimum: 1e-8,
            threshold: 1e-4,
            best: None,
            stalled: 0,
        }
    }

    /// The learning rate after an epoch that ended with `validation_loss`.
    pub fn observe(&mut self, validation_loss: f64, learning_rate: f64) -> f64 {
        let improved = self
            .best
            .is_none_or(|best| validation_loss < best * (1.0 - self.threshold));
        if improved {
            self.best = Some(validation_loss);
            self.stalled = 0;
            return learning_rate;
        }
        self.stalled += 1;
        if self.stalled <= self.patience {
            return learning_rate;
        }
        self.stalled = 0;
        (learning_rate * self.factor).max(self.minimum.min(learning_rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Learning rates of torch.optim.lr_scheduler.ReduceLROnPlateau(factor=0.1, patience=1)
    /// on these losses, by hand from its definition.
    #[test]
    fn follows_pytorch() {
        let mut plateau = Plateau::new(0.1, 1);
        let mut rate = 1.0;
        let losses = [1.0, 0.5, 0.5, 0.499_99, 0.6, 0.4, 0.41, 0.42, 0.43, 0.44];
        let expected = [1.0, 1.0, 1.0, 0.1, 0.1, 0.1, 0.1, 0.01, 0.01, 0.001];
        for (loss, expected) in losses.into_iter().zip(expected) {
            rate = plateau.observe(loss, rate);
            assert!(
                (rate - expected).abs() < 1e-12,
                "loss {loss}: {rate} {expected}"
            );
        }
    }

    #[test]
    fn stops_at_the_minimum() {
        let mut plateau = Plateau::new(0.1, 0);
        plateau.minimum = 1e-4;
        assert_eq!(plateau.observe(1.0, 1e-4), 1e-4);
        assert_eq!(plateau.observe(1.0, 1e-4), 1e-4);
        // A rate that began below the minimum is not raised.
        assert_eq!(plateau.observe(1.0, 1e-6), 1e-6);
    }
}
