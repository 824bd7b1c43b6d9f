//! A model with its data for the training loop.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use burn::data::dataloader::{DataLoader, batcher::Batcher};
use burn::data::dataset::InMemDataset;
use burn::module::Module;
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig};
use burn::tensor::activation::relu;
use burn::tensor::{DType, Device, ExecutionError, Tensor};
use burn::train::metric::{Adaptor, ItemLazy, LossInput};
use burn::train::{InferenceStep, TrainOutput, TrainStep};
use burn_dist::distributed::DataParallelConfig;
use burn_dist::optimizer::Adam;
use burn_dist::train::{
    EpochClock, EpochSummary, LearningRate, Observer, Plateau, Schedule, Shard, ShardedLoader,
    Snapshot, Snapshots, StepInput, StepOutput, Stop, TrainError, Trained, Training, Uneven,
};
use burn_dist_core::World;
use serde_json::{Value, json};

use crate::kills::passes;
use crate::models::{INPUTS, fill, rows};

const SEED: u64 = 5;
pub const TRAINING: usize = 53;
pub const VALIDATION: usize = 21;

#[derive(Module, Debug)]
pub struct Trainee {
    first: Linear,
    norm: Option<BatchNorm>,
    second: Linear,
}

impl Trainee {
    pub fn new(normed: bool) -> Self {
        let device = Device::flex();
        let model = Self {
            first: LinearConfig::new(INPUTS, 16).init(&device),
            norm: None,
            second: LinearConfig::new(16, 1).init(&device),
        };
        let norm = normed.then(|| BatchNormConfig::new(16).init(&device));
        Self {
            norm,
            ..fill(model, DType::F32)
        }
    }

    fn run(&self, batch: Batch) -> Output {
        let wanted = batch.rows.clone().sum_dim(1).sin();
        let mut hidden = self.first.forward(batch.rows);
        if let Some(norm) = &self.norm {
            hidden = norm.forward(hidden);
        }
        let error = self.second.forward(relu(hidden)) - wanted;
        Output {
            loss: error.square().mean(),
            names: batch.names,
        }
    }
}

impl TrainStep for Trainee {
    type Input = Batch;
    type Output = Output;

    fn step(&self, batch: Batch) -> TrainOutput<Output> {
        let output = self.run(batch);
        passes("forward");
        let gradients = output.loss.backward();
        passes("backward");
        TrainOutput::new(self, gradients, output)
    }
}

impl InferenceStep for Trainee {
    type Input = Batch;
    type Output = Output;

    fn step(&self, batch: Batch) -> Output {
        self.run(batch)
    }
}

#[derive(Clone, Debug)]
pub struct Batch {
    rows: Tensor<2>,
    names: Vec<usize>,
}

#[derive(Debug)]
pub struct Output {
    loss: Tensor<1>,
    pub names: Vec<usize>,
}

impl StepInput for Batch {
    fn samples(&self) -> usize {
        self.names.len()
    }
}

impl StepOutput for Output {
    fn loss(&self) -> Tensor<1> {
        self.loss.clone()
    }

    fn samples(&self) -> usize {
        self.names.len()
    }

    fn names(&self) -> String {
        format!("{:?}", self.names)
    }
}

impl ItemLazy for Output {
    fn sync(self) -> Result<Self, ExecutionError> {
        Ok(Self {
            loss: self.loss.without_autodiff(),
            ..self
        })
    }
}

impl Adaptor<LossInput> for Output {
    fn adapt(&self) -> LossInput {
        LossInput::new(self.loss.clone())
    }
}

/// Rows by number; one is not a number, if it is to be.
struct Batches {
    bad: Option<usize>,
}

impl Batcher<usize, Batch> for Batches {
    fn batch(&self, names: Vec<usize>, device: &Device) -> Batch {
        let row = |name: &usize| {
            let row = rows(*name, 1, device, DType::F32);
            match self.bad == Some(*name) {
                true => row * f32::NAN,
                false => row,
            }
        };
        Batch {
            rows: Tensor::cat(names.iter().map(row).collect(), 0),
            names,
        }
    }
}

/// What a run is to be.
#[derive(Clone, Debug)]
pub struct Case {
    pub batch_size: usize,
    pub accumulation: usize,
    pub normed: bool,
    pub uneven: Uneven,
    pub overlaps: bool,
    pub epochs: usize,
    pub patience: Option<usize>,
    pub learning_rate: f64,
    pub bad: Option<usize>,
}

