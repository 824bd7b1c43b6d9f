//! Batches of X-rays as tensors, for burn-train.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use burn::data::dataloader::{DataLoader, DataLoaderIterator, Progress};
use burn::data::dataset::DatasetError;
use burn::tensor::{Device, Tensor, TensorData};
use burn_dist::train::{EpochClock, Shard, StepInput};
use chest_datasets::{Augmentation, BadImage, Batches, ImageBatch, LoadError, Loader, epoch_order};

use crate::loss::Reduction;
use crate::{Preprocessing, PreprocessingError};

/// X-rays and their labels.
#[derive(Clone, Debug)]
pub struct XrayBatch {
    /// Normalised images, `[batch, channels, height, width]`.
    pub images: Tensor<4>,
    /// 1 for positive, 0 for negative and unknown labels, `[batch, labels]`.
    pub targets: Tensor<2>,
    /// 1 for known labels, `[batch, labels]`; `None` when all are known.
    pub known: Option<Tensor<2>>,
    /// The labels as values, `[batch, labels]` row by row; `None` for unknown ones.
    pub truth: Vec<Option<bool>>,
    /// Name of each image.
    pub names: Vec<String>,
    /// What the mean loss of the batch is a mean of: its images or its known labels.
    pub weight: usize,
}

impl StepInput for XrayBatch {
    fn samples(&self) -> usize {
        self.names.len()
    }

    fn weight(&self) -> usize {
        self.weight
    }
}

/// The order in which a loader goes through its images.
#[derive(Clone, Debug)]
pub enum Order {
    /// As given.
    Fixed,
    /// Shuffled anew in each epoch, by seed and epoch, and changed at random, by the image as well.
    Shuffled {
        /// The seed of the run.
        seed: u64,
        /// The epoch, kept by the training loop.
        clock: EpochClock,
        /// How much images are changed.
        augmentation: Augmentation,
    },
}

/// burn-train's data loader over the images of one side of a split.
#[derive(Clone)]
pub struct XrayLoader {
    loader: Loader,
    indices: Arc<[usize]>,
    order: Order,
    /// Of all images.
    shard: Shard,
    preprocessing: Preprocessing,
    reduction: Reduction,
    device: Device,
    /// How long all its consumers have waited, shared by all clones.
    waited: Arc<Mutex<Duration>>,
    /// What was left out before the run was resumed, and on other ranks, shared by all clones.
    recalled: Arc<Mutex<Vec<BadImage>>>,
}

impl XrayLoader {
    /// Batches of the part `shard` of the records `indices` on `device`. `preprocessing` must have the image size
    /// of `loader`, and `shard` its batch size.
    pub fn new(
        loader: Loader,
        indices: &[usize],
        order: Order,
        shard: Shard,
        preprocessing: Preprocessing,
        device: Device,
    ) -> Self {
        Self {
            loader,
            indices: indices.into(),
            order,
            shard,
            preprocessing,
            reduction: Reduction::default(),
            device,
            waited: Arc::default(),
            recalled: Arc::default(),
        }
    }

    /// Batches for a loss that is reduced so, by which they [weigh](XrayBatch::weight).
    pub fn reduction(self, reduction: Reduction) -> Self {
        Self { reduction, ..self }
    }

