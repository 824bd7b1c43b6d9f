//! Memory that operations work on while the program does something else.

use std::io;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::collective::Element;
use crate::transport::{Heap, Range};

/// Elements in memory of their own: page-aligned, zero at first, never moved.
///
/// [`World::alloc`](crate::World::alloc) makes one, in memory that the other ranks of the host read in place where
/// that can be. An operation that is started takes it and gives it back when it is waited for, so that nobody can
/// touch what is under way.
#[derive(Debug)]
pub struct Buffer<T> {
    base: NonNull<T>,
    count: usize,
    memory: Memory,
    element: PhantomData<T>,
}

/// Whose memory it is.
#[derive(Debug)]
enum Memory {
    /// None at all, or a mapping of this buffer.
    Own,
    /// Of the heap that other ranks read.
    Heap(Arc<Heap>, Range),
}

// SAFETY: it owns its memory, as a `Vec` does.
unsafe impl<T: Send> Send for Buffer<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Buffer<T> {}

impl<T: Element> Buffer<T> {
    /// Memory of this process alone.
    pub(crate) fn new(count: usize) -> io::Result<Self> {
        let bytes = bytes::<T>(count)?;
        let base = if bytes == 0 {
            NonNull::dangling()
        } else {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: a mapping of new addresses, chosen by the system.
            let base =
                unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, MapFlags::PRIVATE)? };
            // SAFETY: of the mapping above. Larger pages are faster; without them it works as well.
            let _ = unsafe { madvise(base, bytes, Advice::LinuxHugepage) };
            NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?
        };
        Ok(Self {
            base,
            count,
            memory: Memory::Own,
            element: PhantomData,
        })
    }

    /// Memory of `heap`.
    pub(crate) fn of(heap: &Arc<Heap>, count: usize) -> io::Result<Self> {
        let range = heap.reserve(bytes::<T>(count)?)?;
        Ok(Self {
            base: heap.pointer(range).cast(),
            count,
            memory: Memory::Heap(heap.clone(), range),
            element: PhantomData,
        })
    }
}

fn bytes<T>(count: usize) -> io::Result<usize> {
    let bytes = count.checked_mul(size_of::<T>());
    bytes.ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

impl<T> Deref for Buffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `count` elements were mapped, and zeros are one of any `Element`; without any the pointer
        // is aligned, as it has to be.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.count) }
    }
}

impl<T> DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.count) }
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        let bytes = self.count * size_of::<T>();
        match &self.memory {
            Memory::Heap(heap, range) => heap.release(*range),
            Memory::Own if bytes > 0 => {
                // SAFETY: mapped in `new`, and borrowed by nobody any more. An error would leave it mapped.
                let _ = unsafe { munmap(self.base.as_ptr().cast(), bytes) };
            }
            Memory::Own => {}
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_and_aligned_and_may_be_none() {
        let mut buffer = Buffer::<f64>::new(1_000).unwrap();
        assert!(buffer.iter().all(|value| *value == 0.0));
        assert_eq!(buffer.as_ptr().align_offset(4096), 0);
        buffer[999] = 1.0;
        assert_eq!(buffer.iter().sum::<f64>(), 1.0);
        assert_eq!(Buffer::<f32>::new(0).unwrap().len(), 0);
        let error = Buffer::<f64>::new(usize::MAX / 4).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
    }
}
