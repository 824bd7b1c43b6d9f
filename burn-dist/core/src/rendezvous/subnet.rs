//! A range of addresses: `10.1.0.0/16`, `fd00::/8`.
//!
//! Knows no interface.

use std::fmt::{Display, Formatter};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// The addresses that have their first bits in common. The others of its own address are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Subnet {
    address: IpAddr,
    prefix_length: u8,
}

impl Subnet {
    /// That of `address`; `None` if the address has not as many bits.
    pub(super) fn of(address: IpAddr, prefix_length: u8) -> Option<Self> {
        let address = first_bits(address, prefix_length)?;
        Some(Self {
            address,
            prefix_length,
        })
    }

    /// Whether `address` is one of them; none of the other family is.
    pub(super) fn contains(&self, address: IpAddr) -> bool {
        Self::of(address, self.prefix_length) == Some(*self)
    }

    /// Whether all of them are of the host itself.
    pub(super) fn is_loopback(&self) -> bool {
        // The first address of a wider one begins otherwise.
        self.address.is_loopback()
    }
}

/// `address` with all but its first bits 0.
fn first_bits(address: IpAddr, prefix_length: u8) -> Option<IpAddr> {
    let others = |bits: u32| bits.checked_sub(prefix_length.into());
    Some(match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(others(32)?).unwrap_or(0);
            Ipv4Addr::from_bits(address.to_bits() & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(others(128)?).unwrap_or(0);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
    })
}

impl Display for Subnet {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_length)
    }
}

/// What is no `ADDRESS/LENGTH`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoSubnet;

impl FromStr for Subnet {
    type Err = NoSubnet;

    fn from_str(text: &str) -> Result<Self, NoSubnet> {
        let (address, length) = text.split_once('/').ok_or(NoSubnet)?;
        // The parser of the standard library lets a sign pass.
        let digits = length.bytes().all(|byte| byte.is_ascii_digit());
        let length = length.parse().ok().filter(|_| digits).ok_or(NoSubnet)?;
        Self::of(address.parse().map_err(|_| NoSubnet)?, length).ok_or(NoSubnet)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    fn subnet(text: &str) -> Subnet {
        text.parse().unwrap()
    }

    #[test]
    fn a_subnet_holds_the_addresses_that_begin_as_it_does() {
        for (text, inside, outside) in [
            ("10.1.0.0/16", "10.1.255.3", "10.2.0.1"),
            ("10.1.2.3/32", "10.1.2.3", "10.1.2.2"),
            ("0.0.0.0/0", "255.1.2.3", "::1"),
            ("192.168.1.128/25", "192.168.1.129", "192.168.1.127"),
            ("fd00::/8", "fdff::1", "fe80::1"),
            ("2001:db8::/127", "2001:db8::1", "2001:db8::2"),
            ("::/0", "2001::1", "10.0.0.1"),
        ] {
            assert!(subnet(text).contains(inside.parse().unwrap()), "{text}");
            assert!(!subnet(text).contains(outside.parse().unwrap()), "{text}");
        }
        // Written with the address of a host, as `ip address` prints it.
        assert_eq!(subnet("10.1.2.3/16").to_string(), "10.1.0.0/16");
    }

    #[test]
    fn only_what_is_loopback_throughout_is_loopback() {
        for (text, expected) in [
            ("127.0.0.0/8", true),
            ("127.0.0.1/32", true),
            ("::1/128", true),
            ("0.0.0.0/0", false),
            ("127.0.0.0/7", false),
            ("::/0", false),
            ("10.0.0.0/8", false),
        ] {
            assert_eq!(subnet(text).is_loopback(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_subnet_is_refused() {
        for text in [
            "",
            "/",
            "/8",
            "10.0.0.0",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "10.0.0.0/-8",
            "10.0.0.0/256",
            "10.0.0/8",
            "fd00::/129",
            "eth0/8",
            "10.0.0.0/8/8",
        ] {
            assert_eq!(text.parse::<Subnet>(), Err(NoSubnet), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(bits in any::<u128>(), length in 0u8..=128) {
            let address = match length {
                0..=32 => IpAddr::V4(Ipv4Addr::from_bits(bits as u32)),
                _ => IpAddr::V6(Ipv6Addr::from_bits(bits)),
            };
            let found = Subnet::of(address, length).unwrap();
            prop_assert_eq!(subnet(&found.to_string()), found);
            prop_assert!(found.contains(address));
        }
    }
}
