//! A rank that measures its steps.

use std::sync::Arc;
use std::time::Instant;

use burn::module::Module;
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Distribution, Tensor};
use burn_chexnet::loss::{BinaryCrossEntropy, Reduction as LossReduction};
use burn_chexnet::model::{Classifier, DenseNet, DenseNetConfig};
use burn_dist::distributed::{Contribution, DataParallel, DataParallelConfig, Vote};
use burn_dist::optimizer::Adam;
use burn_dist_core::World;
use burn_dist_core::collective::Reduction;

use crate::report::Spread;
use crate::{Result, Times};

pub const IMAGE_SIZE: &str = "CHEXNET_OVERLAP_IMAGE_SIZE";
pub const BATCH_SIZE: &str = "CHEXNET_OVERLAP_BATCH_SIZE";

/// Steps of each kind that are measured, and before.
const STEPS: usize = 5;
const WARM_UP: usize = 2;

/// A model in training, alone or with others.
pub struct Steps {
    images: Tensor<4>,
    targets: Tensor<2>,
    loss: BinaryCrossEntropy,
    model: Option<DenseNet>,
    optimizer: ModuleOptimizer,
    parallel: DataParallel,
    world: Arc<World>,
}

impl Steps {
    pub fn new(image_size: usize, batch_size: usize) -> Result<Self> {
        let device = Device::flex().autodiff();
        let shape = [batch_size, 3, image_size, image_size];
        let world = Arc::new(World::init()?);
        let model = DenseNetConfig::densenet121().init(&device).train();
        let (parallel, model) = DataParallel::new(&world, model, DataParallelConfig::new())?;
        let mut steps = Self {
            images: Tensor::random(shape, Distribution::Default, &device),
            targets: Tensor::random([batch_size, 14], Distribution::Bernoulli(0.1), &device),
            loss: BinaryCrossEntropy::new(LossReduction::SumOverLabels),
            model: Some(model),
            optimizer: Adam::default().into(),
            parallel,
            world,
        };
        for _ in 0..WARM_UP {
            steps.take(true)?;
            steps.take(false)?;
        }
        Ok(steps)
    }

    fn forward(&self, model: &DenseNet) -> Tensor<1> {
        let logits = model.logits(self.images.clone());
        self.loss.forward(logits, self.targets.clone(), None)
    }

    fn model(&mut self) -> Result<DenseNet> {
        self.model.take().ok_or_else(|| "a step has failed".into())
    }

    fn update(&mut self, model: DenseNet, gradients: GradientsParams) {
        self.model = Some(self.optimizer.step(1e-4, model, gradients));
    }

    /// Seconds of a step: with gradients that are reduced during the backward pass, or of this rank alone.
    pub fn take(&mut self, hooked: bool) -> Result<f64> {
        let model = self.model()?;
        let began = Instant::now();
        let gradients = match hooked {
            true => {
                let batch = Contribution::batch(self.images.dims()[0]);
                let gated = self.parallel.gate(&model, batch)?;
                self.forward(&gated).backward();
                drop(gated);
                self.parallel
                    .reduce(&model, None, Vote::default())?
                    .gradients
            }
            false => GradientsParams::from_grads(self.forward(&model).backward(), &model),
        };
        self.update(model, gradients);
        Ok(began.elapsed().as_secs_f64())
    }

    /// Seconds of a step that computes first and communicates then, and of its parts: forward, backward, communication,
    /// optimiser.
    fn apart(&mut self) -> Result<[f64; 4]> {
        let model = self.model()?;
        let mut times = [0.0; 4];
        let mut began = Instant::now();
        let mut part = |index: usize| {
            times[index] = began.elapsed().as_secs_f64();
            began = Instant::now();
        };
        let loss = self.forward(&model);
        part(0);
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        part(1);
        let own = Contribution::gradients(gradients, self.images.dims()[0]);
        let reduced = self.parallel.reduce(&model, Some(own), Vote::default())?;
        part(2);
        self.update(model, reduced.gradients);
        part(3);
        Ok(times)
    }
}

/// Measures, if this process is a rank; whether it is.
pub fn run() -> Result<bool> {
    let (Ok(image_size), Ok(batch_size)) = (std::env::var(IMAGE_SIZE), std::env::var(BATCH_SIZE))
    else {
        return Ok(false);
    };
    let mut steps = Steps::new(image_size.parse()?, batch_size.parse()?)?;
    let world = steps.world.clone();
    let slowest = |seconds: f64| -> Result<f64> {
        let mut all = [seconds];
        world.all_reduce(&mut all, Reduction::Max)?;
        Ok(all[0])
    };
    let (mut apart, mut overlapped) = (Vec::new(), Vec::new());
    let mut parts = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..STEPS {
        world.barrier()?;
        let began = Instant::now();
        let times = steps.apart()?;
        apart.push(slowest(began.elapsed().as_secs_f64())?);
        for (part, seconds) in parts.iter_mut().zip(times) {
            // Whoever has waited has not communicated longer: the fastest of the parts that meet.
            part.push(seconds);
        }
        world.barrier()?;
        overlapped.push(slowest(steps.take(true)?)?);
    }
    let median = |figures: Vec<f64>| Spread::of(figures).map_or(f64::NAN, |spread| spread.median);
    let [forward, backward, communication, optimizer] = parts.map(median);
    let (forward, backward) = (slowest(forward)?, slowest(backward)?);
    let communication = -slowest(-communication)?;
    let model = steps.model()?;
    let times = Times {
        computation: forward + backward + slowest(optimizer)?,
        backward,
        communication,
        after: median(apart),
        overlapped: median(overlapped),
        bytes: 4 * burn_chexnet::model::parameter_count(&model) as u64,
    };
    if world.rank() == 0 {
        println!("\n{}", serde_json::to_string(&times)?);
    }
    Ok(true)
}
