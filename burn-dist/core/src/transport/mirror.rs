//! Memory that is mapped twice in a row, so that a ring of bytes has no seam: what begins near its end goes on behind
//! it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use super::file_size::set_size;

/// `capacity` bytes at two addresses, the second right behind the first.
#[derive(Debug)]
pub(crate) struct Mirror {
    base: NonNull<u8>,
    capacity: usize,
}

// SAFETY: the mapping belongs to no thread.
unsafe impl Send for Mirror {}

impl Mirror {
    /// Maps `capacity` bytes of a file from `offset` on; both are whole pages.
    pub fn of_file(file: BorrowedFd<'_>, offset: u64, capacity: usize) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a mapping of new addresses, chosen by the system.
        let base = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                2 * capacity,
                ProtFlags::empty(),
                MapFlags::PRIVATE,
            )?
        };
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        // From here on dropped, and so unmapped, if the rest fails.
        let mirror = Self { base, capacity };
        for half in [0, capacity] {
            // SAFETY: within the `2 * capacity` addresses that were reserved above.
            let at = unsafe { base.as_ptr().add(half) };
            // SAFETY: replaces only what was reserved above, which nothing uses yet.
            unsafe {
                let flags = MapFlags::SHARED | MapFlags::FIXED;
                mmap(at.cast(), capacity, access, flags, file, offset)?
            };
        }
        Ok(mirror)
    }

    /// Memory of this process alone.
    pub fn private(capacity: usize) -> io::Result<Self> {
        let file = memfd_create("burn-dist", MemfdFlags::CLOEXEC)?;
        set_size(&file, capacity)?;
        Self::of_file(file.as_fd(), 0, capacity)
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// `count` bytes from `position` of the stream on.
    ///
    /// # Safety
    ///
    /// Nobody may write to them while they are borrowed.
    pub unsafe fn bytes(&self, position: u64, count: usize) -> &[u8] {
        assert!(count <= self.capacity, "more than there is");
        let start = (position % self.capacity as u64) as usize;
        // SAFETY: `start < capacity` and `count <= capacity`, within the two mappings; the caller sees to the rest.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(start), count) }
    }

    /// The same to write.
    ///
    /// # Safety
    ///
    /// Nobody else may read or write them while they are borrowed.
    pub unsafe fn bytes_mut(&mut self, position: u64, count: usize) -> &mut [u8] {
        assert!(count <= self.capacity, "more than there is");
        let start = (position % self.capacity as u64) as usize;
        // SAFETY: as in `bytes`.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(start), count) }
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        // SAFETY: the addresses were reserved in `of_file`, and nothing of them is borrowed any more. An error would
        // leave them mapped, which harms nobody.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), 2 * self.capacity) };
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_near_the_end_goes_on_at_the_start() {
        let mut mirror = Mirror::private(4096).unwrap();
        // SAFETY: borrowed once at a time.
        unsafe {
            mirror.bytes_mut(4094, 4).copy_from_slice(&[1, 2, 3, 4]);
            assert_eq!(mirror.bytes(4096, 2), [3, 4]);
            assert_eq!(mirror.bytes(4096 * 7 - 2, 4), [1, 2, 3, 4]);
        }
    }
}
