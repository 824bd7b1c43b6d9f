//! Pages of 2 MiB, with which large buffers cost fewer page faults and fewer misses of the address cache.

use std::fmt::{Display, Formatter};

use super::fact::Fact;
use super::root::Root;

/// When the kernel gives huge pages to memory that asks for none in particular.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransparentHugePages {
    /// Wherever they fit.
    Always,
    /// Where a program wishes it.
    Madvise,
    /// Nowhere.
    Never,
}

impl TransparentHugePages {
    pub(super) fn gather(root: &Root) -> Fact<Self> {
        Fact::of_file(root, "/sys/kernel/mm/transparent_hugepage/enabled", mode)
    }

    /// What to do to have them; `None` if they are there for whoever wishes it.
    pub fn remedy(self) -> Option<&'static str> {
        (self == Self::Never).then_some(
            "transparent huge pages are off, so large buffers cost more time: on the host: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        )
    }
}

impl Display for TransparentHugePages {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Always => "always",
            Self::Madvise => "madvise",
            Self::Never => "never",
        })
    }
}

/// The mode in brackets: `always [madvise] never`.
fn mode(text: &str) -> Option<TransparentHugePages> {
    let (_, behind) = text.split_once('[')?;
    Some(match behind.split_once(']')?.0 {
        "always" => TransparentHugePages::Always,
        "madvise" => TransparentHugePages::Madvise,
        "never" => TransparentHugePages::Never,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::root::folder;

    #[test]
    fn the_mode_is_in_brackets() {
        for (text, expected) in [
            (
                "[always] madvise never\n",
                Some(TransparentHugePages::Always),
            ),
            (
                "always [madvise] never\n",
                Some(TransparentHugePages::Madvise),
            ),
            (
                "always madvise [never]\n",
                Some(TransparentHugePages::Never),
            ),
            ("always madvise never\n", None),
            ("[sometimes]\n", None),
            ("[always", None),
        ] {
            let (_folder, root) = folder(&[("/sys/kernel/mm/transparent_hugepage/enabled", text)]);
            assert_eq!(
                TransparentHugePages::gather(&root).value,
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn only_never_has_a_remedy() {
        assert_eq!(TransparentHugePages::Always.remedy(), None);
        assert_eq!(TransparentHugePages::Madvise.remedy(), None);
        let text = TransparentHugePages::Never.remedy();
        assert!(text.is_some_and(|text| text.contains("echo madvise >") && !text.contains('\n')));
    }
}
