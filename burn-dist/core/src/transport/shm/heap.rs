//! Memory of a rank that the other ranks of its host read in place.
//!
//! The end of the inbox's file, far larger than what is used of it: the system gives memory to what is reserved only.
//! What a rank sends from here it lends: the other side reduces or copies from where it is.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use super::segment::{PAGE, Segment};

/// Bytes of a heap: addresses, not memory.
pub(super) const SIZE: usize = 64 << 30;

/// The heap of this rank.
#[derive(Debug)]
pub(crate) struct Heap {
    segment: Arc<Segment>,
    /// Where it begins in the file.
    offset: usize,
    base: NonNull<u8>,
    /// Free ranges: start and length, apart from each other.
    free: Mutex<BTreeMap<usize, usize>>,
}

// SAFETY: what is reserved belongs to who has reserved it; the rest is nobody's.
unsafe impl Send for Heap {}
// SAFETY: as above; the free ranges are behind a lock.
unsafe impl Sync for Heap {}

impl Heap {
    pub(super) fn new(segment: &Arc<Segment>, offset: usize) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        Ok(Self {
            base: map(segment, offset, access)?,
            segment: segment.clone(),
            offset,
            free: Mutex::new(BTreeMap::from([(0, SIZE)])),
        })
    }

    /// Whole pages for `bytes`, zero at first; where they are in the heap.
    pub fn reserve(&self, bytes: usize) -> io::Result<Range> {
        let length = bytes.max(1).next_multiple_of(PAGE);
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let found = free.iter().find(|(_, free)| **free >= length);
        let (start, whole) = found
            .map(|(a, b)| (*a, *b))
            .ok_or(io::ErrorKind::OutOfMemory)?;
        // Memory that is missing has to be an error here, and not a signal at first use.
        let at = (self.offset + start) as u64;
        fallocate(
            &self.segment.file,
            FallocateFlags::empty(),
            at,
            length as u64,
        )?;
        free.remove(&start);
        if whole > length {
            free.insert(start + length, whole - length);
        }
        Ok(Range { start, length })
    }

    /// Gives the memory of a range back to the system.
    pub fn release(&self, range: Range) {
        let at = (self.offset + range.start) as u64;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let punched = fallocate(&self.segment.file, flags, at, range.length as u64);
        if punched.is_err() {
            // It would not be zero for the next: not given to anybody again.
            return;
        }
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut start, mut length) = (range.start, range.length);
        if let Some(after) = free.remove(&(start + length)) {
            length += after;
        }
        let before = free.range(..start).next_back().map(|(a, b)| (*a, *b));
        if let Some((before, size)) = before.filter(|(before, size)| before + size == start) {
            (start, length) = (before, length + size);
        }
        free.insert(start, length);
    }

    /// The first byte of a range.
    pub fn pointer(&self, range: Range) -> NonNull<u8> {
        // SAFETY: within the `SIZE` bytes that are mapped.
        unsafe { self.base.add(range.start) }
    }

    /// Where bytes are in the heap, if they are.
    pub fn place(&self, bytes: &[u8]) -> Option<u64> {
        let start = (bytes.as_ptr() as usize).checked_sub(self.base.as_ptr() as usize)?;
        (start + bytes.len() <= SIZE).then_some(start as u64)
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`; whoever has a range of it holds the heap.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), SIZE) };
    }
}

/// Memory that is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    start: usize,
    length: usize,
}

/// The heap of another rank, to read.
#[derive(Debug)]
pub(super) struct LentHeap {
    base: NonNull<u8>,
}

// SAFETY: the mapping belongs to no thread.
unsafe impl Send for LentHeap {}

impl LentHeap {
    pub fn new(segment: &Segment, offset: usize) -> io::Result<Self> {
        Ok(Self {
            base: map(segment, offset, ProtFlags::READ)?,
        })
    }

    /// `count` bytes at a place; `None` if they are not in the heap.
    ///
    /// # Safety
    ///
    /// The owner must have lent them, and not got them back while they are borrowed. An owner that fails has them back at
    /// once, and may write to them: what they hold must be read as numbers only, any of which will do, and must not
    /// count unless the owner still lends them afterwards.
    pub unsafe fn bytes(&self, place: u64, count: usize) -> Option<&[u8]> {
        let start = usize::try_from(place).ok()?;
        if start.checked_add(count)? > SIZE {
            return None;
        }
        // SAFETY: within the mapping, which stays readable whatever its owner does; the caller sees to the rest.
        Some(unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(start), count) })
    }
}

impl Drop for LentHeap {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and borrowed by nobody any more.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), SIZE) };
    }
}

fn map(segment: &Segment, offset: usize, access: ProtFlags) -> io::Result<NonNull<u8>> {
    let flags = MapFlags::SHARED | MapFlags::NORESERVE;
    // SAFETY: a mapping of new addresses, chosen by the system.
    let base = unsafe {
        mmap(
            std::ptr::null_mut(),
            SIZE,
            access,
            flags,
            segment.file.as_fd(),
            offset as u64,
        )?
    };
    // A core dump would read it all, and so give memory to it. What the system does not know it does not dump.
    // SAFETY: of the mapping above, whose content stays as it is.
    let _ = unsafe { madvise(base, SIZE, Advice::LinuxDontDump) };
    NonNull::new(base.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}
