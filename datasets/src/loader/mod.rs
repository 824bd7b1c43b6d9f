//! Batches of pixels, made ahead of their consumer: decoded and resized, or copied from a cache. It
//! may not know what the pixels are for.
//!
//! One thread makes the batches of an order one after another, the images of a batch in parallel
//! on rayon's threads, and hands them over through a bounded channel. So memory is bounded, and
//! batches and pixels depend on the order alone, not on the number of threads.
//!
//! Batches have to be consumed outside rayon's global pool: a pool whose every thread waits for a
//! batch decodes none.

mod batches;
mod producer;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

pub use batches::{Batches, ImageBatch, LoaderStatistics};

use crate::augmentation::Augmentation;
use crate::bad_image::{BadImage, OnBadImage};
use crate::cache::PackedCache;
use crate::decoding::ensure_size;
use crate::load_error::LoadError;
use crate::source::ImageSource;
use producer::{Change, Producer};

/// How batches are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoaderConfig {
    /// Width and height of the images of a batch, in pixels.
    pub image_size: usize,
    /// Images of a batch; the last one of an order may have fewer, and one with skipped images has.
    pub batch_size: usize,
    /// Batches that may lie ready for the consumer, beside the one that is being made.
    pub prefetch: usize,
    /// What is done about an image that cannot be decoded.
    pub on_bad_image: OnBadImage,
}

impl LoaderConfig {
    /// Batches of `batch_size` images of `image_size` by `image_size` pixels, two ready ahead; a
    /// bad image stops.
    pub fn new(image_size: usize, batch_size: usize) -> Self {
        Self {
            image_size,
            batch_size,
            prefetch: 2,
            on_bad_image: OnBadImage::Stop,
        }
    }
}

/// Makes batches of the images of a source.
///
/// With [`OnBadImage::Skip`] an image that cannot be decoded is left out of its batch, which is
/// smaller then; a batch without any image is left out as a whole.
///
/// ```no_run
/// use std::sync::Arc;
/// use chest_datasets::{Dataset, ImageSource, Loader, LoaderConfig};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let dataset = Arc::new(Dataset::from_csv("table.csv", None)?);
/// let everything: Vec<usize> = (0..dataset.len()).collect();
/// let source = Arc::new(ImageSource::new(dataset, "images", &everything)?);
/// let loader = Loader::new(source, LoaderConfig::new(224, 16))?;
/// let mut batches = loader.batches(everything);
/// for batch in &mut batches {
///     println!("{:?}", batch?.indices);
/// }
/// println!("{:.1} images/s", batches.statistics().images_per_second());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Loader {
    source: Arc<ImageSource>,
    config: LoaderConfig,
    cache: Option<Arc<PackedCache>>,
    skipped: Arc<Skipped>,
}

/// The images that were left out, by the indices of their records.
type Skipped = Mutex<BTreeMap<usize, BadImage>>;

impl Loader {
    /// A loader of the images of `source`.
    ///
    /// # Errors
    ///
    /// The image size or the batch size is zero, or the image size is above 65535.
    pub fn new(source: Arc<ImageSource>, config: LoaderConfig) -> Result<Self, LoadError> {
        ensure_size(config.image_size)?;
        if config.batch_size == 0 {
            return Err(LoadError::Zero {
                option: "batch_size",
            });
        }
        Ok(Self {
            source,
            config,
            cache: None,
            skipped: Arc::default(),
        })
    }

    /// The same loader, which copies the pixels from `cache` and decodes no image. The batches are
    /// the same, byte for byte, and so is what is skipped.
    ///
    /// # Errors
    ///
    /// A cache of another size, or one that lacks an image in use.
    pub fn with_cache(mut self, cache: Arc<PackedCache>) -> Result<Self, LoadError> {
        if cache.image_size() != self.config.image_size {
            return Err(LoadError::CacheSize {
                cached: cache.image_size(),
                image_size: self.config.image_size,
            });
        }
        if let Some(index) = cache.first_missing(&self.source) {
            return Err(LoadError::NotCached {
                image: self.source.dataset().records()[index].image.clone(),
            });
        }
        self.cache = Some(cache);
        Ok(self)
    }

    /// Where the images lie.
    pub fn source(&self) -> &Arc<ImageSource> {
        &self.source
    }

    /// How batches are made.
    pub fn config(&self) -> LoaderConfig {
        self.config
    }

    /// The bad images that this loader and its clones have left out so far, each once however many
    /// epochs ran, in the order of their records. An image counts from when its batch is made,
    /// which is ahead of the consumer.
    pub fn skipped(&self) -> Vec<BadImage> {
        let skipped = self.skipped.lock().unwrap_or_else(PoisonError::into_inner);
        skipped.values().cloned().collect()
    }

    /// The batches of the records `order`, in this order. Loading begins at once.
    pub fn batches(&self, order: Vec<usize>) -> Batches {
        self.load(order, None)
    }

    /// The batches of the records `order`, each image changed as `augmentation` and its
    /// [`Draw`](crate::Draw) of `seed` and `epoch` say: so the pixels of an image depend neither on its place in
    /// the order nor on the number of threads.
    ///
    /// ```no_run
    /// # use std::sync::Arc;
    /// # use chest_datasets::{Augmentation, Dataset, ImageSource, Loader, LoaderConfig, epoch_order};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dataset = Arc::new(Dataset::from_csv("table.csv", None)?);
    /// # let train: Vec<usize> = (0..dataset.len()).collect();
    /// # let source = Arc::new(ImageSource::new(dataset, "images", &train)?);
    /// let loader = Loader::new(source, LoaderConfig::new(224, 16))?;
    /// for epoch in 0..10 {
    ///     let order = epoch_order(&train, 42, epoch);
    ///     for batch in loader.augmented_batches(order, Augmentation::paper(), 42, epoch) {
    ///         println!("{:?}", batch?.indices);
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn augmented_batches(
        &self,
        order: Vec<usize>,
        augmentation: Augmentation,
        seed: u64,
        epoch: u64,
    ) -> Batches {
        let change = Change {
            augmentation,
            seed,
            epoch,
        };
        self.load(order, Some(change))
    }

    fn load(&self, order: Vec<usize>, change: Option<Change>) -> Batches {
        let loader = self.clone();
        Batches::start(self.config.prefetch, move |batches, stop| {
            let producer = Producer {
                loader,
                order,
                change,
                stop,
            };
            producer.run(batches);
        })
    }
}