    /// How long its consumers have waited for batches so far, those of its clones included; the
    /// time of an epoch counts when it has ended.
    pub fn waited(&self) -> Duration {
        *self.waited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Images without those that were [left out](Self::skipped) so far.
    pub fn num_decodable(&self) -> usize {
        self.indices.len() - self.skipped().len()
    }

    /// The images that could not be decoded and were left out so far, in the order of their rows.
    pub fn skipped(&self) -> Vec<BadImage> {
        let mut all = self.loader.skipped();
        let recalled = self.recalled.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend(recalled.iter().cloned());
        all.sort_by(|a, b| (&a.table, a.row).cmp(&(&b.table, b.row)));
        all.dedup_by(|a, b| (&a.table, a.row) == (&b.table, b.row));
        all
    }

    /// Images that were left out before the run was resumed or on other ranks, and the time waited until then.
    pub fn recall(&self, skipped: Vec<BadImage>, waited: Duration) {
        *self.waited.lock().unwrap_or_else(PoisonError::into_inner) += waited;
        let mut recalled = self.recalled.lock().unwrap_or_else(PoisonError::into_inner);
        recalled.extend(skipped);
        recalled.sort_by(|a, b| (&a.table, a.row).cmp(&(&b.table, b.row)));
        recalled.dedup_by(|a, b| (&a.table, a.row) == (&b.table, b.row));
    }

    fn batch(&self, batch: ImageBatch) -> Result<XrayBatch, PreprocessingError> {
        let dataset = self.loader.source().dataset();
        let records = batch.indices.iter().map(|&index| &dataset.records()[index]);
        let names: Vec<String> = records.clone().map(|record| record.image.clone()).collect();
        let truth: Vec<Option<bool>> = records
            .flat_map(|record| record.labels.iter())
            .map(|label| label.target().map(|target| target > 0.5))
            .collect();
        let weight = match self.reduction {
            Reduction::SumOverLabels => names.len(),
            Reduction::Mean => truth.iter().flatten().count(),
        };
        let shape = [names.len(), dataset.labels().len()];
        let matrix = |value: fn(&Option<bool>) -> bool| {
            let values: Vec<f32> = truth
                .iter()
                .map(|t| f32::from(u8::from(value(t))))
                .collect();
            Tensor::from_data(TensorData::new(values, shape), &self.device)
        };
        Ok(XrayBatch {
            images: self.preprocessing.tensor(&batch.pixels, &self.device)?,
            targets: matrix(|truth| *truth == Some(true)),
            known: truth
                .contains(&None)
                .then(|| matrix(|truth| truth.is_some())),
            truth,
            names,
            weight,
        })
    }
}

impl DataLoader<XrayBatch> for XrayLoader {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<XrayBatch> + 'a> {
        let mut first = 0;
        let batches = match &self.order {
            Order::Fixed => self.loader.batches(self.shard.of(&self.indices)),
            Order::Shuffled {
                seed,
                clock,
                augmentation,
            } => {
                let (seed, epoch) = (*seed, clock.epoch());
                first = clock.first_item().min(self.indices.len());
                let order = epoch_order(&self.indices, seed, epoch);
                let own = self.shard.of_rest(first, &order);
                self.loader
                    .augmented_batches(own, *augmentation, seed, epoch)
            }
        };
        Box::new(XrayBatches {
            batches,
            loader: self,
            first,
            done: first,
        })
    }

    fn num_items(&self) -> usize {
        self.shard.used(self.indices.len())
    }

    fn to_device(&self, device: &Device) -> Arc<dyn DataLoader<XrayBatch>> {
        Arc::new(Self {
            device: device.clone(),
            ..self.clone()
        })
    }

    fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<XrayBatch>> {
        Arc::new(Self {
            indices: self.indices[start..end].into(),
            ..self.clone()
        })
    }
}

struct XrayBatches<'a> {
    batches: Batches,
    loader: &'a XrayLoader,
    /// Where in its order it began.
    first: usize,
    /// Images of all ranks behind it, with those left out.
    done: usize,
}

impl Iterator for XrayBatches<'_> {
    type Item = Result<XrayBatch, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        // Where no steps are counted, a batch whose images were all left out has no place.
        let keeps_all = matches!(self.loader.order, Order::Shuffled { .. });
        let is_kept = |batch: &Result<ImageBatch, LoadError>| {
            keeps_all
                || batch
                    .as_ref()
                    .map_or(true, |batch| !batch.indices.is_empty())
        };
        let batch = self.batches.find(is_kept)?;
        Some(batch.map_err(DatasetError::new).and_then(|batch| {
            let rest = self.loader.indices.len() - self.first;
            self.done = self.first + self.loader.shard.behind(batch.end, rest);
            self.loader.batch(batch).map_err(DatasetError::new)
        }))
    }
}

impl Drop for XrayBatches<'_> {
    fn drop(&mut self) {
        let mut waited = self
            .loader
            .waited
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *waited += self.batches.statistics().waiting;
    }
}

impl DataLoaderIterator<XrayBatch> for XrayBatches<'_> {
    fn progress(&self) -> Progress {
        Progress::new(
            self.done,
            self.loader.num_items(),
            Some("images".to_string()),
        )
    }
}
