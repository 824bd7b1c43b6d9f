//! The network interfaces of this host: what a rank can advertise.
//!
//! Knows no variable and no launcher; which interface is chosen is [`InterfaceFilter`](super::InterfaceFilter)'s.

use std::fmt::{Display, Formatter};
use std::io;
use std::net::IpAddr;
use std::path::Path;

use super::subnet::Subnet;

/// One address of a network interface; an interface with several is listed once for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name, such as `eth0`, or the label of its address, such as `eth0:1`.
    pub name: String,
    /// The address.
    pub address: IpAddr,
    /// Bits that the addresses of its network have in common.
    pub prefix_length: u8,
    /// Its number on this host; `None` if it went away meanwhile.
    pub index: Option<u32>,
    /// Whether the address can be reached from this host only. An address that can be reached from elsewhere
    /// is none, even on `lo`, where hosts that are routers hold theirs.
    pub is_loopback: bool,
    /// Whether it is up and has a carrier.
    pub is_up: bool,
    /// The greatest packet, in bytes; `None` if the host does not say.
    pub mtu: Option<u32>,
    /// Its speed in 10⁶ bits a second; `None` if the host does not say, as with most virtual interfaces.
    pub speed_mbit: Option<u32>,
}

impl Interface {
    /// Whether the address means another host on every link, and so nothing to a peer: `fe80::/10`.
    pub fn is_ipv6_link_local(&self) -> bool {
        matches!(self.address, IpAddr::V6(address) if address.is_unicast_link_local())
    }

    /// Whether `peer` is in the network of this interface.
    pub(super) fn reaches(&self, peer: IpAddr) -> bool {
        Subnet::of(self.address, self.prefix_length).is_some_and(|subnet| subnet.contains(peer))
    }
}

/// `10.1.2.3%eth0 (MTU 1500, 10000 Mbit/s)`.
impl Display for Interface {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}%{}", self.address, self.name)?;
        match (self.mtu, self.speed_mbit) {
            (Some(mtu), Some(speed)) => write!(f, " (MTU {mtu}, {speed} Mbit/s)"),
            (Some(mtu), None) => write!(f, " (MTU {mtu})"),
            (None, Some(speed)) => write!(f, " ({speed} Mbit/s)"),
            (None, None) => Ok(()),
        }
    }
}

/// The interfaces of this host, or of the network namespace of this container, in the order of the kernel.
///
/// ```
/// for interface in burn_dist_core::rendezvous::interfaces()? {
///     println!("{interface}");
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// If the kernel does not list them.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let listed = if_addrs::get_if_addrs()?;
    Ok(listed.into_iter().map(of_listed).collect())
}

fn of_listed(listed: if_addrs::Interface) -> Interface {
    let prefix_length = match &listed.addr {
        if_addrs::IfAddr::V4(address) => address.prefixlen,
        if_addrs::IfAddr::V6(address) => address.prefixlen,
    };
    let (mtu, speed_mbit) = link(Path::new("/sys/class/net"), &listed.name);
    Interface {
        address: listed.ip(),
        prefix_length,
        index: listed.index,
        is_loopback: listed.is_loopback(),
        is_up: listed.is_oper_up(),
        mtu,
        speed_mbit,
        name: listed.name,
    }
}

/// MTU and speed of an interface, from `folder`, as far as they are there.
fn link(folder: &Path, name: &str) -> (Option<u32>, Option<u32>) {
    // A label belongs to the address: the interface is what stands before the colon.
    let interface = name.split(':').next().unwrap_or(name);
    let number = |file: &str| {
        let text = std::fs::read_to_string(folder.join(interface).join(file)).ok()?;
        // The speed is -1, or 2³²-1 on old kernels, where nobody knows it.
        let number: u32 = text.trim().parse().ok()?;
        (number != 0 && number != u32::MAX).then_some(number)
    };
    (number("mtu"), number("speed"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn this_host_reaches_itself() {
        let all = interfaces().unwrap();
        let loopback = all.iter().find(|interface| interface.is_loopback).unwrap();
        assert!(loopback.is_up && loopback.index.is_some(), "{loopback:?}");
        assert!(loopback.reaches(loopback.address));
        for interface in &all {
            let bits = if interface.address.is_ipv4() { 32 } else { 128 };
            assert!(interface.prefix_length <= bits, "{interface:?}");
        }
    }

    #[test]
    fn mtu_and_speed_are_read_where_they_are() {
        let folder = tempfile::tempdir().unwrap();
        for (name, mtu, speed) in [
            ("eth0", "9000\n", Some("100000\n")),
            ("virtual", "1400\n", Some("-1\n")),
            ("old", "1500\n", Some("4294967295\n")),
            ("lo", "65536\n", None),
            ("broken", "many\n", Some("\n")),
        ] {
            let interface = folder.path().join(name);
            std::fs::create_dir(&interface).unwrap();
            std::fs::write(interface.join("mtu"), mtu).unwrap();
            if let Some(speed) = speed {
                std::fs::write(interface.join("speed"), speed).unwrap();
            }
        }
        for (name, expected) in [
            ("eth0", (Some(9000), Some(100_000))),
            ("eth0:1", (Some(9000), Some(100_000))),
            ("virtual", (Some(1400), None)),
            ("old", (Some(1500), None)),
            ("lo", (Some(65_536), None)),
            ("broken", (None, None)),
            ("missing", (None, None)),
        ] {
            assert_eq!(link(folder.path(), name), expected, "{name}");
        }
    }

    #[test]
    fn it_is_shown_as_far_as_it_is_known() {
        let mut interface = Interface {
            name: "eth0".into(),
            address: "10.1.2.3".parse().unwrap(),
            prefix_length: 16,
            index: Some(2),
            is_loopback: false,
            is_up: true,
            mtu: Some(1500),
            speed_mbit: Some(10_000),
        };
        assert_eq!(
            interface.to_string(),
            "10.1.2.3%eth0 (MTU 1500, 10000 Mbit/s)"
        );
        interface.speed_mbit = None;
        assert_eq!(interface.to_string(), "10.1.2.3%eth0 (MTU 1500)");
        interface.mtu = None;
        assert_eq!(interface.to_string(), "10.1.2.3%eth0");
    }
}
