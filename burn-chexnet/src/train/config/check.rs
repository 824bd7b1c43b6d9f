//! Which configurations make no sense.

use burn_dist::train::Uneven;

use super::TrainConfig;
use crate::preprocessing::SIZES;
use crate::train::{RunError, ScheduleChoice};
use crate::{Preprocessing, PreprocessingError, norm};

/// Beyond any machine; more would only stall this one.
const MOST_THREADS: usize = 1024;

impl TrainConfig {
    /// Whether every value makes sense on its own.
    ///
    /// # Errors
    ///
    /// Names the first option that does not.
    pub fn check(&self) -> Result<(), RunError> {
        let least = |option: &'static str, value: usize, least: usize| {
            if value >= least {
                return Ok(());
            }
            Err(RunError::Option {
                option,
                reason: format!("{value} is too small: give at least {least}"),
            })
        };
        if !SIZES.contains(&self.image_size) {
            return Err(RunError::Option {
                option: "--image-size",
                reason: PreprocessingError::ImageSize(self.image_size).to_string(),
            });
        }
        self.augmentation.check()?;
        least("--phantom-images", self.phantom_images, 1)?;
        least("--batch-size", self.batch_size, 1)?;
        least("--epochs", self.epochs, 1)?;
        least("--max-steps", self.max_steps.unwrap_or(1), 1)?;
        least("--accumulate", self.accumulate, 1)?;
        least("--early-stopping", self.early_stopping.unwrap_or(1), 1)?;
        least("--checkpoint-steps", self.checkpoint_steps.unwrap_or(1), 1)?;
        least("--keep-checkpoints", self.keep_checkpoints, 1)?;
        least("--threads", self.threads.unwrap_or(1), 1)?;
        if self.threads.is_some_and(|threads| threads > MOST_THREADS) {
            return Err(RunError::Option {
                option: "--threads",
                reason: format!(
                    "more than {MOST_THREADS} threads: give as many as there are cores"
                ),
            });
        }
        let within = |option: &'static str, value: f64, below: f64| {
            if value > 0.0 && value < below {
                return Ok(());
            }
            let reason = match below.is_finite() {
                true => format!("{value} must be above 0 and below {below}"),
                false => format!("{value} must be above 0 and finite"),
            };
            Err(RunError::Option { option, reason })
        };
        within("--lr", self.learning_rate, f64::INFINITY)?;
        within("--clip-norm", self.clip_norm.unwrap_or(1.0), f64::INFINITY)?;
        let share = |option: &'static str, value: f64, most: f64| {
            if (0.0..=most).contains(&value) {
                return Ok(());
            }
            Err(RunError::Option {
                option,
                reason: format!("{value} must be from 0 to {most}"),
            })
        };
        if let ScheduleChoice::Cosine { minimum } = self.schedule
            && minimum > self.learning_rate
        {
            return Err(RunError::Option {
                option: "--schedule",
                reason: format!(
                    "a cosine cannot fall from {} to {minimum}: give a smaller minimum",
                    self.learning_rate
                ),
            });
        }
        share("--backbone-lr", self.backbone_lr, 1.0)?;
        if self.freeze_backbone && self.backbone_lr != 1.0 {
            return Err(RunError::Option {
                option: "--backbone-lr",
                reason: "the backbone is frozen: leave out this or --freeze-backbone".to_string(),
            });
        }
        if self.freeze_backbone && self.weights.is_none() {
            return Err(RunError::Option {
                option: "--freeze-backbone",
                reason: "a random backbone would stay random: give --weights".to_string(),
            });
        }
        if self.new_head && self.weights.is_none() {
            return Err(RunError::Option {
                option: "--new-head",
                reason:
                    "a random network has a new classifier anyway: give --weights, or leave it out"
                        .to_string(),
            });
        }
        if self.sync_batch_norm && self.uneven == Uneven::Join {
            return Err(RunError::Option {
                option: "--sync-batch-norm",
                reason: "with --uneven join a rank may have no images for a step, and no statistics: give --uneven pad or drop"
                    .to_string(),
            });
        }
        share("--warm-up", self.warm_up, self.epochs as f64)?;
        share("--warm-up-start", self.warm_up_start, 1.0)?;
        if self.in_channels != 1 && self.in_channels != 3 {
            return Err(RunError::Option {
                option: "--in-channels",
                reason: format!("{} channels: give 1 or 3", self.in_channels),
            });
        }
        let normalisation = self.normalisation.clone().unwrap_or_default();
        Preprocessing::new(self.image_size, self.in_channels, &normalisation).map_err(|error| {
            RunError::Option {
                option: "--normalisation",
                reason: error.to_string(),
            }
        })?;
        within(
            "norm_epsilon",
            self.norm_epsilon.unwrap_or(norm::EPSILON),
            1.0,
        )
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Normalisation;

    #[test]
    fn values_that_make_no_sense_are_named() {
        type Change = fn(&mut TrainConfig);
        let cases: [(&str, Change); 26] = [
            ("--image-size", |config| config.image_size = 0),
            ("--image-size", |config| config.image_size = 5000),
            ("--phantom-images", |config| config.phantom_images = 0),
            ("--batch-size", |config| config.batch_size = 0),
            ("--epochs", |config| config.epochs = 0),
            ("--max-steps", |config| config.max_steps = Some(0)),
            ("--threads", |config| config.threads = Some(0)),
            ("--threads", |config| config.threads = Some(100_000)),
            ("--lr", |config| config.learning_rate = f64::NAN),
            ("--lr", |config| config.learning_rate = -1.0),
            ("--clip-norm", |config| config.clip_norm = Some(0.0)),
            ("--backbone-lr", |config| config.backbone_lr = 1.5),
            ("--freeze-backbone", |config| config.freeze_backbone = true),
            ("--new-head", |config| config.new_head = true),
            ("--normalisation", |config| {
                config.normalisation = Some(Normalisation::Custom {
                    mean: vec![0.5, 0.5],
                    deviation: vec![0.5, 0.5],
                });
            }),
            ("norm_epsilon", |config| config.norm_epsilon = Some(-1.0)),
            ("--backbone-lr", |config| {
                config.freeze_backbone = true;
                config.backbone_lr = 0.1;
            }),
            ("--schedule", |config| {
                config.schedule = ScheduleChoice::Cosine { minimum: 1.0 };
            }),
            ("--sync-batch-norm", |config| config.sync_batch_norm = true),
            ("--warm-up", |config| config.warm_up = 11.0),
            ("--warm-up-start", |config| config.warm_up_start = f64::NAN),
            ("--accumulate", |config| config.accumulate = 0),
            ("--early-stopping", |config| config.early_stopping = Some(0)),
            ("--checkpoint-steps", |config| {
                config.checkpoint_steps = Some(0)
            }),
            ("--keep-checkpoints", |config| config.keep_checkpoints = 0),
            ("--in-channels", |config| config.in_channels = 2),
        ];
        for (option, change) in cases {
            let mut config = TrainConfig::default();
            config.check().unwrap();
            change(&mut config);
            let error = config.check().unwrap_err().to_string();
            assert!(error.starts_with(option), "{error}");
        }
    }
}
