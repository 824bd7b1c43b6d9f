//! All facts of a host together.

use super::cgroup::{CgroupVersion, Group, MEMBERSHIP};
use super::container::Container;
use super::cores::Cores;
use super::fact::Fact;
use super::memory::Memory;
use super::memory_limit::MemoryLimit;
use super::memory_lock::MemoryLock;
use super::name_resolution::own_name;
use super::namespaces::Namespaces;
use super::open_files::OpenFiles;
use super::root::Root;
use super::shared_memory::SharedMemory;
use super::transparent_huge_pages::TransparentHugePages;

/// What this host and its container offer to this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFacts {
    /// The name of the host, or of its container. Two hosts may have the same.
    pub name: Fact<String>,
    /// What tells one start of a host from every other, in all its containers. Copies of a virtual machine that
    /// was frozen share it.
    pub boot_id: Fact<String>,
    /// Which processes can see each other.
    pub namespaces: Namespaces,
    /// Cores.
    pub cores: Cores,
    /// The version of control groups that limits memory.
    pub cgroup_version: Fact<CgroupVersion>,
    /// Memory of the host.
    pub memory: Memory,
    /// Memory that the control group allows.
    pub memory_limit: MemoryLimit,
    /// Memory that may be locked.
    pub memory_lock: MemoryLock,
    /// `/dev/shm`.
    pub shared_memory: SharedMemory,
    /// The kind of container.
    pub container: Container,
    /// Pages of 2 MiB.
    pub transparent_huge_pages: Fact<TransparentHugePages>,
    /// Files and sockets.
    pub open_files: OpenFiles,
}

impl HostFacts {
    /// Those of this process, at once: no name is resolved. What the host does not say is unknown.
    ///
    /// ```
    /// use burn_dist_core::host::{Bytes, HostFacts};
    ///
    /// let facts = HostFacts::gather();
    /// println!("{}, {}", facts.name, facts.container);
    /// if let Some(remedy) = facts.memory_lock.remedy(Bytes(52 << 20)) {
    ///     println!("{remedy}");
    /// }
    /// ```
    pub fn gather() -> Self {
        Self::of(&Root::of_process(), |name| std::env::var(name).ok())
    }

    fn of(root: &Root, variable: impl Fn(&str) -> Option<String>) -> Self {
        let group = Group::of(root, "memory");
        Self {
            name: Fact::new(Some(own_name()), "uname"),
            boot_id: boot_id(root),
            namespaces: Namespaces::gather(root),
            cores: Cores::gather(root),
            cgroup_version: Fact::new(group.map(|group| group.version), MEMBERSHIP),
            memory: Memory::gather(root),
            memory_limit: MemoryLimit::gather(root),
            memory_lock: MemoryLock::gather(root),
            shared_memory: SharedMemory::gather(root),
            container: Container::gather(root, variable),
            transparent_huge_pages: TransparentHugePages::gather(root),
            open_files: OpenFiles::gather(),
        }
    }
}

/// What tells this start of this host from every other.
pub(crate) fn own_boot_id() -> Option<String> {
    boot_id(&Root::of_process()).value
}

fn boot_id(root: &Root) -> Fact<String> {
    let filled = |text: &str| Some(text.trim().to_string()).filter(|id| !id.is_empty());
    Fact::of_file(root, "/proc/sys/kernel/random/boot_id", filled)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::host::root::folder;

    #[test]
    fn a_host_without_any_file_is_no_error() {
        let (_folder, root) = folder(&[]);
        let found = HostFacts::of(&root, |_| None);
        assert_eq!(
            found.boot_id.to_string(),
            "unknown (/proc/sys/kernel/random/boot_id)"
        );
        assert_eq!(found.cgroup_version.value, None);
        assert_eq!(found.container.kind(), None);
        assert_eq!(found.transparent_huge_pages.value, None);
        // System calls need no file.
        assert!(found.name.value.is_some() && found.cores.available.value.is_some());
    }

    #[test]
    fn this_host_says_who_it_is() {
        let found = HostFacts::gather();
        assert!(found.name.value.is_some_and(|name| !name.is_empty()));
        assert_eq!(found.boot_id.value.unwrap().len(), 36);
        assert!(found.namespaces.ipc.value.unwrap().starts_with("ipc:["));
    }

    #[test]
    fn the_version_is_that_of_the_group_which_limits_memory() {
        let mounts = "31 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let (_folder, root) = folder(&[
            (MEMBERSHIP, "0::/\n"),
            ("/proc/self/mountinfo", mounts),
            ("/sys/fs/cgroup/cgroup.procs", ""),
        ]);
        let found = HostFacts::of(&root, |_| None);
        assert_eq!(found.cgroup_version.value, Some(CgroupVersion::V2));
    }
}
