//! One builder of a cache on a host. It may not know what is built.
//!
//! The lock only saves work: builders that do not see each other's lock both build, and the one
//! that is second throws its file away.

use std::env::temp_dir;
use std::fmt::Display;
use std::fs::{File, OpenOptions, TryLockError};
use std::hash::Hasher;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use siphasher::sip::SipHasher24;

use super::key::CacheKey;

/// Held while it lives; the system releases it when the process ends, however it ends.
pub(super) struct Lock {
    /// `None` where nothing can be locked.
    _file: Option<File>,
    reach: Reach,
}

/// Whom a lock keeps away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// All who see the locks of the folder: those of this host, whatever container they are in.
    Folder,
    /// Those with the same folder for temporary files.
    Host,
    /// Nobody.
    None,
}

impl Lock {
    /// Waits for the lock of the cache `key` in `folder`; `wait` is called if that takes time.
    ///
    /// Where the file system of `folder` has no locks (Lustre without `flock`, NFS without its lock
    /// service), or the file of the lock cannot be opened there, it is one in the folder for
    /// temporary files of this host. The file of a lock stays: to remove it would take the lock from
    /// those who wait.
    pub(super) fn take(folder: &Path, key: CacheKey, wait: &dyn Fn()) -> Self {
        Self::take_with(folder, key, |file| lock(file, wait))
    }

    fn take_with(folder: &Path, key: CacheKey, lock: impl Fn(File) -> io::Result<File>) -> Self {
        let places = [
            (folder_lock(folder, key), Reach::Folder),
            (host_lock(folder, key), Reach::Host),
        ];
        for (path, reach) in places {
            // Which error says that there are no locks depends on the file system.
            if let Ok(file) = open(&path, true).and_then(&lock) {
                let _file = Some(file);
                return Self { _file, reach };
            }
        }
        Self {
            _file: None,
            reach: Reach::None,
        }
    }

    /// Whether it lies in the folder of the cache, so that no other builder that has such a lock is
    /// at work.
    pub(super) fn is_in_folder(&self) -> bool {
        self.reach == Reach::Folder
    }

    /// Whether the lock in `folder` of the cache `key` is there and nobody holds it.
    pub(super) fn is_free(folder: &Path, key: &str) -> bool {
        open(&folder_lock(folder, key), false).is_ok_and(|file| file.try_lock().is_ok())
    }
}

/// The file of the lock for all who share the folder.
fn folder_lock(folder: &Path, key: impl Display) -> PathBuf {
    folder.join(format!(".{key}.lock"))
}

/// The file of the lock for this host alone.
fn host_lock(folder: &Path, key: CacheKey) -> PathBuf {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let mut hasher = SipHasher24::new();
    hasher.write(folder.as_os_str().as_encoded_bytes());
    temp_dir().join(format!("{key}-{:016x}.lock", hasher.finish()))
}

/// Opens the file of a lock; makes it, if `create`, so that whoever the umask admits may use it.
fn open(path: &Path, create: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    match options
        .create(create)
        .truncate(false)
        .write(true)
        .open(path)
    {
        // That of another user, in a folder that all may write. To lock it reading is enough, but
        // for NFS, where it would not be denied alone.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => File::open(path),
        opened => opened,
    }
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
        let first = Lock::take(&path, CacheKey::of_number(KEY), &|| panic!("nobody has it"));
        let (sender, receiver) = channel();
        let second = spawn(move || {
            let waits = || sender.send("waits").unwrap();
            let lock = Lock::take(&path, CacheKey::of_number(KEY), &waits);
            assert!(lock.is_in_folder());
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
            Lock::take(folder.path(), CacheKey::of_number(key), &wait)
        };
        let locks = [take(1), take(2)];
        assert!(locks.iter().all(Lock::is_in_folder));
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
        let held = Lock::take_with(folder.path(), key, of_host);
        assert_eq!(held.reach, Reach::Host);
        let again = open(&host_lock, false).unwrap();
        assert!(matches!(again.try_lock(), Err(TryLockError::WouldBlock)));
        drop(held);
        assert!(again.try_lock().is_ok());
        std::fs::remove_file(host_lock).unwrap();

        let nowhere = |_| Err(ErrorKind::Unsupported.into());
        let lock = Lock::take_with(folder.path(), key, nowhere);
        assert_eq!(lock.reach, Reach::None);
    }

    #[test]
    fn a_lock_is_free_once_it_is_dropped_and_not_where_it_never_was() {
        let folder = tempfile::tempdir().unwrap();
        let key = CacheKey::of_number(KEY);
        let is_free = || Lock::is_free(folder.path(), &key.to_string());
        assert!(!is_free());
        let lock = Lock::take(folder.path(), key, &|| panic!("nobody has it"));
        assert!(!is_free());
        drop(lock);
        assert!(is_free());
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
