//! Memory that this process may lock: verbs lock every buffer that an adapter reads or writes.

use rustix::process::{Resource, getrlimit};

use super::fact::Fact;
use super::quantity::{Bytes, Limit};
use super::root::{Root, field};

/// The bit of `CAP_IPC_LOCK`.
const IPC_LOCK: u32 = 14;

/// What `/proc/self/ns/user` links to outside of every container: `USER_NS_INIT_INO` of the kernel.
const HOST_USERS: &str = "user:[4026531837]";

/// Memory that this process may lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLock {
    /// What it may lock now.
    pub soft: Fact<Limit<Bytes>>,
    /// What it may raise that to.
    pub hard: Fact<Limit<Bytes>>,
    /// Whether it has the capability `CAP_IPC_LOCK`, with which no limit holds.
    pub ipc_lock: Fact<bool>,
    /// Whether it is in a user namespace, as a container without root is: there the capability is shown and does
    /// not count.
    pub in_user_namespace: Fact<bool>,
}

impl MemoryLock {
    pub(super) fn gather(root: &Root) -> Self {
        let limit = |bytes: Option<u64>| match bytes {
            Some(bytes) => Limit::AtMost(Bytes(bytes)),
            None => Limit::Unlimited,
        };
        let limits = getrlimit(Resource::Memlock);
        let users = "/proc/self/ns/user";
        Self {
            soft: Fact::new(Some(limit(limits.current)), "RLIMIT_MEMLOCK, soft"),
            hard: Fact::new(Some(limit(limits.maximum)), "RLIMIT_MEMLOCK, hard"),
            ipc_lock: Fact::of_file(root, "/proc/self/status", |status| {
                has_capability(field(status, "CapEff")?, IPC_LOCK)
            }),
            in_user_namespace: Fact::new(root.link(users).map(|link| link != HOST_USERS), users),
        }
    }

    /// What this process may lock.
    pub fn limit(&self) -> Limit<Bytes> {
        let counts = self.in_user_namespace.value != Some(true);
        match self.soft.value {
            Some(limit) if !(self.ipc_lock.value == Some(true) && counts) => limit,
            _ => Limit::Unlimited,
        }
    }

    /// What to do if `needed` has to be locked; `None` if it may be.
    pub fn remedy(&self, needed: Bytes) -> Option<String> {
        let limit = self.limit();
        if limit.allows(needed) {
            return None;
        }
        let short = format!("{limit} of locked memory, and verbs need {needed}");
        if let Some(hard) = self.hard.value.filter(|hard| hard.allows(needed)) {
            return Some(format!(
                "{short}: ulimit -l {} before the program starts (up to {hard} here)",
                needed.0.div_ceil(1024)
            ));
        }
        // Where the capability is there without effect, asking for it is no help.
        Some(match self.in_user_namespace.value == Some(true) {
            true => format!(
                "{short}: in a user namespace CAP_IPC_LOCK does not count: raise the limit of who starts the container (limits.conf, systemd: LimitMEMLOCK=infinity), then podman: --ulimit memlock=-1, Kubernetes: hostUsers: true"
            ),
            false => format!(
                "{short}: Docker and podman: --ulimit memlock=-1, Kubernetes: capability IPC_LOCK, systemd and slurmd: LimitMEMLOCK=infinity, others: memlock in /etc/security/limits.conf"
            ),
        })
    }
}

/// Whether a mask of `/proc/self/status` has a capability.
fn has_capability(mask: &str, capability: u32) -> Option<bool> {
    let mask = u64::from_str_radix(mask, 16).ok()?;
    Some(mask >> capability & 1 == 1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::host::root::folder;

    fn lock(soft: u64, hard: Limit<Bytes>, ipc_lock: bool, in_user_namespace: bool) -> MemoryLock {
        MemoryLock {
            soft: Fact::new(Some(Limit::AtMost(Bytes(soft))), ""),
            hard: Fact::new(Some(hard), ""),
            ipc_lock: Fact::new(Some(ipc_lock), ""),
            in_user_namespace: Fact::new(Some(in_user_namespace), ""),
        }
    }

    #[test]
    fn masks_of_capabilities() {
        for (mask, expected) in [
            // Root on a host; Docker's defaults; those with IPC_LOCK; none.
            ("000001ffffffffff", Some(true)),
            ("00000000a80425fb", Some(false)),
            ("00000000a80465fb", Some(true)),
            ("0000000000000000", Some(false)),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(has_capability(mask, IPC_LOCK), expected, "{mask}");
        }
    }

    #[test]
    fn files_are_read_where_they_are() {
        let (folder, root) = folder(&[("/proc/self/status", "CapEff:\t0000000000004000\n")]);
        let found = MemoryLock::gather(&root);
        assert_eq!(found.ipc_lock.to_string(), "true (/proc/self/status)");
        assert_eq!(found.in_user_namespace.value, None);
        assert_eq!(found.limit(), Limit::Unlimited);
        let users = folder.path().join("proc/self/ns");
        std::fs::create_dir(&users).unwrap();
        std::os::unix::fs::symlink("user:[4026532801]", users.join("user")).unwrap();
        let found = MemoryLock::gather(&root);
        assert_eq!(found.in_user_namespace.value, Some(true));
        assert_eq!(found.limit(), found.soft.value.unwrap());
    }

    #[test]
    fn the_hard_limit_is_not_below_the_soft_one() {
        let found = MemoryLock::gather(&Root::of_process());
        assert!(found.hard.value >= found.soft.value, "{found:?}");
        assert!(found.ipc_lock.value.is_some() && found.in_user_namespace.value.is_some());
    }

    #[test]
    fn what_may_be_locked_has_no_remedy() {
        let none = Limit::AtMost(Bytes(8 << 20));
        assert_eq!(
            lock(8 << 20, none, false, false).remedy(Bytes(8 << 20)),
            None
        );
        assert_eq!(
            lock(8 << 20, none, true, false).remedy(Bytes(1 << 40)),
            None
        );
    }

    #[test]
    fn what_may_not_be_locked_has_one() {
        let (few, needed) = (Limit::AtMost(Bytes(8 << 20)), Bytes(52 << 20));
        for (found, parts) in [
            (
                lock(8 << 20, few, false, false),
                ["--ulimit memlock=-1", "capability IPC_LOCK"],
            ),
            (
                lock(8 << 20, few, true, true),
                [
                    "in a user namespace CAP_IPC_LOCK does not",
                    "hostUsers: true",
                ],
            ),
            (
                lock(8 << 20, Limit::Unlimited, false, false),
                ["ulimit -l 53248 before", "up to unlimited"],
            ),
        ] {
            let text = found.remedy(needed).unwrap();
            assert!(
                text.starts_with("8 MiB of locked memory, and verbs need 52 MiB: "),
                "{text}"
            );
            for part in parts {
                assert!(text.contains(part) && !text.contains('\n'), "{text}");
            }
        }
    }
}
