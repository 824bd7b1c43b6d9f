//! Which processes can see each other.

use super::fact::Fact;
use super::root::Root;

/// The namespaces of this process, each as the kernel names it: `ipc:[4026531839]`.
///
/// The same names on two processes mean the same namespaces only if their hosts are the same too: outside of
/// containers every host uses the same numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespaces {
    /// Shared memory and semaphores of System V. That of `/dev/shm` goes with it in Docker and Kubernetes.
    pub ipc: Fact<String>,
    /// Interfaces, addresses and ports: loopback reaches only processes of the same one.
    pub network: Fact<String>,
    /// Numbers of processes.
    pub pid: Fact<String>,
}

impl Namespaces {
    /// Those of this process.
    pub fn of_process() -> Self {
        Self::gather(&Root::of_process())
    }

    pub(super) fn gather(root: &Root) -> Self {
        let of = |kind: &str| {
            let path = format!("/proc/self/ns/{kind}");
            Fact::new(root.link(&path), path)
        };
        Self {
            ipc: of("ipc"),
            network: of("net"),
            pid: of("pid"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::host::root::folder;

    #[test]
    fn they_are_what_the_links_say() {
        let (folder, root) = folder(&[("/proc/self/status", "")]);
        let links = folder.path().join("proc/self/ns");
        std::fs::create_dir(&links).unwrap();
        for (kind, number) in [("ipc", 4_026_531_839u32), ("net", 4_026_532_001)] {
            std::os::unix::fs::symlink(format!("{kind}:[{number}]"), links.join(kind)).unwrap();
        }
        let found = Namespaces::gather(&root);
        assert_eq!(
            found.ipc.to_string(),
            "ipc:[4026531839] (/proc/self/ns/ipc)"
        );
        assert_eq!(
            found.network.to_string(),
            "net:[4026532001] (/proc/self/ns/net)"
        );
        assert_eq!(found.pid.to_string(), "unknown (/proc/self/ns/pid)");
    }
}
