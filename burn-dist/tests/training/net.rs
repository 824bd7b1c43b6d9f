//! A model of two linear layers, its rows of data and the loaders of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::data::dataloader::{DataLoader, DataLoaderBuilder, batcher::Batcher};
use burn::data::dataset::InMemDataset;
use burn::module::Module;
use burn::nn::{BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Linear, LinearConfig};
use burn::tensor::{Device, ExecutionError, Tensor, activation::relu};
use burn::train::metric::{Adaptor, ItemLazy, LossInput};
use burn::train::{InferenceStep, TrainOutput, TrainStep};
use burn_dist::train::{StepInput, StepOutput};

#[derive(Module, Debug)]
pub struct Net {
    pub first: Linear,
    pub norm: BatchNorm,
    pub dropout: Dropout,
    pub second: Linear,
}

#[derive(Clone, Debug)]
pub struct Rows {
    pub inputs: Tensor<2>,
    pub targets: Tensor<2>,
    pub names: Vec<String>,
}

#[derive(Debug)]
pub struct Output {
    pub loss: Tensor<1>,
    pub names: Vec<String>,
}

impl Net {
    pub fn new(device: &Device) -> Self {
        Self::with_dropout(0.0, device)
    }

    pub fn with_dropout(probability: f64, device: &Device) -> Self {
        device.seed(11);
        let net = Self {
            first: LinearConfig::new(4, 16).init(device),
            norm: BatchNormConfig::new(16).init(device),
            dropout: DropoutConfig::new(probability).init(),
            second: LinearConfig::new(16, 1).init(device),
        };
        // Burn draws weights at their first use, and tests use them in different orders.
        for layer in [&net.first, &net.second] {
            layer.weight.val();
            layer.bias.as_ref().map(|bias| bias.val());
        }
        net
    }

    pub fn run(&self, rows: Rows) -> Output {
        let hidden = relu(self.norm.forward(self.first.forward(rows.inputs)));
        let hidden = self.dropout.forward(hidden);
        let error = self.second.forward(hidden) - rows.targets;
        Output {
            loss: error.powi_scalar(2).mean(),
            names: rows.names,
        }
    }
}

impl TrainStep for Net {
    type Input = Rows;
    type Output = Output;

    fn step(&self, rows: Rows) -> TrainOutput<Output> {
        let output = self.run(rows);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl InferenceStep for Net {
    type Input = Rows;
    type Output = Output;

    fn step(&self, rows: Rows) -> Output {
        self.run(rows)
    }
}

impl StepInput for Rows {
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
        self.names.join(", ")
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

#[derive(Clone, Debug)]
pub struct Row {
    pub name: String,
    pub values: [f32; 5],
}

pub struct Batches;

impl Batcher<Row, Rows> for Batches {
    fn batch(&self, rows: Vec<Row>, device: &Device) -> Rows {
        let values: Vec<f32> = rows.iter().flat_map(|row| row.values).collect();
        let all = Tensor::<1>::from_floats(values.as_slice(), device).reshape([rows.len(), 5]);
        Rows {
            inputs: all.clone().narrow(1, 0, 4),
            targets: all.narrow(1, 4, 1),
            names: rows.into_iter().map(|row| row.name).collect(),
        }
    }
}

pub fn rows(count: usize) -> Vec<Row> {
    (0..count)
        .map(|row| Row {
            name: format!("row-{row}"),
            values: std::array::from_fn(|column| ((row * 5 + column) as f32 * 0.7).sin()),
        })
        .collect()
}

pub fn loader(rows: Vec<Row>) -> Arc<dyn DataLoader<Rows>> {
    loader_of(rows, 8, None)
}

/// Burn's own loader; shuffled anew in each epoch if there is a seed.
pub fn loader_of(rows: Vec<Row>, batch: usize, seed: Option<u64>) -> Arc<dyn DataLoader<Rows>> {
    let builder = DataLoaderBuilder::new(Batches).batch_size(batch);
    let builder = match seed {
        Some(seed) => builder.shuffle(seed),
        None => builder,
    };
    builder.build(InMemDataset::new(rows))
}

/// Flex has one generator for the whole process: a test that trains beside another would draw the
/// other's numbers.
pub fn alone() -> MutexGuard<'static, ()> {
    static GENERATOR: Mutex<()> = Mutex::new(());
    GENERATOR.lock().unwrap_or_else(PoisonError::into_inner)
}
