//! Which interface a rank advertises: what `BURN_DIST_IFNAME` says, and the best of what is left.
//!
//! The rules are those of `NCCL_SOCKET_IFNAME`, and addresses and subnets beside names.

use std::fmt::{Display, Formatter};
use std::net::IpAddr;
use std::str::FromStr;

use super::environment::Environment;
use super::interface::Interface;
use super::subnet::Subnet;

/// The variable.
const NAME: &str = "BURN_DIST_IFNAME";

/// What it may be, for errors.
const EXPECTED: &str = "BURN_DIST_IFNAME may be the beginning of a name (eth), =NAME for that name only, an address (10.1.2.3), a subnet (10.1.0.0/16), or several with commas; ^ before the first leaves out what the list means";

/// What is against an interface that may be used once it is up.
pub(super) const DOWN: &str = "down";

/// The longest name that Linux gives to an interface, in bytes.
const LONGEST_NAME: usize = 15;

/// The interfaces that a user means; by default all.
///
/// | text | interfaces |
/// |---|---|
/// | `eth,ib` | whose names begin with `eth`, or else with `ib` |
/// | `=eth0` | `eth0`, and not `eth01` |
/// | `^docker,lo` | all but those whose names begin with `docker` or `lo` |
/// | `^=eth0` | all but `eth0` |
/// | `10.1.2.3` | the one with this address |
/// | `10.1.0.0/16,fd00::/8` | those with an address in a subnet |
///
/// `^` and `=` hold for the whole list; they may be repeated before each part of it.
///
/// ```
/// use burn_dist_core::rendezvous::{InterfaceFilter, interfaces};
///
/// let filter: InterfaceFilter = "127.0.0.0/8".parse()?;
/// assert!(filter.choose(&interfaces()?, None)?.is_loopback);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceFilter {
    marks: Marks,
    /// None of them: every interface.
    parts: Vec<Part>,
}

/// `^` and `=`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Marks {
    exclude: bool,
    exact: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Name(String),
    Address(IpAddr),
    Subnet(Subnet),
}

/// Why there is no interface to use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InterfaceError {
    /// The variable is no filter.
    #[error("BURN_DIST_IFNAME is {value:?}: {part:?} {problem}; {EXPECTED}")]
    Filter {
        /// The variable.
        value: String,
        /// The part of it that is wrong.
        part: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The filter leaves no interface of this host.
    #[error(
        "no network interface{}{}: there {}; {EXPECTED}",
        fitting(filter),
        towards(*peer),
        listed(rejected)
    )]
    NoMatch {
        /// The filter.
        filter: InterfaceFilter,
        /// The address that was to be reached.
        peer: Option<IpAddr>,
        /// The interfaces of this host, each with what is against it.
        rejected: Vec<(Interface, &'static str)>,
    },
}

fn fitting(filter: &InterfaceFilter) -> String {
    match filter.parts.is_empty() {
        true => " can be used".into(),
        false => format!(" fits BURN_DIST_IFNAME={filter}"),
    }
}

fn towards(peer: Option<IpAddr>) -> String {
    peer.map(|peer| format!(" towards rank 0 at {peer}"))
        .unwrap_or_default()
}

fn listed(rejected: &[(Interface, &'static str)]) -> String {
    if rejected.is_empty() {
        return "is none".into();
    }
    let shown = rejected.iter().map(|(interface, reason)| {
        let Interface { name, address, .. } = interface;
        format!("{address}%{name} ({reason})")
    });
    format!("are {}", shown.collect::<Vec<_>>().join(", "))
}

/// How good an interface is, the best first; that of NCCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Preference {
    InfiniBand,
    /// In the network of rank 0.
    NetworkOfPeer,
    Other,
    /// Its address is known to this host or link only, though it looks as any other.
    Local,
    Loopback,
}

/// Beginnings of the names of bridges, and of the ends of cables to containers, on their host. Many hosts have
/// one with the same address.
const LOCAL: [&str; 12] = [
    "docker", "podman", "veth", "br-", "virbr", "lxc", "lxdbr", "cni", "cali", "cilium", "flannel",
    "kube-",
];

impl InterfaceFilter {
    /// That of `BURN_DIST_IFNAME`; `None` if the variable is not set.
    ///
    /// # Errors
    ///
    /// If it is no filter.
    pub fn of(environment: &Environment) -> Result<Option<Self>, InterfaceError> {
        environment.text(NAME).map(str::parse).transpose()
    }

    /// The best interface that the filter leaves.
    ///
    /// It is up, of the family of the address of rank 0 where `peer` gives it, and not IPv6 link-local.
    /// Loopback is left out unless the filter names it or rank 0 has a loopback address. Of several, that of
    /// the first part of the filter is taken; then InfiniBand (`ib…`), the network of rank 0, others, bridges
    /// to containers and IPv4 link-local addresses, and loopback; IPv4 before IPv6; and the first.
    ///
    /// # Errors
    ///
    /// If none is left: the error lists all, each with what is against it.
    pub fn choose<'a>(
        &self,
        interfaces: &'a [Interface],
        peer: Option<&IpAddr>,
    ) -> Result<&'a Interface, InterfaceError> {
        // Sockets for both families show IPv4 as `::ffff:10.1.2.3`.
        let peer = peer.map(IpAddr::to_canonical);
        let mut rejected = Vec::new();
        let mut left = Vec::new();
        for interface in interfaces {
            match self.objection(interface, peer) {
                Some(reason) => rejected.push((interface.clone(), reason)),
                None => left.push(interface),
            }
        }
        let best = left.into_iter().min_by_key(|interface| {
            let preference = preference(interface, peer);
            (
                self.place(interface),
                preference,
                interface.address.is_ipv6(),
            )
        });
        best.ok_or_else(|| InterfaceError::NoMatch {
            filter: self.clone(),
            peer,
            rejected,
        })
    }

    /// What is against an interface.
    fn objection(&self, interface: &Interface, peer: Option<IpAddr>) -> Option<&'static str> {
        let asked_for = self.place(interface).is_some() != self.marks.exclude;
        if !self.parts.is_empty() && !asked_for {
            return Some(if self.marks.exclude {
                "left out"
            } else {
                "not asked for"
            });
        }
        if interface.is_ipv6_link_local() {
            return Some("IPv6 link-local");
        }
        match peer {
            Some(peer) if peer.is_ipv4() && interface.address.is_ipv6() => return Some("IPv6"),
            Some(peer) if peer.is_ipv6() && interface.address.is_ipv4() => return Some("IPv4"),
            _ => {}
        }
        if !interface.is_up {
            return Some(DOWN);
        }
        let all_on_this_host = peer.is_some_and(|peer| peer.is_loopback());
        let loopback = interface.is_loopback && !all_on_this_host && !self.names(interface);
        loopback.then_some("loopback")
    }

    /// The first part that means the interface.
    fn place(&self, interface: &Interface) -> Option<usize> {
        let mut parts = self.parts.iter();
        parts.position(|part| part.means(interface, self.marks.exact))
    }

    /// Whether a part means this very interface, and not a range that happens to hold it.
    fn names(&self, interface: &Interface) -> bool {
        let named = |part: &Part| match part {
            Part::Subnet(subnet) if !subnet.is_loopback() => false,
            part => part.means(interface, self.marks.exact),
        };
        !self.marks.exclude && self.parts.iter().any(named)
    }
}

