//! Trains a small network on several processes, by burn-train's loop or by one of its own.
//!
//! ```text
//! cargo run -p burn-dist --example distributed_mlp -- --nproc 2
//! cargo run -p burn-dist --example distributed_mlp -- --nproc 2 --by-hand
//! ```
//!
//! It does the same under `burn-dist launch -n 2 --`, mpirun, srun, torchrun and in an indexed job of Kubernetes, without
//! `--nproc`.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use burn::data::dataloader::{DataLoader, batcher::Batcher};
use burn::data::dataset::InMemDataset;
use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Tensor, activation::relu};
use burn::train::{InferenceStep, RegressionOutput, TrainOutput, TrainStep};
use burn_dist::distributed::{Contribution, DataParallel, DataParallelConfig, Vote};
use burn_dist::optimizer::Adam;
use burn_dist::start::{Started, start};
use burn_dist::train::{
    EpochClock, EpochSummary, Observer, Shard, ShardedLoader, StepInput, Training,
};
use burn_dist_core::World;
use clap::Parser;

#[path = "../core/src/bin/burn-dist/options.rs"]
mod options;

const EPOCHS: usize = 3;
const BATCH_SIZE: usize = 32;
const TRAINING: std::ops::Range<usize> = 0..2_000;
const VALIDATION: std::ops::Range<usize> = 2_000..2_400;

/// Train a small network on several processes.
#[derive(Parser)]
struct Arguments {
    /// Processes on this host; under another launcher leave it out [default: 1]
    #[arg(long, value_name = "N")]
    nproc: Option<usize>,
    /// Train by a loop of this example, not by burn-train's
    #[arg(long)]
    by_hand: bool,
}

