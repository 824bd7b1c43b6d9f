//! Why a cache cannot be had.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::load_error::LoadError;

/// Why a cache cannot be had. Each names the file or the folder.
#[derive(Debug, Error)]
pub enum CacheError {
    /// An image cannot be read, or is bad and not to be skipped; or no image has the wanted size.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The length and the time of an image file cannot be had.
    #[error("{}: the image cannot be examined: {source}", path.display())]
    Examine {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The length or the time of an image file changed between the begin and the end of a build, so
    /// that nobody knows which state was decoded.
    #[error("{}: the image changed while the cache was built: run again when nothing writes there", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The folder is not there and cannot be made, or is a file.
    #[error("{}: the folder of the cache cannot be made: {source}: name another folder", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The cache file is there and cannot be read.
    #[error("{}: the cache cannot be read: {source}: allow it to be read, or name another folder", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The cache has to be built, and its folder can only be read.
    #[error("{}: {found}, and it cannot be written ({source}): name a folder that can be written", folder.display())]
    ReadOnly {
        /// The folder.
        folder: PathBuf,
        /// What was found in the folder.
        found: String,
        /// Why it cannot be written.
        source: io::Error,
    },
    /// The disk is full, or a quota is used up.
    #[error("{}: no space is left for the cache ({source}): free {needed} bytes there, or name another folder", folder.display())]
    DiskFull {
        /// The folder.
        folder: PathBuf,
        /// The size of the whole cache in bytes.
        needed: u64,
        /// What the system says.
        source: io::Error,
    },
    /// The cache cannot be written for another reason.
    #[error("{}: the cache cannot be written: {source}: name another folder", folder.display())]
    Write {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The drive did not keep what was written to it.
    #[error("{}: right after the cache was written {found}: check the drive, or name another folder", path.display())]
    NotKept {
        /// The file.
        path: PathBuf,
        /// What was found in its place.
        found: String,
    },
}
