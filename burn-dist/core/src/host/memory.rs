//! Memory of the host.

use super::fact::Fact;
use super::quantity::Bytes;
use super::root::{Root, field};

/// Where the kernel says it.
const FILE: &str = "/proc/meminfo";

/// Memory of the host, for all of its processes together. A container sees that of the host: what it may have of it
/// [`MemoryLimit`](super::MemoryLimit) says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// What the host has.
    pub total: Fact<Bytes>,
    /// What processes could have now without others being swapped out.
    pub available: Fact<Bytes>,
}

impl Memory {
    pub(super) fn gather(root: &Root) -> Self {
        let of = |name| Fact::of_file(root, FILE, |text| kibibytes(field(text, name)?));
        Self {
            total: of("MemTotal"),
            available: of("MemAvailable"),
        }
    }
}

/// The bytes of `16384 kB`, as the kernel calls units of 1,024.
fn kibibytes(text: &str) -> Option<Bytes> {
    let count: u64 = text.strip_suffix("kB")?.trim().parse().ok()?;
    count.checked_mul(1024).map(Bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::host::root::folder;

    #[test]
    fn this_host_has_memory() {
        let found = Memory::gather(&Root::of_process());
        let (total, available) = (found.total.value.unwrap(), found.available.value.unwrap());
        assert!(available <= total && total > Bytes(1 << 20), "{found:?}");
    }

    #[test]
    fn lines_of_the_kernel_are_read_and_others_are_unknown() {
        let text = "MemTotal:       16384 kB\nMemFree:  1 kB\nMemAvailable:    8192 kB\n";
        let (_folder, root) = folder(&[(FILE, text)]);
        let found = Memory::gather(&root);
        assert_eq!(found.total.to_string(), "16 MiB (/proc/meminfo)");
        assert_eq!(found.available.to_string(), "8 MiB (/proc/meminfo)");
        for text in [
            "",
            "MemTotal: much\n",
            "MemTotal: 1\n",
            "MemTotal: 18446744073709551615 kB\n",
        ] {
            let (_folder, root) = folder(&[(FILE, text)]);
            assert_eq!(Memory::gather(&root).total.value, None, "{text}");
        }
    }
}
