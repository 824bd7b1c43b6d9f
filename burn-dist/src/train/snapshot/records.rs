//! Model and optimiser of a learner as bytes (burnpack), and back, every tensor accounted for:
//! Burn's own loading leaves as it was what it cannot match.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use burn::optim::OptimizerRecord;
use burn::store::ModuleRecord;
use burn::store::burn_pack::{Bytes, Reader};
use burn::train::checkpoint::{
    AsyncCheckpointer, Checkpoint, Checkpointer, CheckpointerError, CheckpointingAction,
    CheckpointingStrategy,
};
use burn::train::metric::store::EventStoreClient;
use burn::train::{Learner, LearnerModel, LearningCheckpointer};

use super::{Snapshot, SnapshotError};

/// Takes the records of a learner. burn-train keeps its optimiser to itself and hands the record to
/// checkpointers only, so one of them listens.
pub(in crate::train) struct LearnerRecords<M: LearnerModel> {
    checkpointer: LearningCheckpointer<M>,
    optimizer: Receiver<OptimizerRecord>,
}

/// A checkpointer that passes on what it is to save.
struct Listener(SyncSender<OptimizerRecord>);

/// A checkpointer of what the snapshot has from elsewhere.
struct Ignored;

/// Saves whenever it is asked.
struct Always;

impl<M: LearnerModel> LearnerRecords<M> {
    pub fn new() -> Self {
        let (sender, optimizer) = sync_channel(1);
        Self {
            checkpointer: LearningCheckpointer::new(
                AsyncCheckpointer::new(Ignored),
                AsyncCheckpointer::new(Listener(sender)),
                AsyncCheckpointer::new(Ignored),
                Box::new(Always),
            ),
            optimizer,
        }
    }

    /// Model and optimiser of `learner`.
    pub fn take(
        &mut self,
        learner: &Learner<M>,
        events: &EventStoreClient,
    ) -> Result<(Vec<u8>, Vec<u8>), String> {
        // A model in training holds back the newest running statistics; its validation copy does not.
        let model = learner.model().valid().into_record().into_bytes();
        self.checkpointer.checkpoint(learner, 0, events);
        let optimizer = self.optimizer.recv().map_err(|e| e.to_string())?;
        let optimizer = optimizer.into_bytes();
        let bytes = |bytes: &Bytes| bytes.to_vec();
        Ok((
            bytes(&model.map_err(|e| e.to_string())?),
            bytes(&optimizer.map_err(|e| e.to_string())?),
        ))
    }

    /// Puts the model and the optimiser of `snapshot` into `learner`.
    ///
    /// # Errors
    ///
    /// If any tensor has no counterpart, on either side, or another shape or type.
    pub fn restore(
        &mut self,
        snapshot: &Snapshot,
        learner: &mut Learner<M>,
        events: &EventStoreClient,
    ) -> Result<(), SnapshotError> {
        let mismatch = |reason: String| SnapshotError::Mismatch {
            path: snapshot.path().to_path_buf(),
            reason,
        };
        let (model, _) = self.take(learner, events).map_err(mismatch)?;
        let wanted = Contents::of(&model).map_err(mismatch)?;
        let model = Contents::of(&snapshot.model).map_err(mismatch)?;
        model.ensure_equal(&wanted, "model").map_err(mismatch)?;
        let optimizer = Contents::of(&snapshot.optimizer).map_err(mismatch)?;
        optimizer.ensure_states_of(&model).map_err(mismatch)?;

        let record = ModuleRecord::from_bytes(Bytes::from_bytes_vec(snapshot.model.clone()));
        learner.load_model(record.map_err(|e| mismatch(e.to_string()))?);
        let record = OptimizerRecord::from_bytes(Bytes::from_bytes_vec(snapshot.optimizer.clone()));
        learner.load_optim(record.map_err(|e| mismatch(e.to_string()))?);
        // A state that the optimiser cannot read is dropped in silence: ask what it has now.
        let (_, loaded) = self.take(learner, events).map_err(mismatch)?;
        let loaded = Contents::of(&loaded).map_err(mismatch)?;
        optimizer
            .ensure_equal(&loaded, "optimiser")
            .map_err(mismatch)
    }
}

/// What a burnpack holds, without the numbers.
struct Contents {
    /// Shape and type of each tensor.
    entries: BTreeMap<String, String>,
    /// The parameters that the tensors belong to.
    parameters: Vec<Option<u64>>,
}

impl Contents {
    fn of(bytes: &[u8]) -> Result<Self, String> {
        let reader = Reader::from_bytes(Bytes::from_bytes_vec(bytes.to_vec()));
        let reader = reader.map_err(|e| e.to_string())?;
        let mut entries: BTreeMap<String, String> = reader
            .scalars()
            .iter()
            .map(|(name, value)| (name.clone(), format!("{value:?}")))
            .collect();
        let mut parameters = Vec::new();
        for tensor in reader.into_tensors().map_err(|e| e.to_string())? {
            let kind = format!("{:?} of {:?}", tensor.shape.as_slice(), tensor.dtype);
            parameters.push(tensor.param_id);
            entries.insert(tensor.name, kind);
        }
        Ok(Self {
            entries,
            parameters,
        })
    }

    /// Compares what the snapshot has with what the learner has.
    fn ensure_equal(&self, learner: &Self, what: &str) -> Result<(), String> {
        let names = self.entries.keys().chain(learner.entries.keys());
        for name in names {
            let (there, here) = (self.entries.get(name), learner.entries.get(name));
            if there != here {
                let value = |entry: Option<&String>| match entry {
                    Some(entry) => entry.clone(),
                    None => "nothing".to_string(),
                };
                return Err(format!(
                    "its {what} has {} entries, this run's {}; the first difference is {name}: {} there, {} here",
                    self.entries.len(),
                    learner.entries.len(),
                    value(there),
                    value(here)
                ));
            }
        }
        Ok(())
    }

    /// Every state of an optimiser has to belong to a parameter of the model.
    fn ensure_states_of(&self, model: &Self) -> Result<(), String> {
        let stray = self
            .parameters
            .iter()
            .filter(|parameter| !model.parameters.contains(parameter))
            .count();
        match stray {
            0 => Ok(()),
            stray => Err(format!(
                "{stray} states of its optimiser belong to no parameter of its model"
            )),
        }
    }
}

impl Checkpointer<OptimizerRecord> for Listener {
    fn save(&self, _: usize, record: OptimizerRecord) -> Result<(), CheckpointerError> {
        let sent = self.0.send(record);
        sent.map_err(|error| CheckpointerError::Unknown(error.to_string()))
    }

    fn delete(&self, _: usize) -> Result<(), CheckpointerError> {
        Ok(())
    }

    fn restore(&self, _: usize) -> Result<OptimizerRecord, CheckpointerError> {
        Err(nothing_saved())
    }
}

impl<R: Checkpoint> Checkpointer<R> for Ignored {
    fn save(&self, _: usize, _: R) -> Result<(), CheckpointerError> {
        Ok(())
    }

    fn delete(&self, _: usize) -> Result<(), CheckpointerError> {
        Ok(())
    }

    fn restore(&self, _: usize) -> Result<R, CheckpointerError> {
        Err(nothing_saved())
    }
}

fn nothing_saved() -> CheckpointerError {
    CheckpointerError::Unknown("nothing is saved here".to_string())
}

impl CheckpointingStrategy for Always {
    fn checkpointing(&mut self, _: usize, _: &EventStoreClient) -> Vec<CheckpointingAction> {
        vec![CheckpointingAction::Save]
    }
}
