//! A file in `/dev/shm` and the numbers in it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::fs::{
    FallocateFlags, FlockOperation, Mode, OFlags, fallocate, flock, fstat, ftruncate, open, unlink,
};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Bytes of a page, of which rings and their numbers are multiples.
pub(super) const PAGE: usize = 4096;

/// Where the system keeps shared memory.
const FOLDER: &str = "/dev/shm";

/// The first bytes of a file, mapped: all but the content of rings.
#[derive(Debug)]
pub(super) struct Segment {
    base: NonNull<u8>,
    length: usize,
    pub file: OwnedFd,
}

// SAFETY: what is in it is reached through atomic numbers only.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    /// Makes a file of `size` bytes, for the first `used` of which there is room, and maps the first `mapped`.
    pub fn create(name: &str, size: usize, used: usize, mapped: usize) -> io::Result<Self> {
        let file = make(name)?;
        // Memory that is missing has to be an error here, and not a signal at first use.
        let room = fallocate(&file, FallocateFlags::empty(), 0, used as u64)
            .and_then(|()| ftruncate(&file, size as u64));
        room.map_err(io::Error::from)
            .and_then(|()| Self::map(file, mapped))
            .inspect_err(|_| remove(name))
    }

    /// Opens a file that another process of this user has made, of `size` bytes.
    pub fn open(name: &str, size: usize, mapped: usize) -> io::Result<Self> {
        // A name is no path.
        if name.contains('/') {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = open(path(name), flags, Mode::empty())?;
        if fstat(&file)?.st_size != size as i64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Self::map(file, mapped)
    }

    fn map(file: OwnedFd, length: usize) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a mapping of new addresses, chosen by the system.
        let base = unsafe {
            mmap(
                std::ptr::null_mut(),
                length,
                access,
                MapFlags::SHARED,
                file.as_fd(),
                0,
            )?
        };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, length, file })
    }

    /// The number of 64 bits at an offset.
    pub fn long(&self, offset: usize) -> &AtomicU64 {
        assert!(offset + 8 <= self.length && offset.is_multiple_of(8));
        // SAFETY: within the mapping and aligned; other processes use it as an atomic number as well.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    /// The number of 32 bits at an offset.
    pub fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset + 4 <= self.length && offset.is_multiple_of(4));
        // SAFETY: as in `long`.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: mapped in `map`; numbers of it are borrowed from the segment. An error would leave it mapped.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.length) };
    }
}

/// Makes a file and locks it, which shows to [`sweep`] that its owner lives.
fn make(name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    loop {
        let file = open(path(name), flags, Mode::RUSR | Mode::WUSR)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) if fstat(&file)?.st_nlink > 0 => return Ok(file),
            // Swept away by another process before it was locked.
            Ok(()) | Err(Errno::WOULDBLOCK) => remove(name),
            Err(error) => {
                remove(name);
                return Err(error.into());
            }
        }
    }
}

/// Removes the name of a file; what has opened it keeps it.
pub(super) fn remove(name: &str) {
    // Another may have been faster, which is as well.
    let _ = unlink(path(name));
}

/// Removes files whose names begin with `prefix` and whose owners were killed before they could.
pub(super) fn sweep(prefix: &str) {
    let files = std::fs::read_dir(FOLDER).into_iter().flatten().flatten();
    let names = files.filter_map(|file| file.file_name().into_string().ok());
    for name in names.filter(|name| name.starts_with(prefix)) {
        // What belongs to other users cannot be opened, and what an owner still holds cannot be locked.
        let file = open(
            path(&name),
            OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW,
            Mode::empty(),
        );
        let lock = FlockOperation::NonBlockingLockExclusive;
        if file.is_ok_and(|file| flock(&file, lock).is_ok()) {
            remove(&name);
        }
    }
}

fn path(name: &str) -> String {
    format!("{FOLDER}/{name}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_dead_are_removed_and_those_of_the_living_are_not() {
        // No name of another job: those are not to be disturbed by a test.
        let prefix = format!("burn-dist-test-{}-", std::process::id());
        let (living, dead) = (format!("{prefix}living"), format!("{prefix}dead"));
        let held = Segment::create(&living, PAGE, PAGE, PAGE).unwrap();
        drop(Segment::create(&dead, PAGE, PAGE, PAGE).unwrap());
        sweep(&prefix);
        let exists = |name: &str| std::path::Path::new(&path(name)).exists();
        assert!(exists(&living) && !exists(&dead));
        drop(held);
        sweep(&prefix);
        assert!(!exists(&living));
    }
}
