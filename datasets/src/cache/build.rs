//! Writes a cache file: aside, in one go, then under its name. It may not map it.
//!
//! A full disk is an error of `write`; in a map it would be SIGBUS.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::Path;

use rayon::prelude::*;
use tempfile::NamedTempFile;

use super::CacheProgress;
use super::contents::Found;
use super::error::CacheError;
use super::format::{Entry, Layout};
use super::key::{FileState, file_states};
use super::lock::Lock;
use crate::bad_image::{BadImage, OnBadImage};
use crate::decoding::{Decoded, decode};
use crate::load_error::LoadError;
use crate::source::ImageSource;

/// Images that each thread decodes before they are written: their resized pixels are few beside the
/// full ones of an image that is being decoded.
const DECODED_AT_ONCE: usize = 16;

/// The end of the names of files that are not complete, and whose builders hold a lock in the
/// folder: once it is free, they are dead.
const PARTIAL: &str = ".partial";

/// The same where there is no such lock, so that nobody can know whether the builder lives. Nobody
/// removes them.
const UNLOCKED_PARTIAL: &str = ".unlocked-partial";

/// What is built, from what, and where.
pub(super) struct Build<'a> {
    pub(super) folder: &'a Path,
    pub(super) path: &'a Path,
    pub(super) layout: Layout,
    pub(super) source: &'a ImageSource,
    /// The records of the images, in the order of the file.
    pub(super) order: &'a [usize],
    /// Of their files, when the key was made of them.
    pub(super) states: &'a [FileState],
    pub(super) on_bad_image: OnBadImage,
    pub(super) progress: &'a dyn Fn(CacheProgress),
}

impl Build<'_> {
    /// Writes the file, unless another host is the first to put one in its place.
    pub(super) fn run(&self, lock: &Lock) -> Result<(), CacheError> {
        let failed = |error| self.write_error(Found::Absent.describe(), error);
        let (key, host) = (self.layout.key.to_string(), host());
        let suffix = if lock.is_in_folder() {
            remove_partials(self.folder, &key, &host);
            PARTIAL
        } else {
            UNLOCKED_PARTIAL
        };
        let prefix = format!(".{key}.{host}.{}.", std::process::id());
        // Removed when dropped, whatever fails.
        let partial = create(self.folder, &prefix, suffix).map_err(failed)?;
        self.write(partial.as_file())?;
        self.ensure_unchanged()?;
        partial.as_file().sync_all().map_err(failed)?;
        publish(partial, self.path).map_err(failed)?;
        // So that the name outlasts a power cut. Some network drives cannot; then the next run
        // builds again.
        let _ = File::open(self.folder).and_then(|folder| folder.sync_all());
        Ok(())
    }

    fn write(&self, file: &File) -> Result<(), CacheError> {
        let failed = |error| self.write_error(Found::Absent.describe(), error);
        let (source, size) = (self.source, self.layout.image_size);
        let mut writer = BufWriter::with_capacity(1 << 20, file);
        writer.write_all(&self.layout.header()).map_err(failed)?;
        let mut entries = Vec::with_capacity(self.order.len());
        let mut slot = vec![0; self.layout.slot()];
        for chunk in self
            .order
            .chunks(DECODED_AT_ONCE * rayon::current_num_threads())
        {
            self.tell(entries.len());
            let decoded: Vec<Result<Decoded, LoadError>> = chunk
                .par_iter()
                .with_max_len(1)
                .map(|&index| decode(source, index, size))
                .collect();
            for (&index, decoded) in chunk.iter().zip(decoded) {
                slot.fill(0);
                let reason = match decoded? {
                    Decoded::Pixels(pixels) => {
                        slot[..pixels.len()].copy_from_slice(&pixels);
                        String::new()
                    }
                    Decoded::Bad(reason) if self.on_bad_image == OnBadImage::Skip => reason,
                    Decoded::Bad(reason) => {
                        let bad = BadImage::new(source, index, &reason);
                        return Err(LoadError::Image(bad).into());
                    }
                };
                writer.write_all(&slot).map_err(failed)?;
                let checksum = crc32fast::hash(&slot);
                entries.push(Entry { checksum, reason });
            }
        }
        self.tell(entries.len());
        let index = self.layout.index(&entries);
        writer.write_all(&index).map_err(failed)?;
        writer.flush().map_err(failed)
    }

    fn tell(&self, done: usize) {
        let total = self.order.len();
        (self.progress)(CacheProgress::Building { done, total });
    }

    /// Refuses images that are not in the state of the key any more: what was decoded may be neither
    /// of the two, and the key would find it again once the former state is back.
    fn ensure_unchanged(&self) -> Result<(), CacheError> {
        let states = file_states(self.source, self.order)?;
        let changed = self.states.iter().zip(&states).zip(self.order);
        let mut changed = changed.filter(|((before, after), _)| before != after);
        match changed.find_map(|(_, &index)| self.source.path(index)) {
            Some(path) => Err(CacheError::Changed {
                path: path.to_owned(),
            }),
            None => Ok(()),
        }
    }

    /// What `error` means, when it is the folder that was to be written; `found` is what was in it.
    pub(super) fn write_error(&self, found: String, source: io::Error) -> CacheError {
        let folder = self.folder.to_owned();
        match source.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => CacheError::DiskFull {
                folder,
                needed: self.layout.least_length(),
                source,
            },
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => CacheError::ReadOnly {
                folder,
                found,
                source,
            },
            _ => CacheError::Write { folder, source },
        }
    }
}

