//! Whether there is so much memory, before it is taken: the system gives more than it has, and kills who uses it.

use super::memory::Memory;
use super::memory_limit::MemoryLimit;
use super::quantity::Bytes;
use super::root::Root;

/// Why this process cannot have `needed` bytes more; `None` if it can, or if nobody knows.
pub(crate) fn shortage(needed: Bytes) -> Option<String> {
    of(&Root::of_process(), needed)
}

fn of(root: &Root, needed: Bytes) -> Option<String> {
    let available = Memory::gather(root).available.value;
    if let Some(available) = available.filter(|available| *available < needed) {
        return Some(format!("{available} of the host's memory are free"));
    }
    MemoryLimit::gather(root).remedy(needed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::host::root::folder;

    #[test]
    fn the_host_and_the_control_group_are_asked() {
        let host = ("/proc/meminfo", "MemAvailable: 2048 kB\n");
        let group = [
            (
                "/proc/self/mountinfo",
                "31 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            ),
            ("/proc/self/cgroup", "0::/pod\n"),
            ("/sys/fs/cgroup/pod/memory.max", "1048576\n"),
        ];
        let (_folder, root) = folder(&[host, group[0], group[1], group[2]]);
        assert_eq!(of(&root, Bytes(1 << 20)), None);
        let text = of(&root, Bytes(1_500 << 10)).unwrap();
        assert!(text.contains("the control group allows 1 MiB"), "{text}");
        let text = of(&root, Bytes(3 << 20)).unwrap();
        assert_eq!(text, "2 MiB of the host's memory are free");
        let (_folder, root) = folder(&[]);
        assert_eq!(of(&root, Bytes(u64::MAX)), None);
    }
}
