//! What can be chosen about data-parallel training.

use std::str::FromStr;
use std::sync::Arc;

use burn_dist_core::World;
use serde::{Deserialize, Serialize};

use super::{DistributedError, SumOverRanks};

/// The type in which gradients travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wire {
    /// That of the gradients: nothing is lost.
    #[default]
    Exact,
    /// Half the bytes of `f32`, with 11 bits and exponents down to 2⁻²⁴: gradients below are lost, above 65,504 they are
    /// infinite. Added in `f32`. Ranks tell each other before a step what each counts in it, since gradients become parts of
    /// the mean before they travel.
    F16,
    /// Half the bytes, with 8 bits and the exponents of `f32`. Added in `f32`.
    Bf16,
}

impl FromStr for Wire {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "exact" => Ok(Self::Exact),
            "f16" => Ok(Self::F16),
            "bf16" => Ok(Self::Bf16),
            other => Err(format!("{other:?} is neither exact nor f16 nor bf16")),
        }
    }
}

/// How the gradients of ranks become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weighting {
    /// Their mean over samples, if the loss of a rank is one: that of one large batch, however the ranks share it.
    #[default]
    Samples,
    /// Their mean over the ranks that have data, as PyTorch's `DistributedDataParallel` has it: the same, where all have
    /// as many samples.
    Ranks,
}

/// Options of [`DataParallel`](super::DataParallel), the same on all ranks.
///
/// ```
/// use burn_dist::distributed::{DataParallelConfig, Wire};
/// let config = DataParallelConfig::new().wire(Wire::Bf16).check_every(500);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataParallelConfig {
    pub(super) bucket_bytes: Option<usize>,
    pub(super) wire: Wire,
    pub(super) weighting: Weighting,
    pub(super) overlaps: bool,
    pub(super) check_every: u64,
    pub(super) sums: Option<SumOverRanks>,
}

impl Default for DataParallelConfig {
    fn default() -> Self {
        Self::new()
    }
}

impl DataParallelConfig {
    /// Exact gradients, their mean over samples, reduced while the backward pass runs; parameters compared every 200 steps.
    pub fn new() -> Self {
        Self {
            bucket_bytes: None,
            wire: Wire::default(),
            weighting: Weighting::default(),
            overlaps: true,
            check_every: 200,
            sums: None,
        }
    }

    /// Bytes of gradients that travel together; about an eighth of the model's, if it is not set.
    pub fn bucket_bytes(self, bytes: usize) -> Self {
        Self {
            bucket_bytes: Some(bytes.max(1)),
            ..self
        }
    }

    /// The type in which gradients travel.
    pub fn wire(self, wire: Wire) -> Self {
        Self { wire, ..self }
    }

    /// How the gradients of ranks become one.
    pub fn weighting(self, weighting: Weighting) -> Self {
        Self { weighting, ..self }
    }

    /// Whether gradients are reduced while the backward pass runs. Without, gradients travel
    /// after the pass: the reference for tests, and the way for steps of two backward passes. It is the only way on other
    /// backends than Flex; [`overlaps`](super::DataParallel::overlaps) says which it is.
    pub fn overlaps(self, overlaps: bool) -> Self {
        Self { overlaps, ..self }
    }

    /// Steps between two comparisons of the parameters of all ranks; 0 for none.
    pub fn check_every(self, steps: u64) -> Self {
        Self {
            check_every: steps,
            ..self
        }
    }

    /// Sums over the ranks of `world` within a model that is trained with this: for batch normalisation with the
    /// statistics of all ranks, for example.
    ///
    /// For the backend Flex. Gradients then travel after the backward pass, whatever [`overlaps`](Self::overlaps) says: ranks have to call
    /// operations in one order, and when a gradient is complete in the middle of a pass is not the same on all.
    ///
    /// ```no_run
    /// # use std::sync::Arc;
    /// # use burn::tensor::{Device, Tensor};
    /// # use burn_dist::distributed::DataParallelConfig;
    /// # use burn_dist_core::World;
    /// let world = Arc::new(World::init()?);
    /// let (config, sums) = DataParallelConfig::new().sums_over_ranks(&world);
    /// # let of_batch = Tensor::<1>::zeros([4], &Device::flex());
    /// // In the forward pass of a model that has `sums`:
    /// let of_all_ranks = sums.sum(of_batch);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sums_over_ranks(self, world: &Arc<World>) -> (Self, SumOverRanks) {
        let sums = SumOverRanks::new(world);
        let config = Self {
            sums: Some(sums.clone()),
            ..self
        };
        (config, sums)
    }

    /// Tells sums over ranks what the loss of this one counts in the next passes.
    pub(crate) fn weigh(&self, weight: usize) {
        if let (Some(sums), Weighting::Samples) = (&self.sums, self.weighting) {
            sums.weigh(weight);
        }
    }

    /// Whether there are sums over ranks within the model.
    pub(crate) fn has_sums(&self) -> bool {
        self.sums.is_some()
    }

    /// Whether gradients may travel while the backward pass runs.
    pub(crate) fn gates(&self) -> bool {
        self.overlaps && self.sums.is_none()
    }

    /// Whether all ranks have the same.
    ///
    /// # Errors
    ///
    /// On all ranks, the first that has others than rank 0.
    pub(super) fn ensure_same(&self, world: &World) -> Result<(), DistributedError> {
        let own = format!("{self:?}");
        let all = world.all_gather(own.as_bytes())?;
        let first = all.of(0);
        match (1..world.size()).find(|rank| all.of(*rank) != first) {
            None => Ok(()),
            Some(rank) => Err(DistributedError::Option(format!(
                "rank {rank} has {}, rank 0 has {}: give all ranks the same options",
                String::from_utf8_lossy(all.of(rank)),
                String::from_utf8_lossy(first)
            ))),
        }
    }
}
