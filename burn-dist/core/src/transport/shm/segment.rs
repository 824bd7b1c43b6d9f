//! A file of memory and the numbers in it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::fs::{
    FallocateFlags, FlockOperation, MemfdFlags, Mode, OFlags, fallocate, flock, fstat,
    memfd_create, open, unlink,
};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use serde::{Deserialize, Serialize};

use crate::transport::file_size::set_size;

/// Bytes of a page, of which rings and their numbers are multiples.
pub(super) const PAGE: usize = 4096;

/// Where the system keeps shared memory.
const FOLDER: &str = "/dev/shm";

/// Where another process finds a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Place {
    /// Among the open files of its owner, whose number the other process has to see.
    Owner {
        /// The owner's number.
        process: u32,
        /// The file's.
        descriptor: i32,
    },
    /// In `/dev/shm`, by a name.
    Folder(String),
}

/// Bytes of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// Addresses in all.
    pub addresses: usize,
    /// For which there is memory from the start.
    pub used: usize,
    /// That are mapped.
    pub mapped: usize,
}

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
    /// Makes a file without a name, which goes with the last process that has it open, and where others find it.
    pub fn unnamed(sizes: Sizes) -> io::Result<(Self, Place)> {
        let file = memfd_create("burn-dist", MemfdFlags::CLOEXEC)?;
        let place = Place::Owner {
            process: std::process::id(),
            descriptor: file.as_raw_fd(),
        };
        Ok((Self::prepare(file, sizes)?, place))
    }

    /// Makes a file in `/dev/shm`.
    pub fn named(name: &str, sizes: Sizes) -> io::Result<(Self, Place)> {
        let file = make(name)?;
        let segment = Self::prepare(file, sizes).inspect_err(|_| remove(name))?;
        Ok((segment, Place::Folder(name.to_owned())))
    }

    fn prepare(file: OwnedFd, sizes: Sizes) -> io::Result<Self> {
        set_size(&file, sizes.addresses)?;
        // Memory that is missing has to be an error here, and not a signal at first use.
        fallocate(&file, FallocateFlags::KEEP_SIZE, 0, sizes.used as u64)?;
        Self::map(file, sizes.mapped)
    }

    /// Opens a file that another process of this user has made.
    pub fn open(place: &Place, sizes: Sizes) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let file = match place {
            Place::Owner {
                process,
                descriptor,
            } => open(
                format!("/proc/{process}/fd/{descriptor}"),
                flags,
                Mode::empty(),
            )?,
            // A name is no path.
            Place::Folder(name) if name.contains('/') => {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            Place::Folder(name) => open(path(name), flags | OFlags::NOFOLLOW, Mode::empty())?,
        };
        if fstat(&file)?.st_size != sizes.addresses as i64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Self::map(file, sizes.mapped)
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
        // Locked until the name is gone: nobody takes it for a file of the living meanwhile.
        if let Ok(file) = file
            && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
        {
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

    const SIZES: Sizes = Sizes {
        addresses: 2 * PAGE,
        used: PAGE,
        mapped: PAGE,
    };

    #[test]
    fn a_file_is_found_in_its_place_and_is_of_the_size_that_was_agreed() {
        let name = format!("burn-dist-test-{}-place", std::process::id());
        let made = [Segment::unnamed(SIZES), Segment::named(&name, SIZES)];
        for (segment, place) in made.map(Result::unwrap) {
            segment
                .long(8)
                .store(7, std::sync::atomic::Ordering::Relaxed);
            let opened = Segment::open(&place, SIZES).unwrap();
            assert_eq!(opened.long(8).load(std::sync::atomic::Ordering::Relaxed), 7);
            let other = Sizes {
                addresses: 3 * PAGE,
                ..SIZES
            };
            assert!(Segment::open(&place, other).is_err());
        }
        remove(&name);
        let path = Place::Folder("../shm/x".into());
        let error = Segment::open(&path, SIZES).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn files_of_the_dead_are_removed_and_those_of_the_living_are_not() {
        // No name of another job: those are not to be disturbed by a test.
        let prefix = format!("burn-dist-test-{}-", std::process::id());
        let (living, dead) = (format!("{prefix}living"), format!("{prefix}dead"));
        let held = Segment::named(&living, SIZES).unwrap();
        drop(Segment::named(&dead, SIZES).unwrap());
        sweep(&prefix);
        let exists = |name: &str| std::path::Path::new(&path(name)).exists();
        assert!(exists(&living) && !exists(&dead));
        drop(held);
        sweep(&prefix);
        assert!(!exists(&living));
    }
}
