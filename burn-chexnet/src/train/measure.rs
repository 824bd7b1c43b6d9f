//! The end of a run: its best weights on the test side, results and figures; or why there are none.

use std::collections::BTreeMap;
use std::time::Duration;

use burn::data::dataloader::DataLoader;
use burn_dist::distributed::from_main;
use burn_dist::progress::write_line;
use burn_dist::train::{EpochSummary, TrainError};
use chest_datasets::{BadImage, Side};

use super::figures::EpochPoint;
use super::recorder::EpochRecord;
use super::results::{SideCounts, by_name};
use super::resume::has_snapshot;
use super::run::Run;
use super::test_side::{predictions_of, roc_curves};
use super::{Order, Results, RunError, XrayLoader, cases, figures, output};
use crate::model::Classifier;
use crate::predictions::Predictions;
use crate::weights;

/// What training leaves for the end.
pub(super) struct TrainedRun<'a> {
    pub epochs: &'a [EpochSummary],
    /// The epoch of the lowest validation loss.
    pub best: &'a EpochSummary,
    /// Whether the validation loss no longer fell.
    pub stopped_early: bool,
    /// The epochs with what only this crate knows of them.
    pub history: &'a [EpochRecord],
    pub training: &'a XrayLoader,
    pub validation: &'a XrayLoader,
}

impl Run<'_> {
    /// Why training has failed: if a side has lost all its images, that is why.
    pub(super) fn explained(
        &self,
        error: TrainError,
        training: &XrayLoader,
        validation: &XrayLoader,
    ) -> RunError {
        // The run has lost a rank, and nothing that is in a snapshot.
        let goes_on = matches!(error, TrainError::Replica(_)) && self.ranks.is_main();
        if goes_on
            && let (Ok(true), Some(hint)) = (has_snapshot(self.config), self.control.stop.hint())
        {
            write_line(&hint);
        }
        let sides = [("training", training), ("validation", validation)];
        for (side, loader) in sides {
            // All ranks end with this together, each with images of its own that were left out.
            if matches!(error, TrainError::NoData { .. }) {
                match self.ranks.gather(loader.skipped()) {
                    Ok(all) => all
                        .into_iter()
                        .for_each(|of_rank| loader.recall(of_rank, Duration::ZERO)),
                    Err(lost) => return lost,
                }
            }
            if let Some(lost) = all_skipped(side, loader) {
                return lost;
            }
        }
        error.into()
    }

    /// Measures the best weights of the run, `network` being any of its kind: on all ranks together, with what came of it
    /// on the main one.
    pub(super) fn measure<C: Classifier>(
        &self,
        mut network: C,
        trained: &TrainedRun,
    ) -> Result<Option<Results>, RunError> {
        let best = self.config.output.join(output::BEST);
        self.ranks.main(|| Ok(weights::load(&mut network, best)?))?;
        if let Some(world) = self.ranks.world() {
            network = from_main(world, network).map_err(TrainError::from)?;
        }
        let test = self.loader(Side::Test, Order::Fixed)?;
        let own = self.ranks.all(|| predictions_of(&network, &test, "test"))?;
        let predictions = match self.ranks.count() {
            1 => own,
            _ => Predictions::gather(self.ranks.gather(own)?),
        };
        for skipped in self.ranks.gather(test.skipped())? {
            test.recall(skipped, Duration::ZERO);
        }
        self.ranks
            .main(|| self.results(&network, &predictions, &test, trained))
    }

    /// What the predictions of all test images come to.
    fn results<C: Classifier>(
        &self,
        network: &C,
        predictions: &Predictions,
        test: &XrayLoader,
        trained: &TrainedRun,
    ) -> Result<Results, RunError> {
        let output = &self.config.output;
        if let Some(lost) = all_skipped("test", test) {
            return Err(lost);
        }
        let evaluation = predictions.evaluate(self.data.dataset().labels().names())?;

        let TrainedRun {
            training,
            validation,
            ..
        } = trained;
        let epochs = trained.epochs.iter();
        let (samples, seconds) = epochs.fold((0, 0.0), |(n, s), epoch| {
            (n + epoch.samples, s + epoch.seconds)
        });
        let results = Results {
            mean_auroc: evaluation.mean_auroc,
            undefined: evaluation.undefined,
            labels: by_name(&evaluation),
            images_per_second: samples as f64 / f64::max(seconds, 1e-9),
            waited_for_images: training.waited().as_secs_f64() / f64::max(seconds, 1e-9),
            skipped: skipped(&[training, validation, test]),
            epochs: trained.epochs.len(),
            stopped_early: trained.stopped_early,
            best_epoch: trained.best.epoch,
            validation_loss: trained.best.validation_loss,
            images: SideCounts {
                training: training.num_decodable(),
                validation: validation.num_decodable(),
                test: test.num_decodable(),
            },
            data_digest: self.data.digest(),
            evaluation: Some(evaluation),
        };
        // Before the figures: one that cannot be drawn must not cost them.
        results.write(output.join(output::RESULTS))?;
        self.draw(&results, predictions, trained.history, network)?;
        Ok(results)
    }

    fn draw<C: Classifier>(
        &self,
        results: &Results,
        predictions: &Predictions,
        history: &[EpochRecord],
        network: &C,
    ) -> Result<(), RunError> {
        let folder = &self.config.output;
        let points: Vec<EpochPoint> = history.iter().map(EpochPoint::from).collect();
        figures::curves(&folder.join(output::CURVES), &points)?;
        if let Some(evaluation) = &results.evaluation {
            let curves = roc_curves(predictions, evaluation)?;
            figures::roc(&folder.join(output::ROC), &curves)?;
        }
        cases::draw(
            network,
            predictions,
            &self.source,
            self.data.split().test(),
            &self.preprocessing,
            &self.device,
            &folder.join(output::CASES),
        )
    }
}

/// What any of `loaders` left out.
fn skipped(loaders: &[&XrayLoader]) -> Vec<BadImage> {
    let skipped = loaders.iter().flat_map(|loader| loader.skipped());
    let by_row: BTreeMap<_, _> = skipped
        .map(|bad| ((bad.table.clone(), bad.row), bad))
        .collect();
    by_row.into_values().collect()
}

/// The error that every image of `loader` was left out; `None` while one can still be used.
pub(super) fn all_skipped(side: &'static str, loader: &XrayLoader) -> Option<RunError> {
    let first = loader.skipped().into_iter().next()?;
    (loader.num_decodable() == 0).then(|| RunError::AllSkipped {
        side,
        count: loader.num_items(),
        first,
    })
}
