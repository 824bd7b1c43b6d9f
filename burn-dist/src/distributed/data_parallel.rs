//! A model that is trained on several ranks.

use std::sync::Arc;

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use burn_dist_core::World;

use super::checksum::Checksums;
use super::hook::{Gates, is_served};
use super::layout::Layout;
use super::reducer::Reducer;
use super::tensors::{broadcast, mean_of_ranks, statistics, with_statistics};
use super::{DataParallelConfig, DistributedError, Weighting};

/// Trains a Burn model on all ranks of a [`World`], each with its own part of the data.
///
/// Parameters are the same on all ranks, to the last bit, from the start to the end; so are the steps of an optimiser
/// that is given the same gradients. Gradients become their mean over the samples of all ranks, added in the order of the
/// ranks: a run gives the same bits again.
///
/// A [`gate`](Self::gate)d copy hands its gradients over while the backward pass is still going on, in buckets of about
/// an eighth of the model, so that they travel meanwhile. A parameter that gets no gradient, on some ranks or on all, keeps
/// nobody waiting; a frozen one does not travel, and one that is used twice in the forward pass travels once.
///
/// Gradients of a GPU are copied to the memory of the host to travel, and back: twice their bytes over its bus a step,
/// and a wait for the device at each gradient. NCCL would take the place of the world in [`reduce`](Self::reduce).
///
/// ```no_run
/// # use std::sync::Arc;
/// # use burn::nn::{Linear, LinearConfig};
/// # use burn::optim::SgdConfig;
/// # use burn::tensor::{Device, Tensor};
/// # use burn_dist::distributed::{Contribution, DataParallel, DataParallelConfig, Vote};
/// # use burn_dist_core::World;
/// # fn batches(_rank: usize) -> Vec<Tensor<2>> { Vec::new() }
/// let world = Arc::new(World::init()?);
/// let device = Device::flex().autodiff();
/// let model = LinearConfig::new(4, 1).init(&device);
/// // From here on all ranks have the weights of rank 0.
/// let (parallel, mut model) = DataParallel::new(&world, model, DataParallelConfig::new())?;
/// let mut optimizer = SgdConfig::new().init();
/// for batch in batches(world.rank()) {
///     let gated = parallel.gate(&model, Contribution::batch(batch.dims()[0]))?;
///     gated.forward(batch).square().mean().backward();
///     let gradients = parallel.reduce(&model, None, Vote::default())?.gradients;
///     model = optimizer.step(1e-3, model, gradients);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DataParallel {
    world: Arc<World>,
    config: DataParallelConfig,
    layout: Arc<Layout>,
    reducer: Arc<Reducer>,
    /// Where the model has autodiff and there is something to overlap.
    gates: Option<Gates>,
    checksums: Checksums,
}

/// What a rank has for a step, beside what the backward pass of a gated model brings.
pub struct Contribution {
    gradients: GradientsParams,
    /// What the gradients of a gated model count.
    factor: f64,
    weight: usize,
}

impl Contribution {
    /// All that comes is from the gated model, of a batch of `weight` samples, or of what else its loss is a mean of.
    pub fn batch(weight: usize) -> Self {
        Self::before(GradientsParams::new(), 1.0, weight)
    }

    /// `gradients` of batches of `weight` samples together, their mean by sample; nothing comes from a gated model.
    pub fn gradients(gradients: GradientsParams, weight: usize) -> Self {
        Self::before(gradients, 0.0, weight)
    }

    /// `gradients` of earlier batches, to which those of the gated model are added `factor` times; `weight` samples of all
    /// batches together.
    pub fn before(gradients: GradientsParams, factor: f64, weight: usize) -> Self {
        Self {
            gradients,
            factor,
            weight,
        }
    }

    /// Of a rank that has no data for this step.
    pub fn nothing() -> Self {
        Self::before(GradientsParams::new(), 0.0, 0)
    }

    /// What a rank that has nobody beside it comes to in a step.
    pub fn alone(self, vote: Vote) -> Reduced {
        Reduced {
            gradients: self.gradients,
            stop: vote.stop,
            more: vote.more,
            has_data: self.weight > 0,
        }
    }
}

