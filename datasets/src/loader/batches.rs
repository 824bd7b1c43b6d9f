//! What a consumer gets of a loader: batches, one after another, and what they have taken. It may not
//! know how a batch is made.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::load_error::LoadError;
use crate::panic_message::panic_message;

/// Where batches are handed over.
pub(super) type Sender = SyncSender<Result<ImageBatch, LoadError>>;

/// Images of one size: fewer than a batch has where some were left out, and none where all were.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageBatch {
    /// The records of the images: indices into [`Dataset::records`](crate::Dataset::records).
    pub indices: Vec<usize>,
    /// 8-bit grey, `[indices.len(), size, size]`, row by row.
    pub pixels: Vec<u8>,
    /// Width and height in pixels.
    pub size: usize,
    /// Images of the order up to the end of this batch, with those that were left out: where to go
    /// on behind it.
    pub end: usize,
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
    /// Starts the thread of `produce`, which sends at most `prefetch` batches ahead, until there are
    /// no more or it is told to stop.
    pub(super) fn start(
        prefetch: usize,
        produce: impl FnOnce(&Sender, Arc<AtomicBool>) + Send + 'static,
    ) -> Self {
        let (sender, receiver) = sync_channel(prefetch);
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = Builder::new()
            .name("image loader".to_owned())
            .spawn(move || produce(&sender, told));
        Self {
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
                end: 2,
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
