//! Batches of pixels, decoded and resized ahead of their consumer. It may not know what the pixels
//! are for.
//!
//! One thread makes the batches of an order one after another, the images of a batch in parallel
//! on rayon's threads, and hands them over through a bounded channel. So memory is bounded, and
//! batches and pixels depend on the order alone, not on the number of threads.
//!
//! Batches have to be consumed outside rayon's global pool: a pool whose every thread waits for a
//! batch decodes none.

use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use rayon::prelude::*;
use thiserror::Error;

use crate::image::{GrayImage, ImageError};
use crate::source::ImageSource;

/// Why a batch cannot be had.
#[derive(Debug, Error)]
pub enum LoadError {
    /// A size of zero.
    #[error("{option} is 0: it must be at least 1")]
    Zero {
        /// The option.
        option: &'static str,
    },
    /// An image cannot be decoded.
    #[error("{source} ({}, row {row})", table.display())]
    Image {
        /// The table.
        table: PathBuf,
        /// The row of the table.
        row: u64,
        /// What is wrong; it names the file where the file is at fault.
        source: ImageError,
    },
    /// The order holds a record whose image the source was not asked to find.
    #[error(
        "record {index} is not in use in the source of the images: name it when the source is made"
    )]
    NotInUse {
        /// The index of the record.
        index: usize,
    },
    /// The thread that makes the batches cannot be started.
    #[error("the thread that loads images cannot be started: {source}")]
    Thread {
        /// Why.
        source: std::io::Error,
    },
    /// The thread that makes the batches panicked: a decoder's bug.
    #[error("the thread that loads images panicked after {images} images: {message}")]
    Panicked {
        /// Images that were handed over before.
        images: u64,
        /// What the panic says.
        message: String,
    },
}

/// How batches are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoaderConfig {
    /// Width and height of the images of a batch, in pixels.
    pub image_size: usize,
    /// Images of a batch; the last one of an order may have fewer.
    pub batch_size: usize,
    /// Batches that may lie ready for the consumer, beside the one that is being made.
    pub prefetch: usize,
}

impl LoaderConfig {
    /// Batches of `batch_size` images of `image_size` by `image_size` pixels, two ready ahead.
    pub fn new(image_size: usize, batch_size: usize) -> Self {
        Self {
            image_size,
            batch_size,
            prefetch: 2,
        }
    }
}

/// Images of one size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageBatch {
    /// The records of the images: indices into [`Dataset::records`](crate::Dataset::records).
    pub indices: Vec<usize>,
    /// 8-bit grey, `[indices.len(), size, size]`, row by row.
    pub pixels: Vec<u8>,
    /// Width and height in pixels.
    pub size: usize,
}

/// What loading has taken so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoaderStatistics {
    /// Images handed over.
    pub images: u64,
    /// Time that the consumer waited for batches.
    pub waiting: Duration,
    /// Time since the batches were asked for.
    pub elapsed: Duration,
}

impl LoaderStatistics {
    /// Images handed over per second of [`elapsed`](Self::elapsed).
    pub fn images_per_second(&self) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        if seconds > 0.0 {
            self.images as f64 / seconds
        } else {
            0.0
        }
    }
}

/// Makes batches of the images of a source.
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
}

impl Loader {
    /// A loader of the images of `source`.
    ///
    /// # Errors
    ///
    /// The image size or the batch size is zero.
    pub fn new(source: Arc<ImageSource>, config: LoaderConfig) -> Result<Self, LoadError> {
        for (option, value) in [
            ("image_size", config.image_size),
            ("batch_size", config.batch_size),
        ] {
            if value == 0 {
                return Err(LoadError::Zero { option });
            }
        }
        Ok(Self { source, config })
    }

    /// Where the images lie.
    pub fn source(&self) -> &Arc<ImageSource> {
        &self.source
    }

    /// How batches are made.
    pub fn config(&self) -> LoaderConfig {
        self.config
    }

    /// The batches of the records `order`, in this order. Loading begins at once.
    pub fn batches(&self, order: Vec<usize>) -> Batches {
        let (sender, receiver) = sync_channel(self.config.prefetch);
        let stop = Arc::new(AtomicBool::new(false));
        let producer = Producer {
            source: self.source.clone(),
            config: self.config,
            order,
            stop: stop.clone(),
        };
        let thread = Builder::new()
            .name("image loader".to_owned())
            .spawn(move || producer.run(&sender));
        Batches {
            state: match thread {
                Ok(thread) => State::Loading { receiver, thread },
                Err(source) => State::NotStarted(LoadError::Thread { source }),
            },
            stop,
            begin: Instant::now(),
            images: 0,
            waiting: Duration::ZERO,
        }
    }
}

/// Makes the batches of one order, on its own thread.
struct Producer {
    source: Arc<ImageSource>,
    config: LoaderConfig,
    order: Vec<usize>,
    /// Set when the consumer is gone.
    stop: Arc<AtomicBool>,
}

