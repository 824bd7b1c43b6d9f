//! `/dev/shm`: memory that processes of a host share.

use rustix::fs::{Access, access, statvfs};

use super::fact::Fact;
use super::quantity::{Bytes, Limit};
use super::root::Root;

/// Where it is.
const FOLDER: &str = "/dev/shm";

/// `/dev/shm`: memory that processes of a host share.
///
/// What is in it also counts against the memory of the control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedMemory {
    /// What it holds; 64 MiB in containers of which nothing else is said.
    pub total: Fact<Limit<Bytes>>,
    /// What is left of it. More may be promised than is there: a write beyond it ends the process with `SIGBUS`.
    pub free: Fact<Limit<Bytes>>,
    /// Whether this process may make files in it; unknown where it is not there.
    pub writable: Fact<bool>,
}

impl SharedMemory {
    /// That of this process.
    pub fn of_process() -> Self {
        Self::gather(&Root::of_process())
    }

    pub(super) fn gather(root: &Root) -> Self {
        let folder = root.at(FOLDER);
        let (total, free) = match statvfs(&folder) {
            // A tmpfs without a limit counts no blocks.
            Ok(found) if found.f_blocks == 0 => (Some(Limit::Unlimited), Some(Limit::Unlimited)),
            Ok(found) => {
                let bytes =
                    |blocks: u64| Some(Limit::AtMost(Bytes(blocks.saturating_mul(found.f_frsize))));
                (bytes(found.f_blocks), bytes(found.f_bavail))
            }
            Err(_) => (None, None),
        };
        let may_write = access(&folder, Access::WRITE_OK | Access::EXEC_OK).is_ok();
        Self {
            total: Fact::new(total, FOLDER),
            free: Fact::new(free, FOLDER),
            writable: Fact::new(total.map(|_| may_write), FOLDER),
        }
    }

    /// What to do if `needed` has to fit in; `None` if it does.
    pub fn remedy(&self, needed: Bytes) -> Option<String> {
        match (self.total.value, self.free.value, self.writable.value) {
            (Some(total), Some(free), Some(true)) => (!free.allows(needed)).then(|| {
                format!(
                    "/dev/shm has {free} free of {total}, and {needed} are needed: Docker and podman: --shm-size or --ipc=host, Kubernetes: an emptyDir with medium: Memory at /dev/shm"
                )
            }),
            (Some(_), Some(_), _) => Some(
                "/dev/shm may not be written: mount it with mode 1777, and not read-only".into(),
            ),
            _ => Some("/dev/shm is not there: mount a tmpfs at it with mode 1777".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::host::root::folder;

    #[test]
    fn a_folder_has_room() {
        let (_folder, root) = folder(&[("/dev/shm/file", "")]);
        let found = SharedMemory::gather(&root);
        assert!(found.free.value <= found.total.value && found.total.value.is_some());
        assert_eq!(found.writable.to_string(), "true (/dev/shm)");
        assert_eq!(found.remedy(Bytes(1)), None);
    }

    #[test]
    fn where_it_is_missing_it_is_unknown() {
        let (_folder, root) = folder(&[]);
        let found = SharedMemory::gather(&root);
        assert_eq!((found.total.value, found.writable.value), (None, None));
        let text = found.remedy(Bytes(1)).unwrap();
        assert!(text.starts_with("/dev/shm is not there: "), "{text}");
    }

    #[test]
    fn what_is_too_small_or_closed_has_a_remedy() {
        let limit = |mebibytes: u64| Fact::new(Some(Limit::AtMost(Bytes(mebibytes << 20))), "");
        let mut found = SharedMemory {
            total: limit(64),
            free: limit(12),
            writable: Fact::new(Some(true), ""),
        };
        assert_eq!(found.remedy(Bytes(12 << 20)), None);
        let text = found.remedy(Bytes(52 << 20)).unwrap();
        for part in [
            "/dev/shm has 12 MiB free of 64 MiB, and 52 MiB are needed: ",
            "--shm-size",
            "medium: Memory",
        ] {
            assert!(text.contains(part) && !text.contains('\n'), "{text}");
        }
        found.writable.value = Some(false);
        let text = found.remedy(Bytes(1)).unwrap();
        assert!(text.starts_with("/dev/shm may not be written: "), "{text}");
    }
}
