//! An operation that was started.

use std::sync::mpsc::{Receiver, TryRecvError};

use super::buffer::Buffer;
use crate::supervision::CollectiveError;

/// An operation under way, which has the buffer that it works on.
///
/// Dropped, the operation goes on, and its buffer is freed when it is done.
#[derive(Debug)]
#[must_use = "an operation gives its buffer back when it is waited for"]
pub struct Pending<T> {
    outcome: Receiver<Outcome<T>>,
    /// What has come when it was looked for.
    come: Option<Outcome<T>>,
}

pub(super) type Outcome<T> = Result<Buffer<T>, CollectiveError>;

impl<T> Pending<T> {
    pub(super) fn new(outcome: Receiver<Outcome<T>>) -> Self {
        Self {
            outcome,
            come: None,
        }
    }

    /// Whether it is done, or has failed.
    pub fn is_over(&mut self) -> bool {
        if self.come.is_none() {
            self.come = match self.outcome.try_recv() {
                Ok(outcome) => Some(outcome),
                Err(TryRecvError::Empty) => return false,
                Err(TryRecvError::Disconnected) => Some(Err(gone())),
            };
        }
        true
    }

    /// Waits until it is done; the buffer with the result.
    ///
    /// # Errors
    ///
    /// Why it has failed; the buffer is lost with it.
    pub fn wait(self) -> Result<Buffer<T>, CollectiveError> {
        match self.come {
            Some(outcome) => outcome,
            None => self.outcome.recv().unwrap_or_else(|_| Err(gone())),
        }
    }
}

fn gone() -> CollectiveError {
    CollectiveError::argument("the thread that carries operations out has ended")
}
