//! Files of memory of a given size.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::ftruncate;
use rustix::process::{Resource, getrlimit};

/// Makes `file` of `size` bytes, which take memory only when they are written to.
///
/// # Errors
///
/// If the system refuses, or would end the process for it as it does beyond `ulimit -f`.
pub(super) fn set_size(file: impl AsFd, size: usize) -> io::Result<()> {
    let limit = getrlimit(Resource::Fsize).current;
    if let Some(limit) = limit.filter(|limit| *limit < size as u64) {
        return Err(io::Error::other(format!(
            "`ulimit -f` allows files of {limit} bytes, and a file of memory has {size} bytes of addresses: ulimit -f unlimited"
        )));
    }
    Ok(ftruncate(file, size as u64)?)
}
