//! The addresses of a name, and the trap of a host that knows itself by loopback only.

use std::net::{IpAddr, ToSocketAddrs};

use rustix::system::uname;

/// What a name resolves to on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameResolution {
    /// The name.
    pub host: String,
    /// Its addresses, each once, in the order of the resolver.
    pub addresses: Vec<IpAddr>,
    /// Why there are none.
    pub failure: Option<String>,
    /// Whether it is the name of this host.
    pub is_own_name: bool,
}

/// The addresses of `host`, a name or an address. Asks DNS, which may take as long as its timeout, some seconds.
///
/// ```
/// let resolution = burn_dist_core::host::resolve("127.0.0.1");
/// assert!(resolution.addresses[0].is_loopback());
/// ```
pub fn resolve(host: &str) -> NameResolution {
    let found = (host, 0).to_socket_addrs();
    let own_name = own_name();
    match found {
        Ok(found) => NameResolution::new(host, &own_name, found.map(|found| found.ip())),
        Err(failure) => NameResolution {
            failure: Some(failure.to_string()),
            ..NameResolution::new(host, &own_name, [])
        },
    }
}

/// The name of this host.
pub(crate) fn own_name() -> String {
    uname().nodename().to_string_lossy().into_owned()
}

impl NameResolution {
    fn new(host: &str, own_name: &str, found: impl IntoIterator<Item = IpAddr>) -> Self {
        let mut addresses = Vec::new();
        for address in found {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        let first_label = |name: &str| {
            let label = name.split('.').next().unwrap_or_default();
            label.to_ascii_lowercase()
        };
        Self {
            host: host.into(),
            addresses,
            failure: None,
            // With and without its domain.
            is_own_name: first_label(host) == first_label(own_name),
        }
    }

    /// What to do if the name resolves to nothing, or if that of this host resolves to loopback only: Debian and
    /// many images write `127.0.1.1` behind it in `/etc/hosts`, and whoever advertises or binds to that cannot be
    /// reached from another host.
    pub fn remedy(&self) -> Option<String> {
        let Self {
            host, addresses, ..
        } = self;
        if let Some(failure) = &self.failure {
            return Some(format!(
                "{host:?} does not resolve here ({}): correct DNS or /etc/hosts, or give an address instead of the name",
                failure.escape_debug()
            ));
        }
        let only_loopback = !addresses.is_empty() && addresses.iter().all(IpAddr::is_loopback);
        (self.is_own_name && only_loopback).then(|| {
            let shown: Vec<_> = addresses.iter().map(IpAddr::to_string).collect();
            format!(
                "{host:?}, the name of this host, resolves here to loopback only ({}): if rank 0 runs here and others elsewhere, give an address of its network in BURN_DIST_RDZV, or correct /etc/hosts",
                shown.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn remedy(host: &str, addresses: &[&str]) -> Option<String> {
        let addresses = addresses.iter().map(|address| address.parse().unwrap());
        NameResolution::new(host, "node1.cluster", addresses).remedy()
    }

    #[test]
    fn an_own_name_that_is_only_loopback_is_a_trap() {
        for host in ["node1", "node1.cluster", "NODE1"] {
            let text = remedy(host, &["127.0.1.1", "::1"]).unwrap();
            assert!(
                text.contains("loopback only (127.0.1.1, ::1)") && !text.contains('\n'),
                "{text}"
            );
        }
        assert_eq!(remedy("node1", &["127.0.1.1", "10.0.0.5"]), None);
        assert_eq!(remedy("localhost", &["127.0.0.1"]), None);
        assert_eq!(remedy("node12", &["127.0.0.1"]), None);
        assert_eq!(remedy("node1", &[]), None);
    }

    #[test]
    fn an_address_is_its_own_name() {
        let found = resolve("::1");
        assert_eq!(found.addresses, ["::1".parse::<IpAddr>().unwrap()]);
        assert_eq!((found.failure.as_ref(), found.remedy()), (None, None));
    }

    #[test]
    fn addresses_are_listed_once() {
        let twice = ["10.0.0.5", "10.0.0.6", "10.0.0.5"].map(|address| address.parse().unwrap());
        assert_eq!(NameResolution::new("a", "b", twice).addresses.len(), 2);
    }

    #[test]
    fn what_does_not_resolve_is_no_error() {
        // No name, so that no DNS is asked.
        let found = resolve("no\0name");
        assert!(found.addresses.is_empty());
        let text = found.remedy().unwrap();
        assert!(
            text.starts_with("\"no\\0name\" does not resolve here ("),
            "{text}"
        );
    }
}