fn main() -> ExitCode {
    let arguments: Arguments = match options::parse(|_| None) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    run(&arguments).unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let by_hand = ("by_hand".to_owned(), arguments.by_hand.to_string());
    let world = match start("--nproc", arguments.nproc, vec![by_hand])? {
        Started::Launcher(code) => return Ok(code),
        Started::Rank(world) => world,
    };
    // One process alone is a world of one.
    let world = world.map_or_else(|| World::init().map(Arc::new), Ok)?;
    match arguments.by_hand {
        true => by_hand_written_loop(&world)?,
        false => by_burn_train(&world)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// burn-train's `SupervisedTraining`, with progress, metrics and the end of each epoch on rank 0.
fn by_burn_train(world: &Arc<World>) -> Result<(), Box<dyn Error>> {
    let (device, clock) = (Device::flex(), EpochClock::default());
    let trained = Training::new(std::env::temp_dir().join("distributed_mlp"), device.clone())
        .epochs(EPOCHS)
        .learning_rate(1e-2)
        .clock(clock.clone())
        .distributed(world, DataParallelConfig::new())
        .launch(
            Mlp::new(&device).train(),
            Adam::default().into(),
            Arc::new(loader(TRAINING, world, &device).shuffled(0, clock)),
            Arc::new(loader(VALIDATION, world, &device)),
            Nothing,
        )?;
    if world.rank() == 0 {
        let last = trained.epochs.last().map(|epoch| epoch.validation_loss);
        println!("validation loss {:.4}", last.unwrap_or(f64::NAN));
    }
    Ok(())
}

/// The same by hand: gradients are reduced while the backward pass runs.
fn by_hand_written_loop(world: &Arc<World>) -> Result<(), Box<dyn Error>> {
    let (device, clock) = (Device::flex().autodiff(), EpochClock::default());
    let config = DataParallelConfig::new();
    let (parallel, mut model) = DataParallel::new(world, Mlp::new(&device).train(), config)?;
    let mut optimizer = ModuleOptimizer::from(Adam::default());
    let training = loader(TRAINING, world, &device).shuffled(0, clock);
    // As many on all ranks: one that has no batch left takes part with nothing.
    let steps = TRAINING.len().div_ceil(BATCH_SIZE * world.size());
    for epoch in 1..=EPOCHS {
        let mut batches = training.iter();
        for _ in 0..steps {
            let contribution = match batches.next().transpose()? {
                None => Some(Contribution::nothing()),
                Some(batch) if parallel.overlaps() => {
                    let own = Contribution::batch(batch.samples());
                    let gated = parallel.gate(&model, own)?;
                    gated.regress(batch).loss.backward();
                    None
                }
                Some(batch) => {
                    let samples = batch.samples();
                    let gradients = model.regress(batch).loss.backward();
                    let gradients = GradientsParams::from_grads(gradients, &model);
                    Some(Contribution::gradients(gradients, samples))
                }
            };
            let reduced = parallel.reduce(&model, contribution, Vote::default())?;
            model = optimizer.step(1e-2, model, reduced.gradients);
        }
        let mut sums = [0.0, 0.0];
        for batch in loader(VALIDATION, world, &device).iter() {
            let batch = batch?;
            let samples = batch.samples() as f64;
            let loss = model.valid().regress(batch).loss.try_into_scalar::<f64>()?;
            sums[0] += loss * samples;
            sums[1] += samples;
        }
        world.all_reduce(&mut sums, burn_dist_core::collective::Reduction::Sum)?;
        if world.rank() == 0 {
            println!("epoch {epoch}: validation loss {:.4}", sums[0] / sums[1]);
        }
    }
    Ok(())
}

#[derive(Module, Debug)]
struct Mlp {
    hidden: Linear,
    output: Linear,
}

impl Mlp {
    fn new(device: &Device) -> Self {
        Self {
            hidden: LinearConfig::new(2, 64).init(device),
            output: LinearConfig::new(64, 1).init(device),
        }
    }

    fn regress(&self, batch: Batch) -> RegressionOutput {
        let output = self.output.forward(relu(self.hidden.forward(batch.inputs)));
        let loss = (output.clone() - batch.targets.clone()).square().mean();
        RegressionOutput::new(loss, output, batch.targets)
    }
}

/// Inputs `[batch, 2]` and targets `[batch, 1]`.
#[derive(Clone, Debug)]
struct Batch {
    inputs: Tensor<2>,
    targets: Tensor<2>,
}

/// Makes the samples of a batch from their numbers: points of a square, and the sine of their distance from its middle.
struct Points;

impl Batcher<usize, Batch> for Points {
    fn batch(&self, numbers: Vec<usize>, device: &Device) -> Batch {
        let points = numbers.iter().flat_map(|number| {
            let place = |step: f32| (*number as f32 * step).fract() * 2.0 - 1.0;
            [place(0.618_034), place(0.754_878)]
        });
        let points: Vec<f32> = points.collect();
        let inputs = Tensor::<1>::from_floats(points.as_slice(), device);
        let inputs = inputs.reshape([numbers.len(), 2]);
        let targets = (inputs.clone().square().sum_dim(1).sqrt() * 3.0).sin();
        Batch { inputs, targets }
    }
}

/// This rank's part of samples.
fn loader(
    samples: std::ops::Range<usize>,
    world: &World,
    device: &Device,
) -> ShardedLoader<usize, Batch> {
    let shard = Shard::new(world.rank(), world.size(), BATCH_SIZE);
    ShardedLoader::new(InMemDataset::new(samples.collect()), Points, shard, device)
}

impl StepInput for Batch {
    fn samples(&self) -> usize {
        self.inputs.dims()[0]
    }
}

impl TrainStep for Mlp {
    type Input = Batch;
    type Output = RegressionOutput;

    fn step(&self, batch: Batch) -> TrainOutput<RegressionOutput> {
        let output = InferenceStep::step(self, batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl InferenceStep for Mlp {
    type Input = Batch;
    type Output = RegressionOutput;

    fn step(&self, batch: Batch) -> RegressionOutput {
        self.regress(batch)
    }
}

/// Keeps nothing.
struct Nothing;

impl Observer<Mlp> for Nothing {
    fn validated(&mut self, _: &RegressionOutput) -> Result<(), String> {
        Ok(())
    }

    fn epoch_ended(&mut self, _: &EpochSummary, _: &Mlp) -> Result<(), String> {
        Ok(())
    }
}
