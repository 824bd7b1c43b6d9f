//! The file of a rank, made by it and opened by the other ranks of its host.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::process::{DumpableBehavior, dumpable_behavior};
use serde::{Deserialize, Serialize};

use super::doorbell::Doorbell;
use super::heap::{Heap, LentHeap};
use super::ring::{Layout, Reader, Writer};
use super::segment::{Place, Segment, remove, sweep};
use crate::host::{Bytes, SharedMemory, shortage};
use crate::transport::WINDOW;

/// Bytes of a ring: as much as two cores' caches hold beside the data itself.
const CAPACITY: usize = 512 << 10;

/// Offset of the number that shows that a file is the one that was meant.
const SECRET: usize = 0;

/// What the names of all files begin with.
const PREFIX: &str = "burn-dist-";

/// Why there is no shared memory.
#[derive(Debug, thiserror::Error)]
pub enum SharedMemoryError {
    /// `/dev/shm` is too small, as Docker makes it, or may not be written: which, and what to do.
    #[error("{0}")]
    Unfit(String),
    /// The system says so.
    #[error("shared memory cannot be used: {0}")]
    Io(#[from] io::Error),
    /// A file of that name is not the one that was meant.
    #[error("the other side's /dev/shm is not this one: no IPC namespace is shared")]
    Other,
}

/// What the owner of an inbox tells the other ranks of its host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InboxOffer {
    place: Place,
    secret: u64,
    rings: usize,
}

/// Own inbox.
#[derive(Debug)]
pub(crate) struct Inbox {
    segment: Arc<Segment>,
    layout: Layout,
    heap: Option<Arc<Heap>>,
    offer: InboxOffer,
}

impl Inbox {
    /// Makes an inbox with a ring for each of `rings` other ranks, which see the number of this process or only its
    /// `/dev/shm`.
    pub fn create(rings: usize, seen: bool) -> Result<Self, SharedMemoryError> {
        const { assert!(CAPACITY >= 2 * WINDOW && CAPACITY.is_power_of_two()) };
        let layout = Layout {
            rings,
            capacity: CAPACITY,
        };
        // Every rank of the host makes one, at the same time: none of them sees what the others take. The other half of
        // the memory is for what ranks are there for.
        let needed = layout.heap() as u64 * (rings as u64 + 1);
        if let Some(reason) = shortage(Bytes(2 * needed)) {
            return Err(SharedMemoryError::Unfit(format!(
                "{} ranks of a host need {} for it, which is more than half: {reason}",
                rings + 1,
                Bytes(needed)
            )));
        }
        let secret = getrandom::u64().map_err(io::Error::other)?;
        // The files of a program with privileges of its own are closed to others, itself as another process too.
        let is_open = dumpable_behavior().is_ok_and(|is| is == DumpableBehavior::Dumpable);
        let (segment, place) = if seen && is_open {
            Segment::unnamed(layout.sizes())?
        } else {
            sweep(PREFIX);
            if let Some(remedy) = SharedMemory::of_process().remedy(Bytes(layout.heap() as u64)) {
                return Err(SharedMemoryError::Unfit(remedy));
            }
            let random = getrandom::u64().map_err(io::Error::other)?;
            Segment::named(&format!("{PREFIX}{random:016x}"), layout.sizes())?
        };
        segment.long(SECRET).store(secret, Ordering::Release);
        let segment = Arc::new(segment);
        // Without it, as where addresses are limited, everything goes through the rings.
        let heap = Heap::new(&segment, layout.heap()).ok().map(Arc::new);
        Ok(Self {
            segment,
            layout,
            heap,
            offer: InboxOffer {
                place,
                secret,
                rings,
            },
        })
    }

    pub fn offer(&self) -> &InboxOffer {
        &self.offer
    }

    pub fn doorbell(&self) -> Doorbell {
        Doorbell::of(&self.segment)
    }

    /// Memory that the other ranks read in place.
    pub fn heap(&self) -> Option<&Arc<Heap>> {
        self.heap.as_ref()
    }

    /// The end of a ring that this rank reads.
    pub(super) fn reader(&self, ring: usize) -> io::Result<Reader> {
        Reader::new(&self.segment, self.layout, ring)
    }

    /// Removes the name of the file, if it has one: all who are to open it have.
    pub fn close_door(&self) {
        if let Place::Folder(name) = &self.offer.place {
            remove(name);
        }
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.close_door();
    }
}

/// What this rank uses of the inbox of another.
pub(super) struct Opened {
    pub writer: Writer,
    pub doorbell: Doorbell,
    pub heap: Option<LentHeap>,
}

impl InboxOffer {
    /// Opens the inbox of another rank and the `ring` in it that is this rank's to write.
    pub(super) fn open(&self, ring: usize) -> Result<Opened, SharedMemoryError> {
        // A number from outside: no more rings than a host has ranks.
        if ring >= self.rings || self.rings > usize::from(u16::MAX) {
            return Err(SharedMemoryError::Other);
        }
        let layout = Layout {
            rings: self.rings,
            capacity: CAPACITY,
        };
        let opened = Segment::open(&self.place, layout.sizes());
        let segment = Arc::new(opened.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::InvalidData => SharedMemoryError::Other,
            _ => error.into(),
        })?);
        if segment.long(SECRET).load(Ordering::Acquire) != self.secret {
            return Err(SharedMemoryError::Other);
        }
        Ok(Opened {
            writer: Writer::new(&segment, layout, ring)?,
            doorbell: Doorbell::of(&segment),
            heap: LentHeap::new(&segment, layout.heap()).ok(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_ranks_than_memory_is_for_are_told_so_before_any_is_taken() {
        for seen in [true, false] {
            let error = Inbox::create(9_999, seen)
                .map(drop)
                .map_err(|e| e.to_string());
            let text = error.err().unwrap_or_default();
            assert!(
                text.starts_with("10000 ranks of a host need ")
                    && text.contains(" for it, which is more than half: "),
                "{text}"
            );
        }
    }
}