impl Producer {
    /// Sends batch after batch until the order ends, an image fails or the consumer is gone.
    fn run(&self, batches: &SyncSender<Result<ImageBatch, LoadError>>) {
        for indices in self.order.chunks(self.config.batch_size) {
            let batch = self.batch(indices);
            let failed = batch.is_err();
            if batches.send(batch).is_err() || failed {
                return;
            }
        }
    }

    fn batch(&self, indices: &[usize]) -> Result<ImageBatch, LoadError> {
        let size = self.config.image_size;
        let mut pixels = vec![0; indices.len() * size * size];
        let results: Vec<Result<(), LoadError>> = pixels
            .par_chunks_exact_mut(size * size)
            .zip(indices)
            .with_max_len(1)
            .map(|(image, &index)| self.image(index, image))
            .collect();
        // The first in the order, whichever thread was first.
        results.into_iter().collect::<Result<(), _>>()?;
        Ok(ImageBatch {
            indices: indices.to_vec(),
            pixels,
            size,
        })
    }

    fn image(&self, index: usize, pixels: &mut [u8]) -> Result<(), LoadError> {
        if self.stop.load(Ordering::Relaxed) {
            return Ok(()); // Nobody will see this batch.
        }
        let path = self
            .source
            .path(index)
            .ok_or(LoadError::NotInUse { index })?;
        let resized = GrayImage::open(path)
            .and_then(|image| image.resize(self.config.image_size))
            .map_err(|source| LoadError::Image {
                table: self.source.dataset().table().to_owned(),
                row: self.source.dataset().records()[index].row,
                source,
            })?;
        pixels.copy_from_slice(&resized);
        Ok(())
    }
}

/// The batches of one order: an iterator that ends after the first error.
///
/// Dropping it stops the loading, after the images that are being decoded.
#[derive(Debug)]
pub struct Batches {
    state: State,
    stop: Arc<AtomicBool>,
    begin: Instant,
    images: u64,
    waiting: Duration,
}

#[derive(Debug)]
enum State {
    NotStarted(LoadError),
    Loading {
        receiver: Receiver<Result<ImageBatch, LoadError>>,
        thread: JoinHandle<()>,
    },
    Ended,
}

impl Batches {
    /// What loading has taken so far.
    pub fn statistics(&self) -> LoaderStatistics {
        LoaderStatistics {
            images: self.images,
            waiting: self.waiting,
            elapsed: self.begin.elapsed(),
        }
    }

    /// Ends the loading and waits for its thread; an error if the thread panicked or never was.
    fn end(&mut self) -> Result<(), LoadError> {
        self.stop.store(true, Ordering::Relaxed);
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Ended => Ok(()),
            State::NotStarted(error) => Err(error),
            State::Loading { receiver, thread } => {
                // A thread that waits to hand over a batch learns that nobody wants it.
                drop(receiver);
                thread.join().map_err(|panic| LoadError::Panicked {
                    images: self.images,
                    message: panic_message(&*panic).to_owned(),
                })
            }
        }
    }
}

/// The text of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text,
        (None, None) => "no message",
    }
}

impl Iterator for Batches {
    type Item = Result<ImageBatch, LoadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let begin = Instant::now();
        let received = match &self.state {
            State::Loading { receiver, .. } => receiver.recv().ok(),
            State::NotStarted(_) | State::Ended => None,
        };
        self.waiting += begin.elapsed();
        match received {
            Some(Ok(batch)) => {
                self.images += batch.indices.len() as u64;
                Some(Ok(batch))
            }
            // The order has ended, unless the end says otherwise.
            None => self.end().err().map(Err),
            Some(Err(error)) => Some(Err(self.end().err().unwrap_or(error))),
        }
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        // Nobody consumes any more: how the loading ended does not matter.
        let _ = self.end();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use std::thread::spawn;

    use super::*;

    #[test]
    fn a_panic_of_the_thread_is_an_error_and_not_an_early_end() {
        let (sender, receiver) = sync_channel(1);
        let thread = spawn(move || {
            let batch = ImageBatch {
                indices: vec![3, 4],
                pixels: vec![0; 2],
                size: 1,
            };
            sender.send(Ok(batch)).unwrap();
            panic!("index out of bounds");
        });
        let mut batches = Batches {
            state: State::Loading { receiver, thread },
            stop: Arc::new(AtomicBool::new(false)),
            begin: Instant::now(),
            images: 0,
            waiting: Duration::ZERO,
        };
        assert_eq!(batches.next().unwrap().unwrap().indices, [3, 4]);
        assert_eq!(
            batches.next().unwrap().unwrap_err().to_string(),
            "the thread that loads images panicked after 2 images: index out of bounds"
        );
        assert!(batches.next().is_none());
    }
}
