//! Bytes from one writer to one reader, in another process.
//!
//! The writer counts what it has written and the reader what it has read, each in a cache line of its own; what is
//! between the two belongs to the reader, the rest to the writer.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use super::heap;
use super::segment::{PAGE, Segment, Sizes};
use crate::transport::LaneError;
use crate::transport::mirror::Mirror;

/// A file with rings: a page for the doorbell, a page of numbers for each ring, their content, and a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub rings: usize,
    /// Bytes of each ring: whole pages.
    pub capacity: usize,
}

impl Layout {
    pub fn sizes(self) -> Sizes {
        Sizes {
            addresses: self.heap() + heap::SIZE,
            used: self.heap(),
            mapped: self.numbers(),
        }
    }

    /// Bytes before the heap.
    pub fn heap(self) -> usize {
        self.numbers() + self.rings * self.capacity
    }

    /// Bytes before the content of rings.
    pub fn numbers(self) -> usize {
        PAGE * (1 + self.rings)
    }

    fn written(ring: usize) -> usize {
        PAGE * (1 + ring)
    }

    fn read(ring: usize) -> usize {
        PAGE * (1 + ring) + 128
    }

    fn returned(ring: usize) -> usize {
        PAGE * (1 + ring) + 256
    }

    fn revoked(ring: usize) -> usize {
        PAGE * (1 + ring) + 384
    }

    fn map(self, segment: &Segment, ring: usize) -> io::Result<Mirror> {
        let offset = self.numbers() + ring * self.capacity;
        Mirror::of_file(segment.file.as_fd(), offset as u64, self.capacity)
    }
}

/// The end that is written to.
#[derive(Debug)]
pub(super) struct Writer {
    segment: Arc<Segment>,
    ring: usize,
    content: Mirror,
    written: u64,
    /// What the reader had read at the last look.
    read: u64,
}

impl Writer {
    pub fn new(segment: &Arc<Segment>, layout: Layout, ring: usize) -> io::Result<Self> {
        Ok(Self {
            content: layout.map(segment, ring)?,
            segment: segment.clone(),
            ring,
            written: 0,
            read: 0,
        })
    }

    /// Takes as many of `bytes` as there is room for.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, LaneError> {
        if self.room()? < bytes.len() {
            self.read = self
                .segment
                .long(Layout::read(self.ring))
                .load(Ordering::Acquire);
        }
        let count = self.room()?.min(bytes.len());
        // SAFETY: behind what the reader has read, and so not its own any more.
        let free = unsafe { self.content.bytes_mut(self.written, count) };
        free.copy_from_slice(&bytes[..count]);
        self.written += count as u64;
        Ok(count)
    }

    fn room(&self) -> Result<usize, LaneError> {
        let unread = self.written.checked_sub(self.read);
        unread
            .and_then(|unread| self.content.capacity().checked_sub(unread as usize))
            .ok_or(LaneError::Broken("that more was read than written"))
    }

    /// Shows the reader what was written.
    pub fn publish(&self) {
        let written = self.segment.long(Layout::written(self.ring));
        written.store(self.written, Ordering::Release);
    }

    /// How much of what was lent to the reader it has given back, counted from the start.
    pub fn returned(&self) -> u64 {
        self.segment
            .long(Layout::returned(self.ring))
            .load(Ordering::Acquire)
    }

    /// Tells the reader that nothing is lent any more. What is written to lent memory behind this call is not taken for
    /// what was lent.
    pub fn revoke(&self) {
        self.segment
            .word(Layout::revoked(self.ring))
            .store(1, Ordering::Relaxed);
        // Before what the program writes: who reads any of that finds this, by the fence of `is_revoked`.
        fence(Ordering::SeqCst);
    }

    /// The reader has read since the last look.
    pub fn has_room_since(&self) -> bool {
        self.segment
            .long(Layout::read(self.ring))
            .load(Ordering::Acquire)
            != self.read
    }
}

/// The end that is read.
#[derive(Debug)]
pub(super) struct Reader {
    segment: Arc<Segment>,
    ring: usize,
    content: Mirror,
    read: u64,
    /// What the writer had written at the last look.
    written: u64,
}

impl Reader {
    pub fn new(segment: &Arc<Segment>, layout: Layout, ring: usize) -> io::Result<Self> {
        Ok(Self {
            content: layout.map(segment, ring)?,
            segment: segment.clone(),
            ring,
            read: 0,
            written: 0,
        })
    }

    /// Bytes that can be read.
    pub fn look(&mut self) -> Result<usize, LaneError> {
        self.written = self
            .segment
            .long(Layout::written(self.ring))
            .load(Ordering::Acquire);
        let unread = self
            .written
            .checked_sub(self.read)
            .map(|unread| unread as usize);
        unread
            .filter(|unread| *unread <= self.content.capacity())
            .ok_or(LaneError::Broken("that more was written than fits"))
    }

    /// What could be read at the last look.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: written before the look, and the writer's again only when `consume` says so.
        unsafe {
            self.content
                .bytes(self.read, (self.written - self.read) as usize)
        }
    }

    /// Gives bytes back to the writer.
    pub fn consume(&mut self, count: usize) {
        assert!(
            count as u64 <= self.written - self.read,
            "more than is at hand"
        );
        self.read += count as u64;
        let read = self.segment.long(Layout::read(self.ring));
        read.store(self.read, Ordering::Release);
    }

    /// Gives back something that the writer has lent.
    pub fn give_back(&self) {
        self.segment
            .long(Layout::returned(self.ring))
            .fetch_add(1, Ordering::Release);
    }

    /// Whether the writer has said that nothing is lent any more, or may have before what was read until now was read.
    pub fn is_revoked(&self) -> bool {
        fence(Ordering::SeqCst);
        self.segment
            .word(Layout::revoked(self.ring))
            .load(Ordering::Relaxed)
            != 0
    }

    /// Something was written that is not consumed, whether it was looked at or not.
    pub fn has_unread(&self) -> bool {
        self.segment
            .long(Layout::written(self.ring))
            .load(Ordering::Acquire)
            != self.read
    }

    /// The writer has written since the last look.
    pub fn has_more_since(&self) -> bool {
        self.segment
            .long(Layout::written(self.ring))
            .load(Ordering::Acquire)
            != self.written
    }
}
