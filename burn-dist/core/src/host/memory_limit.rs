//! Memory that the control group of this process allows.

use super::cgroup::{CgroupVersion, Group, MEMBERSHIP};
use super::fact::Fact;
use super::quantity::{Bytes, Limit};
use super::root::Root;

/// What version 1 writes where there is no limit: the greatest number of bytes in whole pages, of up to 64 KiB.
const NO_LIMIT_IN_VERSION_1: u64 = i64::MAX as u64 & !0xffff;

/// Memory that the control group of this process allows. A process that takes more is killed without a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// For all processes of the group together, with what they hold in `/dev/shm`.
    pub bytes: Fact<Limit<Bytes>>,
}

impl MemoryLimit {
    pub(super) fn gather(root: &Root) -> Self {
        let Some(group) = Group::of(root, "memory") else {
            return Self {
                bytes: Fact::new(None, MEMBERSHIP),
            };
        };
        let file = match group.version {
            CgroupVersion::V1 => "memory.limit_in_bytes",
            CgroupVersion::V2 => "memory.max",
        };
        Self {
            bytes: group.limit(root, file, |folder| {
                limit(&root.text(&format!("{folder}/{file}"))?)
            }),
        }
    }

    /// What to do if the group has to hold `needed`; `None` if it can, or if nobody knows.
    pub fn remedy(&self, needed: Bytes) -> Option<String> {
        let limit = self.bytes.value.filter(|limit| !limit.allows(needed))?;
        Some(format!(
            "the control group allows {limit} of memory, and {needed} are needed: Docker and podman: --memory, Kubernetes: resources.limits.memory, Slurm: --mem"
        ))
    }
}

/// The text of `memory.max` or `memory.limit_in_bytes`.
fn limit(text: &str) -> Option<Limit<Bytes>> {
    match text.trim() {
        "max" => Some(Limit::Unlimited),
        number => Some(match number.parse().ok()? {
            NO_LIMIT_IN_VERSION_1.. => Limit::Unlimited,
            bytes => Limit::AtMost(Bytes(bytes)),
        }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::host::root::folder;

    const MOUNT: (&str, &str) = (
        "/proc/self/mountinfo",
        "31 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    );
    const LEAF: (&str, &str) = (MEMBERSHIP, "0::/pod/container\n");

    fn gather(files: &[(&str, &str)]) -> String {
        let files: Vec<_> = [MOUNT, LEAF].iter().chain(files).copied().collect();
        let (_folder, root) = folder(&files);
        MemoryLimit::gather(&root).bytes.to_string()
    }

    #[test]
    fn the_tightest_group_decides() {
        let leaf = "/sys/fs/cgroup/pod/container/memory.max";
        let pod = "/sys/fs/cgroup/pod/memory.max";
        for (inner, outer, expected) in [
            ("max\n", "max\n", format!("unlimited ({leaf})")),
            ("2147483648\n", "max\n", format!("2 GiB ({leaf})")),
            ("max\n", "1073741824\n", format!("1 GiB ({pod})")),
            ("2147483648\n", "1073741824\n", format!("1 GiB ({pod})")),
            ("much\n", "1073741824\n", format!("1 GiB ({pod})")),
            ("much\n", "\n", format!("unknown ({leaf})")),
        ] {
            assert_eq!(gather(&[(leaf, inner), (pod, outer)]), expected);
        }
    }

    #[test]
    fn a_group_without_a_limit_has_none() {
        let found = gather(&[("/sys/fs/cgroup/cgroup.procs", "")]);
        assert!(found.starts_with("unlimited (no memory.max in "), "{found}");
        assert_eq!(gather(&[]), "unknown (/proc/self/cgroup)");
    }

    #[test]
    fn version_1_writes_a_number_where_there_is_no_limit() {
        for text in ["9223372036854771712\n", "9223372036854710272\n", "max"] {
            assert_eq!(limit(text), Some(Limit::Unlimited), "{text}");
        }
        assert_eq!(limit("4096\n"), Some(Limit::AtMost(Bytes(4096))));
        let (_folder, root) = folder(&[
            (MEMBERSHIP, "4:memory:/job\n0::/\n"),
            (
                "/proc/self/mountinfo",
                "40 39 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
            ),
            (
                "/sys/fs/cgroup/memory/job/memory.limit_in_bytes",
                "536870912\n",
            ),
            (
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
        ]);
        let found = MemoryLimit::gather(&root);
        assert_eq!(
            found.bytes.to_string(),
            "512 MiB (/sys/fs/cgroup/memory/job/memory.limit_in_bytes)"
        );
        assert_eq!(found.remedy(Bytes(512 << 20)), None);
        let text = found.remedy(Bytes(1 << 30)).unwrap();
        assert!(
            text.contains("512 MiB of memory, and 1 GiB are needed") && !text.contains('\n'),
            "{text}"
        );
    }
}