fn preference(interface: &Interface, peer: Option<IpAddr>) -> Preference {
    let local = LOCAL.iter().any(|name| interface.name.starts_with(name));
    let link_local = matches!(interface.address, IpAddr::V4(address) if address.is_link_local());
    if interface.name.starts_with("ib") {
        Preference::InfiniBand
    } else if peer.is_some_and(|peer| interface.reaches(peer)) {
        Preference::NetworkOfPeer
    } else if interface.is_loopback {
        Preference::Loopback
    } else if local || link_local {
        Preference::Local
    } else {
        Preference::Other
    }
}

impl Marks {
    /// The marks before a part, and the part.
    fn split(part: &str) -> (Self, &str) {
        let (exclude, part) = match part.strip_prefix('^') {
            Some(part) => (true, part),
            None => (false, part),
        };
        let (exact, part) = match part.strip_prefix('=') {
            Some(part) => (true, part),
            None => (false, part),
        };
        (Self { exclude, exact }, part)
    }
}

impl Part {
    fn means(&self, interface: &Interface, exact: bool) -> bool {
        match self {
            Self::Name(name) if exact => interface.name == *name,
            Self::Name(name) => interface.name.starts_with(name),
            Self::Address(address) => interface.address == *address,
            Self::Subnet(subnet) => subnet.contains(interface.address),
        }
    }

    fn of(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err("names nothing");
        }
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        if text.contains('/') {
            let subnet = text.parse().map(Self::Subnet);
            return subnet.map_err(|_| "is no ADDRESS/LENGTH");
        }
        let no_name = |character: char| {
            character.is_whitespace() || character.is_control() || "^=%".contains(character)
        };
        if text.len() > LONGEST_NAME || text.contains(no_name) {
            return Err("is neither a name nor an address");
        }
        Ok(Self::Name(text.into()))
    }
}

impl FromStr for InterfaceFilter {
    type Err = InterfaceError;

    fn from_str(value: &str) -> Result<Self, InterfaceError> {
        let mut filter = Self::default();
        if value.trim().is_empty() {
            return Ok(filter);
        }
        for (place, text) in value.split(',').map(str::trim).enumerate() {
            let error = |problem| InterfaceError::Filter {
                value: value.into(),
                part: text.into(),
                problem,
            };
            let (marks, part) = Marks::split(text);
            if place == 0 {
                filter.marks = marks;
            } else if marks != Marks::default() && marks != filter.marks {
                return Err(error("has other marks than the first part"));
            }
            filter.parts.push(Part::of(part).map_err(error)?);
        }
        Ok(filter)
    }
}

/// As it is read.
impl Display for InterfaceFilter {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        for (is_there, mark) in [(self.marks.exclude, "^"), (self.marks.exact, "=")] {
            f.write_str(if is_there { mark } else { "" })?;
        }
        for (place, part) in self.parts.iter().enumerate() {
            f.write_str(if place > 0 { "," } else { "" })?;
            match part {
                Part::Name(name) => f.write_str(name)?,
                Part::Address(address) => write!(f, "{address}")?,
                Part::Subnet(subnet) => write!(f, "{subnet}")?,
            }
        }
        Ok(())
    }
}