/// Removes what builders on this `host`, which were killed, have left: of the cache `key`, whose
/// lock in the folder is held, and of others, whose locks are free. What cannot be removed is in
/// nobody's way.
fn remove_partials(folder: &Path, key: &str, host: &str) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        // A builder that begins after its lock was found free writes to another name.
        if let Some(of) = key_of_partial(&name, host)
            && (of == key || Lock::is_free(folder, of))
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The key in the `name` of a file, if it is one that a builder on this `host` writes to under a
/// lock in the folder.
fn key_of_partial<'a>(name: &'a str, host: &str) -> Option<&'a str> {
    let (key, rest) = name.strip_prefix('.')?.split_once('.')?;
    let (of_host, _) = rest.strip_suffix(PARTIAL)?.split_once('.')?;
    (of_host == host).then_some(key)
}

/// The name of this host as a part of a file name, without dots: they part the names of partials.
fn host() -> String {
    let name = gethostname::gethostname();
    let name = name.to_string_lossy();
    name.replace(
        |letter: char| !letter.is_ascii_alphanumeric() && letter != '-',
        "_",
    )
}

/// Makes the file to write to. Random letters make its name its own, also where containers share
/// the name of a host and have the same process ids.
fn create(folder: &Path, prefix: &str, suffix: &str) -> io::Result<NamedTempFile> {
    // As any other file, and not for its owner alone: others may use the cache.
    tempfile::Builder::new()
        .prefix(prefix)
        .suffix(suffix)
        .make_in(folder, |path| File::create_new(path))
}

/// Gives the complete file its name, if no file has it yet.
///
/// Never in place of another: a host that shares no locks with this one may have finished first,
/// and on NFS a file that is replaced is lost to the hosts that map it.
fn publish(partial: NamedTempFile, path: &Path) -> io::Result<()> {
    match partial.persist_noclobber(path) {
        Ok(_) => Ok(()),
        Err(failed) if failed.error.kind() == ErrorKind::AlreadyExists => Ok(()),
        // Some file systems can only replace.
        Err(failed) => failed
            .file
            .persist(path)
            .map(drop)
            .map_err(|failed| failed.error),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn the_second_of_two_hosts_leaves_the_file_of_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache");
        for host in ["first", "second"] {
            let mut partial = create(folder.path(), ".key.host.1.", PARTIAL).unwrap();
            partial.write_all(host.as_bytes()).unwrap();
            publish(partial, &path).unwrap();
        }
        assert_eq!(fs::read_to_string(path).unwrap(), "first");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn only_partials_of_this_host_that_a_lock_tells_of_have_a_key() {
        let key = |name| key_of_partial(name, "host");
        assert_eq!(key(".abc.host.12.x9.partial"), Some("abc"));
        for name in [
            ".abc.host.12.x9.unlocked-partial",
            ".abc.host-2.12.x9.partial",
            ".abc.lock",
            "abc.chestcache",
            "abc.host.12.x9.partial",
            ".another.partial",
        ] {
            assert_eq!(key(name), None, "{name}");
        }
    }

    #[test]
    fn the_name_of_the_host_is_one_part_of_a_file_name() {
        let host = host();
        assert!(!host.is_empty());
        assert!(!host.contains(['.', '/']), "{host}");
    }
}
