//! A value and its source.

use std::fmt::{Display, Formatter};

use super::root::Root;

/// Something that was found out about this host, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact<T> {
    /// What was found; `None` if the host does not say, or not in a way that is understood.
    pub value: Option<T>,
    /// The file or system call that says it, or would.
    pub source: String,
}

impl<T> Fact<T> {
    /// A fact from something else than a file.
    pub(super) fn new(value: Option<T>, source: impl Into<String>) -> Self {
        Self {
            value,
            source: source.into(),
        }
    }

    /// What `parse` makes of a file.
    pub(super) fn of_file(root: &Root, path: &str, parse: impl Fn(&str) -> Option<T>) -> Self {
        Self::new(root.text(path).as_deref().and_then(parse), path)
    }
}

/// `VALUE (SOURCE)`.
impl<T: Display> Display for Fact<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{value} ({})", self.source),
            None => write!(f, "unknown ({})", self.source),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::root::folder;

    #[test]
    fn a_file_that_is_missing_or_says_something_else_is_unknown() {
        let (_folder, root) = folder(&[("/proc/count", "12\n"), ("/proc/text", "twelve\n")]);
        let number = |path| Fact::of_file(&root, path, |text| text.trim().parse::<u32>().ok());
        assert_eq!(number("/proc/count").to_string(), "12 (/proc/count)");
        assert_eq!(number("/proc/text").to_string(), "unknown (/proc/text)");
        assert_eq!(number("/proc/none").to_string(), "unknown (/proc/none)");
    }
}
