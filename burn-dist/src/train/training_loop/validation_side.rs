//! The validation side of an epoch.

use std::sync::PoisonError;

use burn::train::{
    EventProcessorTraining, InferenceStep, LearnerEvent, LearnerModel, TrainStep, TrainingItem,
};

use super::super::snapshot::Totals;
use super::super::{StepInput, StepOutput, TrainError};
use super::{Run, TrainingLoop, event};

impl<M> TrainingLoop<M>
where
    M: LearnerModel,
    <M as TrainStep>::Input: StepInput,
    <M as TrainStep>::Output: StepOutput,
    <M as InferenceStep>::Output: StepOutput,
{
    /// The validation side of an epoch: mean loss by sample, and samples; `None` if it was asked to
    /// stop.
    pub(super) fn validate(
        &self,
        run: &mut Run<M>,
        epoch: usize,
    ) -> Result<Option<(f64, usize)>, TrainError> {
        let total = run.validation.num_items();
        self.start_split(run, epoch, false, total)?;
        self.replica.average_statistics(&run.learner.model())?;
        let model = run.learner.model().valid();
        let mut observer = self.observer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut totals = Totals::default();
        let mut batches = run.validation.iter();
        let mut batch = 0;
        let events = &mut run.components.event_processor;
        let mut stop = false;
        while let Some(item) = batches.next() {
            let item = item.map_err(|e| TrainError::Data(e.to_string()))?;
            batch += 1;
            let progress = batches.progress();
            let output = InferenceStep::step(&model, item);
            totals.add(&output, "validation", epoch, batch)?;
            observer.validated(&output).map_err(TrainError::Observer)?;
            let item = TrainingItem::new(output, progress, Some(batch), None);
            event(events.process_valid(LearnerEvent::ProcessedItem(item)))?;
            stop = run.components.interrupter.should_stop();
            if stop {
                break;
            }
        }
        drop(batches);
        event(events.process_valid(LearnerEvent::EndSplit(epoch)))?;
        // Replicas may have validated different numbers of batches: they agree once, at the end.
        if self.replica.agree(stop)? {
            return Ok(None);
        }
        self.share(&mut **observer)?;
        totals.mean(self.replica.as_ref(), "validation").map(Some)
    }
}
