//! Memory for operations, from where it serves them best.

use std::sync::Arc;

use super::buffer::Buffer;
use super::{Shared, World};
use crate::collective::Element;
use crate::collective::executor::LENT;
use crate::host::{Bytes, shortage};
use crate::supervision::CollectiveError;
use crate::transport::Heap;

/// From so many bytes on it is looked first whether there are as many.
const LARGE: u64 = 16 << 20;

impl World {
    /// Memory for operations: zero, page-aligned, and read in place by the other ranks of this host where it can be.
    ///
    /// # Errors
    ///
    /// [`CollectiveError::Memory`] if there is less. Nothing was sent, and the world goes on.
    pub fn alloc<T: Element>(&self, count: usize) -> Result<Buffer<T>, CollectiveError> {
        let bytes = self.shared.bytes_of::<T>(count)?;
        // Less is sent and not lent.
        let heap = self.shared.heap.as_ref();
        let shared = heap.filter(|_| bytes >= LENT as u64);
        if let Some(buffer) = shared.and_then(|heap| self.shared.lendable(heap, count)) {
            return Ok(buffer);
        }
        Buffer::new(count).map_err(|error| CollectiveError::Memory {
            rank: self.rank(),
            bytes,
            reason: error.to_string(),
        })
    }
}

impl Shared {
    /// The bytes of `count` elements, if there is so much memory.
    fn bytes_of<T: Element>(&self, count: usize) -> Result<u64, CollectiveError> {
        let bytes = (count as u64).saturating_mul(size_of::<T>() as u64);
        let reason = if bytes >= LARGE {
            shortage(Bytes(bytes))
        } else {
            None
        };
        reason.map_or(Ok(bytes), |reason| {
            Err(CollectiveError::Memory {
                rank: self.identity.rank,
                bytes,
                reason,
            })
        })
    }

    /// Memory of the program for what all ranks have, zero.
    pub(super) fn zeros<T: Element>(&self, count: usize) -> Result<Vec<T>, CollectiveError> {
        let bytes = self.bytes_of::<T>(count)?;
        let reserved = Vec::<T>::new().try_reserve_exact(count);
        reserved.map_err(|error| CollectiveError::Memory {
            rank: self.identity.rank,
            bytes,
            reason: error.to_string(),
        })?;
        // Of pages that the system has made zero, where there are such: so they are not written twice.
        Ok(vec![T::default(); count])
    }

    /// Memory that other ranks read. Where there is none that costs speed and no more, which is said once.
    fn lendable<T: Element>(&self, heap: &Arc<Heap>, count: usize) -> Option<Buffer<T>> {
        let error = match Buffer::of(heap, count) {
            Ok(buffer) => return Some(buffer),
            Err(error) => error,
        };
        self.has_warned_of_memory.call_once(|| {
            self.report.warn(&format!(
                "no shared memory for a buffer of {}: {error}; it is slower without, enlarge /dev/shm or the memory limit of the container",
                Bytes((count * size_of::<T>()) as u64),
            ));
        });
        None
    }
}
