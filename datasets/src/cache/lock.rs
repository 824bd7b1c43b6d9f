//! One builder of a cache on a host. It may not know what is built.
//!
//! The lock only saves work: builders that do not see each other's lock both build, and the one
//! that is second throws its file away.

use std::env::temp_dir;
use std::fs::{File, OpenOptions, TryLockError};
use std::hash::Hasher;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use siphasher::sip::SipHasher24;

use super::key::CacheKey;

/// Held while it lives; the system releases it when the process ends, however it ends.
pub(super) struct Lock {
    /// `None` where nothing can be locked.
    file: Option<File>,
}

impl Lock {
    /// Waits for the lock of the cache `key` in `folder`; `wait` is called if that takes time.
    ///
    /// Where the file system of `folder` has no locks (Lustre without `flock`, NFS without its lock
    /// service) it is one in the folder for temporary files of this host. The file of a lock stays
    /// there: to remove it would take the lock from those who wait.
    ///
    /// # Errors
    ///
    /// The file of the lock cannot be made in `folder`.
    pub(super) fn take(folder: &Path, key: CacheKey, wait: &dyn Fn()) -> io::Result<Self> {
        Self::take_with(folder, key, |file| lock(file, wait))
    }

    fn take_with(
        folder: &Path,
        key: CacheKey,
        lock: impl Fn(File) -> io::Result<File>,
    ) -> io::Result<Self> {
        let shared = create(&folder.join(format!(".{key}.lock")))?;
        // Which error says that there are no locks depends on the file system.
        let file = lock(shared).or_else(|_| create(&host_lock(folder, key)).and_then(&lock));
        Ok(Self { file: file.ok() })
    }

    /// Whether it keeps other builders of this host away.
    pub(super) fn is_held(&self) -> bool {
        self.file.is_some()
    }
}

/// The file of the lock for this host alone.
fn host_lock(folder: &Path, key: CacheKey) -> PathBuf {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let mut hasher = SipHasher24::new();
    hasher.write(folder.as_os_str().as_encoded_bytes());
    temp_dir().join(format!("{key}-{:016x}.lock", hasher.finish()))
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
}

fn lock(file: File, wait: &dyn Fn()) -> io::Result<File> {
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => wait(),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    loop {
        match file.lock() {
            Ok(()) => return Ok(file),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread::spawn;

    use super::*;

    const KEY: u128 = 0xabc;

    #[test]
    fn the_second_waits_until_the_first_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        let first =
            Lock::take(&path, CacheKey::of_number(KEY), &|| panic!("nobody has it")).unwrap();
        let (sender, receiver) = channel();
        let second = spawn(move || {
            let waits = || sender.send("waits").unwrap();
            let lock = Lock::take(&path, CacheKey::of_number(KEY), &waits).unwrap();
            assert!(lock.is_held());
            sender.send("has it").unwrap();
        });
        assert_eq!(receiver.recv().unwrap(), "waits");
        assert!(receiver.try_recv().is_err());
        drop(first);
        assert_eq!(receiver.recv().unwrap(), "has it");
        second.join().unwrap();
    }

    #[test]
    fn two_caches_have_two_locks() {
        let folder = tempfile::tempdir().unwrap();
        let take = |key| {
            let wait = || panic!("nobody has it");
            Lock::take(folder.path(), CacheKey::of_number(key), &wait).unwrap()
        };
        let locks = [take(1), take(2)];
        assert!(locks.iter().all(Lock::is_held));
    }

    #[test]
    fn without_locks_in_the_folder_it_is_the_hosts() {
        let folder = tempfile::tempdir().unwrap();
        let key = CacheKey::of_number(KEY);
        let host_lock = host_lock(folder.path(), key);
        // The folder's file system has no locks; the host's has.
        let of_host = |file: File| match host_lock.exists() {
            true => lock(file, &|| panic!("nobody has it")),
            false => Err(ErrorKind::Unsupported.into()),
        };
        let held = Lock::take_with(folder.path(), key, of_host).unwrap();
        assert!(held.is_held());
        let again = create(&host_lock).unwrap();
        assert!(matches!(again.try_lock(), Err(TryLockError::WouldBlock)));
        drop(held);
        assert!(again.try_lock().is_ok());
        std::fs::remove_file(host_lock).unwrap();

        let nowhere = |_| Err(ErrorKind::Unsupported.into());
        let lock = Lock::take_with(folder.path(), key, nowhere).unwrap();
        assert!(!lock.is_held());
    }

    #[test]
    fn another_folder_has_another_lock_of_the_host() {
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let key = CacheKey::of_number(KEY);
        let [first, second] = folders
            .each_ref()
            .map(|folder| host_lock(folder.path(), key));
        assert_ne!(first, second);
        assert_eq!(first, host_lock(&folders[0].path().join("."), key));
    }
}
