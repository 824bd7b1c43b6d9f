//! Files and sockets that this process may have open.

use rustix::process::{Resource, getrlimit};

use super::fact::Fact;
use super::quantity::Limit;

/// Files and sockets that this process may have open at a time: each connection to another rank is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFiles {
    /// What it may have now.
    pub soft: Fact<Limit<u64>>,
    /// What it may raise that to.
    pub hard: Fact<Limit<u64>>,
}

impl OpenFiles {
    pub(super) fn gather() -> Self {
        let limit = |count: Option<u64>| count.map_or(Limit::Unlimited, Limit::AtMost);
        let limits = getrlimit(Resource::Nofile);
        Self {
            soft: Fact::new(Some(limit(limits.current)), "RLIMIT_NOFILE, soft"),
            hard: Fact::new(Some(limit(limits.maximum)), "RLIMIT_NOFILE, hard"),
        }
    }

    /// What to do if `needed` have to be open; `None` if they may be.
    pub fn remedy(&self, needed: u64) -> Option<String> {
        let soft = self.soft.value.filter(|soft| !soft.allows(needed))?;
        let short = format!("{soft} open files, and {needed} are needed");
        Some(match self.hard.value {
            Some(hard) if hard.allows(needed) => {
                format!("{short}: ulimit -n {needed} before the program starts (up to {hard} here)")
            }
            _ => format!(
                "{short}: Docker and podman: --ulimit nofile={needed}, systemd and slurmd: LimitNOFILE={needed}, others: nofile in /etc/security/limits.conf"
            ),
        })
    }
}

/// How many more files and sockets this process may open now.
pub(crate) fn files_left() -> u64 {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    // Where nobody tells, as many as are usual.
    let open = std::fs::read_dir("/proc/self/fd").map_or(64, |files| files.count() as u64);
    limit.saturating_sub(open)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn this_process_may_open_some() {
        let found = OpenFiles::gather();
        assert!(found.soft.value.unwrap().allows(1), "{found:?}");
        assert!(found.hard.value >= found.soft.value, "{found:?}");
    }

    #[test]
    fn each_file_that_is_opened_is_one_less() {
        let before = files_left();
        let files = [(); 100].map(|()| std::fs::File::open("/dev/null").unwrap());
        // Other tests open and close some at the same time.
        let taken = before - files_left();
        assert!((50..=150).contains(&taken), "{taken}");
        drop(files);
    }

    #[test]
    fn too_few_have_a_remedy() {
        let mut found = OpenFiles {
            soft: Fact::new(Some(Limit::AtMost(1024)), ""),
            hard: Fact::new(Some(Limit::AtMost(4096)), ""),
        };
        assert_eq!(found.remedy(1024), None);
        let text = found.remedy(4000).unwrap();
        assert!(
            text.starts_with("1024 open files, and 4000 are needed: ulimit -n 4000 before"),
            "{text}"
        );
        let text = found.remedy(5000).unwrap();
        assert!(text.contains("--ulimit nofile=5000"), "{text}");
        found.soft.value = Some(Limit::Unlimited);
        assert_eq!(found.remedy(u64::MAX), None);
    }
}
