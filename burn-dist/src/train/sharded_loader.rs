//! A loader of the items of one rank, which knows the epoch and can begin in its middle.

use std::hash::Hasher;
use std::sync::Arc;

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::{DataLoader, DataLoaderIterator, Progress};
use burn::data::dataset::{Dataset, DatasetError};
use burn::tensor::Device;
use siphasher::sip::SipHasher24;

use super::{EpochClock, Shard};

/// burn-train's data loader over a rank's part of a dataset, on one process or many.
///
/// The order of an epoch depends on its seed and number alone, and so do the batches of a step if the ranks' batches
/// are together as large. Batches are made on the thread that asks for them; who has images to decode makes them
/// ahead in a loader of its own, and asks [`Shard`] which.
///
/// ```
/// use burn::data::dataloader::{DataLoader, batcher::Batcher};
/// use burn::data::dataset::InMemDataset;
/// use burn::tensor::Device;
/// use burn_dist::train::{Shard, ShardedLoader};
///
/// struct AsTheyAre;
///
/// impl Batcher<i32, Vec<i32>> for AsTheyAre {
///     fn batch(&self, items: Vec<i32>, _: &Device) -> Vec<i32> {
///         items
///     }
/// }
///
/// let dataset = InMemDataset::new(vec![10, 11, 12, 13, 14]);
/// let loader = ShardedLoader::new(dataset, AsTheyAre, Shard::new(1, 2, 2), &Device::flex());
/// let batches: Result<Vec<_>, _> = loader.iter().collect();
/// assert_eq!(batches?, [[12, 13]]); // item 14 is for rank 0
/// # Ok::<(), burn::data::dataset::DatasetError>(())
/// ```
pub struct ShardedLoader<I, O> {
    dataset: Arc<dyn Dataset<I>>,
    batcher: Arc<dyn Batcher<I, O>>,
    shard: Shard,
    /// The items of the whole, before they are shuffled.
    items: Vec<usize>,
    shuffled: Option<(u64, EpochClock)>,
    device: Device,
}

impl<I, O> ShardedLoader<I, O> {
    /// The part `shard` of `dataset`, in its order, on `device`.
    pub fn new(
        dataset: impl Dataset<I> + 'static,
        batcher: impl Batcher<I, O> + 'static,
        shard: Shard,
        device: &Device,
    ) -> Self {
        Self {
            items: (0..dataset.len()).collect(),
            dataset: Arc::new(dataset),
            batcher: Arc::new(batcher),
            shard,
            shuffled: None,
            device: device.clone(),
        }
    }

    /// Shuffled anew in each epoch, which `clock` tells: that of the [`Training`](super::Training).
    pub fn shuffled(self, seed: u64, clock: EpochClock) -> Self {
        Self {
            shuffled: Some((seed, clock)),
            ..self
        }
    }

    /// The order of the epoch, and where in it to begin.
    fn order(&self) -> (Vec<usize>, usize) {
        let mut order = self.items.clone();
        let Some((seed, clock)) = &self.shuffled else {
            return (order, 0);
        };
        let epoch = clock.epoch();
        // The place of an item depends on no other item and no platform.
        order.sort_by_cached_key(|item| {
            let mut hasher = SipHasher24::new_with_keys(*seed, epoch);
            hasher.write_u64(*item as u64);
            (hasher.finish(), *item)
        });
        let first = clock.first_item().min(order.len());
        (order, first)
    }

    fn copy(&self) -> Self {
        Self {
            dataset: self.dataset.clone(),
            batcher: self.batcher.clone(),
            shard: self.shard,
            items: self.items.clone(),
            shuffled: self.shuffled.clone(),
            device: self.device.clone(),
        }
    }
}

impl<I: Send + 'static, O: Send + 'static> DataLoader<O> for ShardedLoader<I, O> {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<O> + 'a> {
        let (order, first) = self.order();
        Box::new(ShardedBatches {
            loader: self,
            own: self.shard.of_rest(first, &order),
            done: 0,
            first,
        })
    }

    fn num_items(&self) -> usize {
        self.shard.used(self.items.len())
    }

    fn to_device(&self, device: &Device) -> Arc<dyn DataLoader<O>> {
        Arc::new(Self {
            device: device.clone(),
            ..self.copy()
        })
    }

    fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<O>> {
        Arc::new(Self {
            items: self.items[start..end].to_vec(),
            ..self.copy()
        })
    }
}

struct ShardedBatches<'a, I, O> {
    loader: &'a ShardedLoader<I, O>,
    /// The items of this rank.
    own: Vec<usize>,
    /// Of these.
    done: usize,
    /// Where in the order of all they begin.
    first: usize,
}

impl<I, O> Iterator for ShardedBatches<'_, I, O> {
    type Item = Result<O, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        let loader = self.loader;
        let rest = &self.own[self.done..];
        let batch = rest.chunks(loader.shard.batch_size()).next()?;
        let items = batch.iter().map(|item| loader.dataset.get(*item));
        let items: Result<Vec<I>, DatasetError> = items.collect();
        self.done += batch.len();
        Some(items.map(|items| loader.batcher.batch(items, &loader.device)))
    }
}

impl<I, O> DataLoaderIterator<O> for ShardedBatches<'_, I, O> {
    fn progress(&self) -> Progress {
        let shard = &self.loader.shard;
        let items = self.loader.items.len();
        let behind = self.first + shard.behind(self.done, items - self.first);
        Progress::new(behind, shard.used(items), Some("items".to_string()))
    }
}
