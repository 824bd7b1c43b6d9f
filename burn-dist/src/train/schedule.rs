//! The learning rate over the steps of a run: warm-up, then a schedule.
//!
//! A pure function of the step but for [`Plateau`], which listens to the validation loss. Burn's own
//! schedulers know neither.

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};

use super::Plateau;

/// How the learning rate falls, after the warm-up. Steps count from its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Schedule {
    /// Not at all.
    #[default]
    Constant,
    /// Along half a cosine to `minimum` in `steps` steps, and stays there (Loshchilov and Hutter,
    /// arXiv 1608.03983, without restarts; `torch.optim.lr_scheduler.CosineAnnealingLR`).
    Cosine {
        /// Steps until the minimum.
        steps: usize,
        /// The lowest rate.
        minimum: f64,
    },
    /// Multiplied by `factor` after every `every` steps (`StepLR`).
    Step {
        /// Steps between two changes.
        every: usize,
        /// Factor on the rate.
        factor: f64,
    },
    /// When the validation loss stalls (`ReduceLROnPlateau`).
    Plateau(Plateau),
}

/// A linear rise of the learning rate over the first steps (Goyal et al., arXiv 1706.02677;
/// `torch.optim.lr_scheduler.LinearLR`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WarmUp {
    /// Steps until the full rate.
    pub steps: usize,
    /// The first step has this share of the rate.
    pub start: f64,
}

/// The learning rate of every step of a run.
///
/// ```
/// use burn_dist::train::{LearningRate, Schedule, WarmUp};
///
/// let rate = LearningRate::new(0.1)
///     .warm_up(WarmUp { steps: 4, start: 0.5 })
///     .schedule(Schedule::Cosine { steps: 10, minimum: 0.0 });
/// assert_eq!(rate.at(0), 0.05);
/// assert_eq!(rate.at(4), 0.1);
/// assert!((rate.at(9) - 0.05).abs() < 1e-12); // half way down
/// assert_eq!(rate.at(14), 0.0);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LearningRate {
    base: f64,
    warm_up: Option<WarmUp>,
    schedule: Schedule,
}

impl LearningRate {
    /// `base` at every step.
    pub fn new(base: f64) -> Self {
        Self {
            base,
            warm_up: None,
            schedule: Schedule::Constant,
        }
    }

    /// Rises to the full rate first.
    pub fn warm_up(self, warm_up: WarmUp) -> Self {
        Self {
            warm_up: Some(warm_up),
            ..self
        }
    }

    /// Falls as `schedule` says.
    pub fn schedule(self, schedule: Schedule) -> Self {
        Self { schedule, ..self }
    }

    /// The rate of a step, from 0.
    pub fn at(&self, step: usize) -> f64 {
        let warm_up = self.warm_up.as_ref();
        let warming = warm_up.filter(|warm_up| step < warm_up.steps);
        if let Some(WarmUp { steps, start }) = warming {
            return self.base * (start + (1.0 - start) * step as f64 / *steps as f64);
        }
        let step = step - warm_up.map_or(0, |warm_up| warm_up.steps);
        match &self.schedule {
            Schedule::Constant | Schedule::Plateau(_) => self.base,
            Schedule::Cosine { steps, minimum } => {
                let share = step.min(*steps) as f64 / (*steps).max(1) as f64;
                minimum + (self.base - minimum) * (1.0 + (PI * share).cos()) / 2.0
            }
            Schedule::Step { every, factor } => {
                self.base * factor.powf((step / (*every).max(1)) as f64)
            }
        }
    }

    /// Tells the schedule the validation loss of an epoch that ended after `steps`. Until the
    /// warm-up ends it does not listen.
    pub fn observe(&mut self, validation_loss: f64, steps: usize) {
        let warm_up = self.warm_up.as_ref();
        if warm_up.is_some_and(|warm_up| steps <= warm_up.steps) {
            return;
        }
        if let Schedule::Plateau(plateau) = &mut self.schedule {
            self.base = plateau.observe(validation_loss, self.base);
        }
    }
}

impl From<f64> for LearningRate {
    fn from(base: f64) -> Self {
        Self::new(base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What stalls while the rate still rises says nothing of the full rate.
    #[test]
    fn a_plateau_does_not_listen_to_the_warm_up() {
        let mut rate = LearningRate::new(1.0)
            .warm_up(WarmUp {
                steps: 4,
                start: 0.0,
            })
            .schedule(Schedule::Plateau(Plateau::new(0.5, 0)));
        rate.observe(1.0, 2);
        rate.observe(2.0, 4);
        assert_eq!((rate.at(2), rate.at(4)), (0.5, 1.0));
        rate.observe(3.0, 6);
        rate.observe(3.0, 8);
        assert_eq!(rate.at(8), 0.5);
    }
}
