//! The thread that makes the batches of one order. It may not know who consumes them.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use super::batches::Sender;
use super::{ImageBatch, Loader};
use crate::augmentation::{Augmentation, Draw};
use crate::bad_image::{BadImage, OnBadImage};
use crate::decoding::{Decoded, decode};
use crate::load_error::LoadError;

/// How the images of one epoch are changed.
pub(super) struct Change {
    pub(super) augmentation: Augmentation,
    pub(super) seed: u64,
    pub(super) epoch: u64,
}

/// Makes the batches of one order, on its own thread.
pub(super) struct Producer {
    pub(super) loader: Loader,
    pub(super) order: Vec<usize>,
    pub(super) change: Option<Change>,
    /// Set when the consumer is gone.
    pub(super) stop: Arc<AtomicBool>,
}

impl Producer {
    /// Sends batch after batch until the order ends, an image fails or the consumer is gone.
    pub(super) fn run(&self, batches: &Sender) {
        let mut end = 0;
        for indices in self.order.chunks(self.loader.config.batch_size) {
            end += indices.len();
            let batch = self.batch(indices, end);
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let failed = batch.is_err();
            if batches.send(batch).is_err() || failed {
                return;
            }
        }
    }

    fn batch(&self, indices: &[usize], end: usize) -> Result<ImageBatch, LoadError> {
        let size = self.loader.config.image_size;
        let length = size * size;
        let mut pixels = vec![0; indices.len() * length];
        let results: Vec<Result<bool, LoadError>> = pixels
            .par_chunks_exact_mut(length)
            .zip(indices)
            .with_max_len(1)
            .map(|(image, &index)| self.image(index, image))
            .collect();
        // The first error in the order, whichever thread was first.
        let kept: Vec<bool> = results.into_iter().collect::<Result<_, _>>()?;
        let mut batch = ImageBatch {
            indices: Vec::with_capacity(indices.len()),
            pixels,
            size,
            end,
        };
        for (position, &index) in indices.iter().enumerate() {
            if kept[position] {
                let (from, to) = (position * length, batch.indices.len() * length);
                batch.pixels.copy_within(from..from + length, to);
                batch.indices.push(index);
            }
        }
        batch.pixels.truncate(batch.indices.len() * length);
        Ok(batch)
    }

    /// Fills `pixels` with the image of the record `index`; whether it belongs to the batch.
    fn image(&self, index: usize, pixels: &mut [u8]) -> Result<bool, LoadError> {
        if self.stop.load(Ordering::Relaxed) {
            return Ok(false); // Nobody will see this batch.
        }
        let Loader {
            source,
            config,
            cache,
            skipped,
        } = &self.loader;
        let image = match cache {
            None => match decode(source, index, config.image_size)? {
                Decoded::Pixels(decoded) => Ok(Cow::Owned(decoded)),
                Decoded::Bad(reason) => Err(BadImage::new(source, index, &reason)),
            },
            Some(cache) => {
                // The cache may hold more than the source has in use.
                let cached = source.path(index).and_then(|_| cache.pixels(index));
                match cached.ok_or(LoadError::NotInUse { index })? {
                    Ok(cached) => Ok(Cow::Borrowed(cached)),
                    Err(bad) => Err(bad.clone()),
                }
            }
        };
        match (image, config.on_bad_image) {
            (Ok(image), _) => {
                pixels.copy_from_slice(&image);
                if let Some(change) = &self.change {
                    let name = &source.dataset().records()[index].image;
                    let draw = Draw::new(change.seed, change.epoch, name);
                    change.augmentation.apply(pixels, config.image_size, draw);
                }
                Ok(true)
            }
            (Err(bad), OnBadImage::Stop) => Err(LoadError::Image(bad)),
            (Err(bad), OnBadImage::Skip) => {
                let mut skipped = skipped.lock().unwrap_or_else(PoisonError::into_inner);
                skipped.entry(index).or_insert(bad);
                Ok(false)
            }
        }
    }
}
