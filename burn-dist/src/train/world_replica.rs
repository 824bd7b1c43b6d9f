//! A rank of a world as a replica of the training loop.

use std::sync::{Arc, OnceLock};

use burn::module::Module;
use burn_dist_core::World;
use burn_dist_core::collective::Reduction;

use super::Replica;
use crate::distributed::{
    Contribution, DataParallel, DataParallelConfig, DistributedError, Reduced, Vote,
};
use crate::progress::write_line;

/// A rank of a [`World`], for [`Training::distributed`](super::Training::distributed).
pub struct WorldReplica {
    world: Arc<World>,
    config: DataParallelConfig,
    /// Since the model is known.
    parallel: OnceLock<DataParallel>,
}

impl WorldReplica {
    /// This rank of `world`.
    pub fn new(world: &Arc<World>, config: DataParallelConfig) -> Self {
        Self {
            world: world.clone(),
            config,
            parallel: OnceLock::new(),
        }
    }

    fn parallel(&self) -> Result<&DataParallel, DistributedError> {
        let not_joined = || DistributedError::Option("the model has not joined yet".to_owned());
        self.parallel.get().ok_or_else(not_joined)
    }
}

impl<M: Module> Replica<M> for WorldReplica {
    fn rank(&self) -> usize {
        self.world.rank()
    }

    fn count(&self) -> usize {
        self.world.size()
    }

    fn join(&self, model: M) -> Result<M, DistributedError> {
        let (parallel, model) = DataParallel::new(&self.world, model, self.config.clone())?;
        if self.config.gates() && !parallel.overlaps() && self.world.rank() == 0 {
            write_line(
                "gradients travel after the backward pass, not during it: for that the model has to be on Burn's backend Flex",
            );
        }
        match self.parallel.set(parallel) {
            Ok(()) => Ok(model),
            Err(_) => Err(DistributedError::Option(
                "a replica is for one run: make another".to_owned(),
            )),
        }
    }

    fn overlaps(&self) -> bool {
        self.parallel.get().is_some_and(DataParallel::overlaps)
    }

    fn needs_data(&self) -> bool {
        self.config.has_sums()
    }

    fn weigh(&self, weight: usize) {
        self.config.weigh(weight);
    }

    fn gate(&self, model: &M, contribution: Contribution) -> Result<M, DistributedError> {
        self.parallel()?.gate(model, contribution)
    }

    fn reduce(
        &self,
        model: &M,
        contribution: Option<Contribution>,
        vote: Vote,
    ) -> Result<Reduced, DistributedError> {
        self.parallel()?.reduce(model, contribution, vote)
    }

    // Running statistics are shared by all copies of a model in training: that which comes back can go.

    fn average_statistics(&self, model: &M) -> Result<(), DistributedError> {
        let averaged = self.parallel()?.average_statistics(model.clone())?;
        drop(averaged);
        Ok(())
    }

    fn statistics(&self, model: &M) -> Result<Vec<u8>, DistributedError> {
        self.parallel()?.statistics(model)
    }

    fn set_statistics(&self, model: &M, statistics: &[u8]) -> Result<(), DistributedError> {
        let model = self
            .parallel()?
            .with_statistics(model.clone(), statistics)?;
        drop(model);
        Ok(())
    }

    fn sum(&self, values: &mut [f64]) -> Result<(), DistributedError> {
        Ok(self.world.all_reduce(values, Reduction::Sum)?)
    }

    fn agree(&self, stop: bool) -> Result<bool, DistributedError> {
        let mut said = [u8::from(stop)];
        self.world.all_reduce(&mut said, Reduction::Max)?;
        Ok(said[0] > 0)
    }

    fn gather(&self, own: Vec<u8>) -> Result<Vec<Vec<u8>>, DistributedError> {
        let all = self.world.all_gather(&own)?;
        let parts = (0..self.world.size()).map(|rank| all.of(rank).to_vec());
        Ok(parts.collect())
    }

    fn broadcast(&self, mut own: Vec<u8>) -> Result<Vec<u8>, DistributedError> {
        let mut length = [own.len() as i64];
        self.world.broadcast(&mut length, 0)?;
        // Rank 0 has said it, of something in its memory.
        own.resize(usize::try_from(length[0]).unwrap_or(0), 0);
        self.world.broadcast(&mut own, 0)?;
        Ok(own)
    }
}