impl Case {
    pub fn of(batch_size: usize) -> Self {
        Self {
            batch_size,
            accumulation: 1,
            normed: false,
            uneven: Uneven::Join,
            overlaps: true,
            epochs: 3,
            patience: None,
            learning_rate: 1e-2,
            bad: None,
        }
    }

    /// Trains on this rank of `world`.
    pub fn train(
        &self,
        world: &Arc<World>,
        folder: &Path,
        resume: Option<Snapshot>,
        journal: Journal,
    ) -> Result<Trained<Trainee>, TrainError> {
        let (clock, stop) = (EpochClock::default(), Stop::new());
        let loader = |first: usize, count: usize| {
            let dataset = InMemDataset::new((first..first + count).collect());
            let shard = Shard::new(world.rank(), world.size(), self.batch_size);
            let shard = match first {
                0 => shard.uneven(self.uneven),
                _ => shard,
            };
            let batches = Batches { bad: self.bad };
            ShardedLoader::new(dataset, batches, shard, &Device::flex())
        };
        let training: Arc<dyn DataLoader<Batch>> =
            Arc::new(loader(0, TRAINING).shuffled(SEED, clock.clone()));
        let plateau = Schedule::Plateau(Plateau::new(0.5, 0));
        *journal.stop.lock().unwrap() = Some(stop.clone());
        Training::new(folder, Device::flex())
            .epochs(self.epochs)
            .patience(self.patience)
            .learning_rate(LearningRate::new(self.learning_rate).schedule(plateau))
            .accumulation(self.accumulation)
            .clip_norm(Some(0.5))
            .seed(SEED)
            .snapshots(snapshots(folder))
            .resume(resume)
            .clock(clock)
            .stop(stop)
            .distributed(
                world,
                DataParallelConfig::new()
                    .bucket_bytes(100)
                    .overlaps(self.overlaps)
                    .check_every(2),
            )
            .launch(
                Trainee::new(self.normed).train(),
                Adam::default().into(),
                training,
                Arc::new(loader(1_000, VALIDATION)),
                journal,
            )
    }
}

pub fn snapshots(folder: &Path) -> Snapshots {
    Snapshots::new(folder.join("snapshots")).every(std::num::NonZeroUsize::new(2))
}

/// Notes what it is told; asks the run to stop in an epoch, if it is to.
#[derive(Clone, Default)]
pub struct Journal {
    /// Rows validated since the last epoch.
    validated: Vec<usize>,
    /// Of all replicas, an epoch after the other.
    pub epochs: Arc<Mutex<Vec<Vec<usize>>>>,
    stop_in_validation: Option<usize>,
    seen: usize,
    stop: Arc<Mutex<Option<Stop>>>,
}

impl Journal {
    /// Asks to stop when it has seen so many batches of validation.
    pub fn stopping(batches: usize) -> Self {
        Self {
            stop_in_validation: Some(batches),
            ..Self::default()
        }
    }
}

impl Observer<Trainee> for Journal {
    fn validated(&mut self, output: &Output) -> Result<(), String> {
        self.validated.extend(&output.names);
        self.seen += 1;
        if self.stop_in_validation == Some(self.seen) {
            self.stop.lock().unwrap().as_ref().unwrap().request();
        }
        Ok(())
    }

    fn epoch_ended(&mut self, _: &EpochSummary, _: &Trainee) -> Result<(), String> {
        let mut validated = std::mem::take(&mut self.validated);
        let unique: BTreeSet<usize> = validated.iter().copied().collect();
        assert_eq!(unique.len(), validated.len(), "a row was validated twice");
        validated.sort_unstable();
        self.epochs.lock().unwrap().push(validated);
        Ok(())
    }

    fn share(&mut self) -> Result<Vec<u8>, String> {
        passes("share");
        serde_json::to_vec(&std::mem::take(&mut self.validated)).map_err(|e| e.to_string())
    }

    fn merge(&mut self, shared: Vec<Vec<u8>>) -> Result<(), String> {
        for part in shared {
            let part: Vec<usize> = serde_json::from_slice(&part).map_err(|e| e.to_string())?;
            self.validated.extend(part);
        }
        Ok(())
    }

    fn state(&self) -> Value {
        passes("state");
        json!(*self.epochs.lock().unwrap())
    }

    fn resume(&mut self, state: &Value, _: Option<f64>) -> Result<(), String> {
        let epochs = serde_json::from_value(state.clone());
        *self.epochs.lock().unwrap() = epochs.map_err(|e| e.to_string())?;
        Ok(())
    }
}
