//! What has arrived on a connection and was not consumed.

use std::io;

use super::lane::{LaneError, WINDOW};
use super::mirror::Mirror;

/// The bytes at hand of a lane: from `consumed` to `filled` of its stream.
#[derive(Debug)]
pub(super) struct Window {
    memory: Mirror,
    consumed: u64,
    filled: u64,
    /// Nothing comes behind what is at hand.
    ended: bool,
}

impl Window {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            memory: Mirror::private(WINDOW)?,
            consumed: 0,
            filled: 0,
            ended: false,
        })
    }

    fn at_hand(&self) -> usize {
        (self.filled - self.consumed) as usize
    }

    /// Reads until `most` bytes are at hand, if `read` gives as many; how many are.
    pub fn fill(
        &mut self,
        most: usize,
        read: impl FnOnce(&mut [u8]) -> Result<usize, LaneError>,
    ) -> Result<usize, LaneError> {
        let at_hand = self.at_hand();
        let Some(missing) = most.min(WINDOW).checked_sub(at_hand).filter(|m| *m > 0) else {
            return Ok(at_hand);
        };
        // SAFETY: behind what is at hand, and so of no borrow of `bytes`; the memory is private to this window.
        let free = unsafe { self.memory.bytes_mut(self.filled, missing) };
        match read(free) {
            Ok(count) => self.filled += count as u64,
            // It may be enough; if it is not, `check` says that no more comes.
            Err(_) if at_hand > 0 => self.ended = true,
            Err(error) => return Err(error),
        }
        Ok(self.at_hand())
    }

    /// The bytes at hand.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: only `fill` writes, which borrows the window for itself.
        unsafe { self.memory.bytes(self.consumed, self.at_hand()) }
    }

    /// Gives up the first `count`.
    pub fn consume(&mut self, count: usize) {
        assert!(count <= self.at_hand(), "more than is at hand");
        self.consumed += count as u64;
    }

    /// Writes the bytes at hand to `into`, and then what `read` gives; how many.
    pub fn receive(
        &mut self,
        into: &mut [u8],
        read: impl FnOnce(&mut [u8]) -> Result<usize, LaneError>,
    ) -> Result<usize, LaneError> {
        let count = self.at_hand().min(into.len());
        let (first, rest) = into.split_at_mut(count);
        first.copy_from_slice(&self.bytes()[..count]);
        self.consume(count);
        if rest.is_empty() {
            return Ok(count);
        }
        match read(rest) {
            Ok(more) => {
                // As if it had been at hand, so that what follows is aligned as it was in the stream.
                self.filled += more as u64;
                self.consumed = self.filled;
                Ok(count + more)
            }
            Err(_) if count > 0 => Ok(count),
            Err(error) => Err(error),
        }
    }

    /// Whether more may come.
    pub fn check(&self) -> Result<(), LaneError> {
        if self.ended {
            Err(LaneError::Closed)
        } else {
            Ok(())
        }
    }
}
