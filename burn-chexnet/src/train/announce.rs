//! What a run says of itself before it begins, and the learning rate that follows from its data and its ranks.

use burn_dist::progress::write_line;
use burn_dist::train::{LearningRate, Uneven, WarmUp};

use super::results::SideCounts;
use super::run::Run;
use crate::model::{Classifier, parameter_count};

impl Run<'_> {
    /// The learning rate over the steps of the run, which the configuration has in epochs.
    pub(super) fn learning_rate(&self) -> LearningRate {
        let config = self.config;
        let images = self.counts().training;
        let together = config.batch_size * self.ranks.count();
        let batches = match config.uneven {
            Uneven::Drop => (images / together).max(1),
            Uneven::Join | Uneven::Pad => images.div_ceil(together),
        };
        let epoch = batches.div_ceil(config.accumulate);
        let run = epoch.saturating_mul(config.epochs);
        let run = config.max_steps.map_or(run, |most| most.min(run));
        let warm_up = (config.warm_up * epoch as f64).round() as usize;
        let schedule = config
            .schedule
            .schedule(epoch, run.saturating_sub(warm_up).max(1));
        let rate = LearningRate::new(self.full_rate()).schedule(schedule);
        match warm_up {
            0 => rate,
            steps => rate.warm_up(WarmUp {
                steps,
                start: config.warm_up_start,
            }),
        }
    }

    /// The learning rate behind the warm-up.
    fn full_rate(&self) -> f64 {
        let factor = match self.config.scale_lr {
            true => self.ranks.count() as f64,
            false => 1.0,
        };
        factor * self.config.learning_rate
    }

    fn announce_ranks(&self) {
        let (config, count) = (self.config, self.ranks.count());
        if count == 1 {
            return;
        }
        let scaled = match config.scale_lr {
            true => format!(" × {count} = {}", self.full_rate()),
            false => String::new(),
        };
        write_line(&format!(
            "{count} ranks × {} images × {} batches = {} images a step, learning rate {}{scaled}",
            config.batch_size,
            config.accumulate,
            count * config.batch_size * config.accumulate,
            config.learning_rate,
        ));
        if config.scale_lr && config.warm_up == 0.0 {
            write_line(
                "warning: the scaled learning rate is there from the first step on: give --warm-up EPOCHS",
            );
        }
    }

    pub(super) fn announce<C: Classifier>(&self, network: &C) {
        let SideCounts {
            training,
            validation,
            test,
        } = self.counts();
        write_line(&format!(
            "{} ({} parameters, {} labels) at {} pixels on {training} training, {validation} validation and {test} test images of {}",
            self.config.model,
            parameter_count(network),
            self.data.dataset().labels().len(),
            self.config.image_size,
            self.data.dataset().tables(),
        ));
        self.announce_ranks();
        if !self.data.unknown_labels().is_empty() {
            write_line(&format!(
                "labels that are not known (uncertain ones in validation and test are always ignored):\n{}",
                self.data.unknown_labels()
            ));
        }
        let one_sided = self.data.one_sided_labels();
        if !one_sided.is_empty() {
            write_line(&format!(
                "warning: without both positive and negative training images nothing can be learned of {} (are its negatives blank? then give --blank zeros)",
                one_sided.join(", ")
            ));
        }
    }
}