/// What a rank says in the reduction of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vote {
    /// It wants to stop.
    pub stop: bool,
    /// It has data for another step.
    pub more: bool,
}

/// What all ranks have come to in a step.
pub struct Reduced {
    /// The mean of their gradients, by parameter of the model that was given.
    pub gradients: GradientsParams,
    /// Whether any rank wants to stop.
    pub stop: bool,
    /// Whether any rank has data for another step: then all have to take part in it.
    pub more: bool,
    /// Whether any rank has had data. If none has, there are no gradients.
    pub has_data: bool,
}

/// `model` with all that it has on rank 0 of `world`, all ranks of which call this: to compute with it, and not to train
/// it.
///
/// # Errors
///
/// If models differ between ranks, or the operation fails on any.
pub fn from_main<M: Module>(world: &World, model: M) -> Result<M, DistributedError> {
    let layout = Layout::of(&model);
    layout.ensure_single()?;
    layout.ensure_same(world)?;
    broadcast(world, &layout, model)
}

impl DataParallel {
    /// Prepares `model` for training on all ranks of `world`, which all call it: the model with the parameters and running
    /// statistics that rank 0 has.
    ///
    /// # Errors
    ///
    /// If models or options differ between ranks (the first tensor that does, by its path), two fields of the model share
    /// a parameter, it wants [sums over ranks](DataParallelConfig::sums_over_ranks) where there are none, or an operation
    /// fails.
    pub fn new<M: Module>(
        world: &Arc<World>,
        model: M,
        config: DataParallelConfig,
    ) -> Result<(Self, M), DistributedError> {
        let layout = Layout::of(&model);
        layout.ensure_single()?;
        let unserved = layout.device.as_ref().filter(|device| !is_served(device));
        if let Some(device) = unserved.filter(|_| config.sums.is_some()) {
            return Err(DistributedError::Option(format!(
                "sums over ranks within a model are for Burn's backend Flex, and rank {} has the model on {device:?}: leave synchronised batch normalisation out there",
                world.rank()
            )));
        }
        layout.ensure_same(world)?;
        config.ensure_same(world)?;
        let model = broadcast(world, &layout, model)?;
        let layout = Arc::new(layout);
        let reducer = Reducer::new(world.clone(), layout.clone(), config.clone())?;
        let reducer = Arc::new(reducer);
        let device = layout.device.as_ref();
        let device =
            device.filter(|device| device.is_autodiff() && config.gates() && is_served(device));
        let gates = device.map(|device| {
            let reducer = reducer.clone();
            Gates::new(device, move |id, gradient| reducer.take(id, gradient))
        });
        let parallel = Self {
            world: world.clone(),
            checksums: Checksums::every(config.check_every),
            config,
            layout,
            reducer,
            gates,
        };
        Ok((parallel, model))
    }

    /// The ranks.
    pub fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// Whether gradients of a gated model travel while the backward pass goes on.
    pub fn overlaps(&self) -> bool {
        self.gates.is_some()
    }

    /// A copy of `model` for one forward and one backward pass, whose gradients are reduced on the way. The pass gives no
    /// gradients otherwise. [`reduce`](Self::reduce) has to follow.
    ///
    /// # Errors
    ///
    /// If a gradient of `contribution` cannot be read, or the last step has not been [reduced](Self::reduce).
    pub fn gate<M: Module>(
        &self,
        model: &M,
        contribution: Contribution,
    ) -> Result<M, DistributedError> {
        let Some(gates) = &self.gates else {
            return Err(DistributedError::Option(
                "gradients are not to be reduced during the backward pass: give them to reduce"
                    .to_owned(),
            ));
        };
        let scale = self.open(&contribution)?;
        self.contribute(model, contribution.gradients, scale);
        self.reducer.begin(contribution.factor * scale);
        Ok(gates.gate(model))
    }

