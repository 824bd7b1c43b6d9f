//! Lists of hosts, and how many ranks each gets.

use std::path::{Path, PathBuf};

/// Ranks beyond any job; who asks for more makes a mistake.
pub(super) const MOST_RANKS: usize = (1 << 16) - 1;

/// A host on which ranks are started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name or address, as ssh takes it: `USER@` may stand before it.
    pub name: String,
    /// How many ranks it gets.
    pub ranks: usize,
}

/// Why a list names no hosts.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A part of the list is none.
    #[error(
        "{text:?} is no host: expected HOST or HOST:RANKS, with an address of IPv6 in brackets and from 1 to 65535 ranks"
    )]
    Syntax {
        /// The part.
        text: String,
    },
    /// The list is empty.
    #[error("no host is named: expected HOST:RANKS")]
    Empty,
    /// A host stands twice in the list.
    #[error("host {name:?} is named twice: name it once, with all of its ranks")]
    Twice {
        /// The host.
        name: String,
    },
    /// The first host is one that others would take for themselves.
    #[error(
        "the first host is {name:?}, which is another one on every host: give it the name by which the others reach it"
    )]
    Loopback {
        /// The host.
        name: String,
    },
    /// More ranks than any job has.
    #[error("the hosts have more than 65535 ranks: give fewer to each")]
    TooMany,
    /// A file of hosts cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl Host {
    /// The hosts of a list such as `a:2,b:2`, in its order; one rank where no number stands.
    ///
    /// ```
    /// use burn_dist_core::launch::Host;
    ///
    /// let hosts = Host::list("node1:4,me@[fd00::2]")?;
    /// assert_eq!((hosts[0].name.as_str(), hosts[0].ranks), ("node1", 4));
    /// assert_eq!((hosts[1].name.as_str(), hosts[1].ranks), ("me@fd00::2", 1));
    /// # Ok::<(), burn_dist_core::launch::HostError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If a part is no host, a host is named twice, or the first of several means every host itself.
    pub fn list(list: &str) -> Result<Vec<Self>, HostError> {
        let hosts = list.split(',').map(Self::one);
        Self::checked(hosts.collect::<Result<_, _>>()?)
    }

    /// The hosts of a file: on each line `HOST`, `HOST:RANKS` or, as Open MPI has it, `HOST slots=RANKS`.
    /// Blank lines, and what stands behind `#`, are left out.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, and as [`Host::list`].
    pub fn file(path: impl AsRef<Path>) -> Result<Vec<Self>, HostError> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|source| HostError::File {
            path: path.to_path_buf(),
            source,
        })?;
        let mut hosts = Vec::new();
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let host = match line.split_once(char::is_whitespace) {
                Some((host, slots)) if !host.contains(':') => {
                    slots.trim().strip_prefix("slots=").map(|n| (host, n))
                }
                _ => None,
            };
            hosts.push(match host {
                Some((name, ranks)) => Self::of(name, ranks).ok_or_else(|| HostError::Syntax {
                    text: line.to_string(),
                })?,
                None => Self::one(line)?,
            });
        }
        Self::checked(hosts)
    }

    fn one(text: &str) -> Result<Self, HostError> {
        let host = || match text.rsplit_once(':') {
            Some((_, ranks)) if ranks.ends_with(']') => Self::of(text, "1"),
            Some((host, ranks)) => Self::of(host, ranks),
            None => Self::of(text, "1"),
        };
        host().ok_or_else(|| HostError::Syntax {
            text: text.to_string(),
        })
    }

    fn of(host: &str, ranks: &str) -> Option<Self> {
        let (user, address) = match host.split_once('@') {
            Some((user, address)) => (Some(user), address),
            None => (None, host),
        };
        let address = match address.strip_prefix('[') {
            Some(address) => address.strip_suffix(']')?,
            // Its last part would be taken for a number of ranks.
            None if address.contains(':') => return None,
            None => address,
        };
        let ranks = ranks.parse().ok()?;
        // ssh would take it for an option.
        let option = host.starts_with('-') || address.starts_with('-');
        let odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '[' | ']' | '@');
        if option || address.is_empty() || address.contains(odd) || user == Some("") {
            return None;
        }
        if user.is_some_and(|user| user.contains(odd)) || !(1..=MOST_RANKS).contains(&ranks) {
            return None;
        }
        let name = match user {
            Some(user) => format!("{user}@{address}"),
            None => address.to_string(),
        };
        Some(Self { name, ranks })
    }

    /// `hosts`, if they can make one job.
    pub(super) fn checked(hosts: Vec<Self>) -> Result<Vec<Self>, HostError> {
        let Some(first) = hosts.first() else {
            return Err(HostError::Empty);
        };
        let address = first.address();
        let loopback = address == "localhost" || address == "::1" || address.starts_with("127.");
        if loopback && hosts.len() > 1 {
            return Err(HostError::Loopback {
                name: first.name.clone(),
            });
        }
        for (at, host) in hosts.iter().enumerate() {
            if hosts[..at].iter().any(|other| other.name == host.name) {
                return Err(HostError::Twice {
                    name: host.name.clone(),
                });
            }
        }
        let ranks = hosts.iter().map(|host| host.ranks);
        if ranks.fold(0, usize::saturating_add) > MOST_RANKS {
            return Err(HostError::TooMany);
        }
        Ok(hosts)
    }

    /// Its name without the user.
    pub(super) fn address(&self) -> &str {
        match self.name.split_once('@') {
            Some((_, address)) => address,
            None => &self.name,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn written(hosts: &[Host]) -> String {
        let hosts = hosts
            .iter()
            .map(|host| format!("{} {}", host.name, host.ranks));
        hosts.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn lists_are_read_in_their_order() {
        for (list, expected) in [
            ("a:2,b:2", "a 2, b 2"),
            ("b,a", "b 1, a 1"),
            ("me@gpu-1.site:8", "me@gpu-1.site 8"),
            (
                "10.0.0.1:2,[fd00::1]:3,[fd00::2]",
                "10.0.0.1 2, fd00::1 3, fd00::2 1",
            ),
            ("localhost:4", "localhost 4"),
        ] {
            assert_eq!(written(&Host::list(list).unwrap()), expected, "{list}");
        }
    }

    #[test]
    fn what_is_no_list_of_hosts_says_why() {
        for (list, part) in [
            ("", "\"\" is no host"),
            ("a,,b", "\"\" is no host"),
            ("a:0", "\"a:0\" is no host"),
            ("a:x", "\"a:x\" is no host"),
            ("a:70000", "\"a:70000\" is no host"),
            ("fd00::1", "IPv6 in brackets"),
            ("-oProxyCommand=x:1", "is no host"),
            ("me@-x", "is no host"),
            ("@a", "is no host"),
            ("a b", "is no host"),
            ("a:1,a:2", "\"a\" is named twice"),
            ("127.0.0.1:1,b:1", "the first host is \"127.0.0.1\""),
            ("me@localhost,b", "the first host is \"me@localhost\""),
            ("a:65535,b", "more than 65535"),
        ] {
            let text = Host::list(list).unwrap_err().to_string();
            assert!(
                text.contains(part) && !text.contains('\n'),
                "{list}: {text}"
            );
        }
    }

    #[test]
    fn files_may_have_comments_and_slots() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hosts");
        std::fs::write(&path, "# two\na slots=4 # big\n\n  b:2\nc\n").unwrap();
        assert_eq!(written(&Host::file(&path).unwrap()), "a 4, b 2, c 1");
        for (text, part) in [
            ("# none\n", "no host is named"),
            ("a slots=0", "\"a slots=0\" is no host"),
            ("a max=3", "\"a max=3\" is no host"),
            ("a:2 slots=3", "\"a:2 slots=3\" is no host"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = Host::file(&path).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        std::fs::remove_file(&path).unwrap();
        let error = Host::file(&path).unwrap_err().to_string();
        assert!(error.contains(path.to_str().unwrap()), "{error}");
    }
}