    /// The mean of the gradients of all ranks, which all call it once in a step. `contribution` is `None` after the
    /// backward pass of a gated model.
    ///
    /// # Errors
    ///
    /// If a gradient could not be read, an operation has failed on any rank, parameters differ between ranks, or there is
    /// neither a contribution nor a gated model.
    pub fn reduce<M: Module>(
        &self,
        model: &M,
        contribution: Option<Contribution>,
        vote: Vote,
    ) -> Result<Reduced, DistributedError> {
        if let Some(contribution) = contribution {
            let scale = self.open(&contribution)?;
            self.reducer.begin(0.0);
            self.contribute(model, contribution.gradients, scale);
        }
        if let Some(error) = self.config.sums.as_ref().and_then(|sums| sums.failure()) {
            return Err(error);
        }
        let sums = self.reducer.finish(vote)?;
        let mut reading = Reading {
            parallel: self,
            has_gradient: &sums.has_gradient,
            factor: sums.factor,
            gradients: GradientsParams::new(),
        };
        if sums.weight > 0.0 {
            model.visit(&mut reading);
        }
        let gradients = reading.gradients;
        self.reducer.end()?;
        self.checksums.step(&self.world, &self.layout, model)?;
        Ok(Reduced {
            gradients,
            stop: sums.stop,
            more: sums.more,
            has_data: sums.weight > 0.0,
        })
    }

    /// Gives running statistics, and what else is not trained, the mean of all ranks, which all call it: before
    /// evaluation and before a snapshot.
    ///
    /// # Errors
    ///
    /// If an operation fails on any rank.
    pub fn average_statistics<M: Module>(&self, model: M) -> Result<M, DistributedError> {
        mean_of_ranks(&self.world, &self.layout, model)
    }

    /// Running statistics of this rank alone, and what else is not trained: what a rank needs to go on as if it had never
    /// stopped.
    ///
    /// # Errors
    ///
    /// If a tensor cannot be read.
    pub fn statistics<M: Module>(&self, model: &M) -> Result<Vec<u8>, DistributedError> {
        statistics(&self.layout, model)
    }

    /// `model` with the [`statistics`](Self::statistics) of a rank.
    ///
    /// # Errors
    ///
    /// If they are of another model.
    pub fn with_statistics<M: Module>(
        &self,
        model: M,
        statistics: &[u8],
    ) -> Result<M, DistributedError> {
        with_statistics(&self.layout, model, statistics)
    }

    /// Opens a step: what the gradients of this rank count in it.
    fn open(&self, contribution: &Contribution) -> Result<f64, DistributedError> {
        let weight = contribution.weight;
        let (scale, of_rank) = match self.config.weighting {
            // Without a weight of its own a rank has what sums over ranks have brought from the losses of the others.
            Weighting::Samples if self.config.has_sums() => (weight.max(1) as f64, weight as f64),
            Weighting::Samples => (weight as f64, weight as f64),
            Weighting::Ranks => (1.0, f64::from(u8::from(weight > 0))),
        };
        Ok(scale / self.reducer.open(of_rank)?)
    }

    fn contribute<M: Module>(&self, model: &M, gradients: GradientsParams, factor: f64) {
        model.visit(&mut Contributing {
            parallel: self,
            gradients,
            factor,
        });
    }
}

struct Contributing<'a> {
    parallel: &'a DataParallel,
    gradients: GradientsParams,
    factor: f64,
}

impl ModuleVisitor for Contributing<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let Some(gradient) = self.gradients.remove::<D>(param.id) else {
            return;
        };
        let reducer = &self.parallel.reducer;
        let Some(index) = self.parallel.layout.index(param.id) else {
            return reducer.fail_new();
        };
        match gradient.try_into_data() {
            Ok(data) => reducer.add_gradient(index, &data, self.factor),
            Err(error) => reducer.fail_gradient(index, error),
        }
    }
}

struct Reading<'a> {
    parallel: &'a DataParallel,
    has_gradient: &'a [bool],
    factor: f64,
    gradients: GradientsParams,
}

impl ModuleVisitor for Reading<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let index = self.parallel.layout.index(param.id);
        let Some(index) = index.filter(|index| self.has_gradient[*index]) else {
            return;
        };
        if let Some(data) = self.parallel.reducer.read(index, self.factor) {
            // An optimiser wants gradients without autodiff.
            let device = param.base().device().inner();
            let options = (&device, data.dtype());
            let gradient = Tensor::from_data(data, options);
            self.gradients.register::<D>(param.id, gradient);
        }
    }
}
