//! Which interface a rank advertises, on hosts as they are met.
#![allow(clippy::unwrap_used)]

use std::net::IpAddr;

use burn_dist_core::rendezvous::{Environment, Interface, InterfaceError, InterfaceFilter};
use proptest::prelude::*;

/// `NAME ADDRESS/LENGTH` by commas; a name with `!` behind it is down.
fn host(lines: &str) -> Vec<Interface> {
    let interface = |(index, line): (usize, &str)| {
        let (name, address) = line.trim().split_once(' ').unwrap();
        let (address, prefix_length) = address.split_once('/').unwrap();
        let address: IpAddr = address.parse().unwrap();
        Interface {
            name: name.trim_end_matches('!').into(),
            address,
            prefix_length: prefix_length.parse().unwrap(),
            index: Some(index as u32 + 1),
            is_loopback: address.is_loopback(),
            is_up: !name.ends_with('!'),
            mtu: Some(1500),
            speed_mbit: None,
        }
    };
    lines.split(',').enumerate().map(interface).collect()
}

fn choose<'a>(
    filter: &str,
    interfaces: &'a [Interface],
    peer: &str,
) -> Result<&'a Interface, InterfaceError> {
    let peer: Option<IpAddr> = peer.parse().ok();
    let filter: InterfaceFilter = filter.parse()?;
    filter.choose(interfaces, peer.as_ref())
}

/// A host with Docker, a second network for data and InfiniBand.
const HOST: &str = "lo 127.0.0.1/8, lo ::1/128, docker0 172.17.0.1/16, br-9f2c 172.18.0.1/16, \
                    eth0 10.0.0.5/24, eth0 fe80::5/64, eth0 2001:db8::5/64, eth01 10.9.0.5/24, \
                    eth2! 10.8.0.5/24, ib0 10.1.0.5/16, ib0 fe80::1:5/64";

#[test]
fn the_variable_means_what_it_says() {
    let host = host(HOST);
    for (filter, expected) in [
        ("", "10.1.0.5"),
        ("eth", "10.0.0.5"),
        ("=eth01", "10.9.0.5"),
        ("^ib", "10.0.0.5"),
        ("^=ib0,eth0", "10.9.0.5"),
        ("^=eth", "10.1.0.5"),
        ("10.9.0.5", "10.9.0.5"),
        ("10.9.0.0/24", "10.9.0.5"),
        ("^10.1.0.0/16,eth0", "172.17.0.1"),
        ("2001:db8::/32", "2001:db8::5"),
        // As a chain: the first part that this host has.
        ("ens,eth01,ib", "10.9.0.5"),
        ("docker,ib", "172.17.0.1"),
        ("eth2,10.0.0.0/24", "10.0.0.5"),
        // Wide ranges do not mean loopback, narrow ones and names do.
        ("0.0.0.0/0", "10.1.0.5"),
        ("lo", "127.0.0.1"),
        ("127.0.0.0/8", "127.0.0.1"),
        ("=lo,=eth0", "127.0.0.1"),
        ("::1", "::1"),
        ("^eth,ib,docker,br", "-"),
        // Down, and link-local.
        ("eth2", "-"),
        ("fe80::5", "-"),
        ("fe80::/10", "-"),
    ] {
        match choose(filter, &host, "") {
            Ok(found) => assert_eq!(found.address.to_string(), expected, "{filter}"),
            Err(error) => assert_eq!("-", expected, "{filter}: {error}"),
        }
    }
}

#[test]
fn without_the_variable_the_best_is_taken() {
    for (interfaces, peer, expected) in [
        // The lessons of NCCL: InfiniBand, then any other, bridges late.
        ("docker0 172.17.0.1/16, eth0 10.0.0.5/24", "", "eth0"),
        ("veth12 10.0.9.1/32, wlan0 10.0.0.5/24", "", "wlan0"),
        ("eth0 10.0.0.5/24, ib0 10.1.0.5/16", "10.0.0.1", "ib0"),
        ("docker0 172.17.0.1/16, lo 127.0.0.1/8", "", "docker0"),
        // The network of rank 0 before the others.
        ("eth0 10.0.0.5/24, eth1 10.2.0.5/24", "10.2.0.1", "eth1"),
        ("eth0 10.0.0.5/24, eth1 10.2.0.5/24", "10.3.0.1", "eth0"),
        (
            "eth0 10.0.0.5/24, docker0 172.17.0.1/16",
            "172.17.0.2",
            "docker0",
        ),
        // The family of rank 0; IPv4 where nobody says.
        (
            "eth0 10.0.0.5/24, eth1 2001:db8::5/64",
            "2001:db9::1",
            "eth1",
        ),
        ("eth1 2001:db8::5/64, eth0 10.0.0.5/24", "", "eth0"),
        (
            "ib0 10.1.0.5/16, eth0 2001:db8::5/64",
            "2001:db9::1",
            "eth0",
        ),
        (
            "eth1 2001:db8::5/64, eth0 10.0.0.5/24",
            "::ffff:10.0.0.1",
            "eth0",
        ),
        // Addresses that a host gives itself, as Kubernetes' cache of names.
        (
            "nodelocaldns 169.254.20.10/32, eth0 10.0.0.5/24",
            "",
            "eth0",
        ),
        // A host that is a router has its address on `lo`.
        ("lo 127.0.0.1/8, lo 10.7.0.5/32", "10.7.0.1", "lo"),
        // All ranks on this host.
        ("eth0! 10.0.0.5/24, lo 127.0.0.1/8", "127.0.0.1", "lo"),
    ] {
        let host = host(interfaces);
        let found = choose("", &host, peer).unwrap();
        assert_eq!(found.name, expected, "{interfaces} towards {peer}");
        assert!(!found.is_loopback || peer.starts_with("127."));
    }
}

#[test]
fn loopback_is_nothing_to_advertise_unless_asked_for() {
    let host = host("lo 127.0.0.1/8, eth0! 10.0.0.5/24");
    for filter in ["", "^docker", "0.0.0.0/0"] {
        let text = choose(filter, &host, "10.0.0.1").unwrap_err().to_string();
        assert!(text.contains("127.0.0.1%lo (loopback)"), "{text}");
    }
    assert!(choose("lo", &host, "10.0.0.1").unwrap().is_loopback);
}

#[test]
fn the_error_lists_what_is_there_and_what_may_be_said() {
    let host = host(HOST);
    let error = choose("=eth2,2001:db8::5,fe80::5", &host, "10.0.0.1").unwrap_err();
    let text = error.to_string();
    for part in [
        "no network interface fits BURN_DIST_IFNAME==eth2,2001:db8::5,fe80::5 towards rank 0 at 10.0.0.1",
        "127.0.0.1%lo (not asked for), ",
        "10.8.0.5%eth2 (down)",
        "2001:db8::5%eth0 (IPv6)",
        "fe80::5%eth0 (IPv6 link-local)",
        "a subnet (10.1.0.0/16)",
    ] {
        assert!(
            text.contains(part) && !text.contains('\n'),
            "{part}: {text}"
        );
    }
    let text = choose("^eth,ib,docker,br", &host, "")
        .unwrap_err()
        .to_string();
    assert!(text.contains("10.1.0.5%ib0 (left out)"), "{text}");
    let text = choose("", &[], "").unwrap_err().to_string();
    assert!(
        text.starts_with("no network interface can be used: there is none; "),
        "{text}"
    );
}

#[test]
fn what_is_no_filter_is_named() {
    for (value, part) in [
        (",", "\"\" names nothing"),
        ("eth0,", "\"\" names nothing"),
        ("^", "\"^\" names nothing"),
        ("=,eth0", "\"=\" names nothing"),
        ("10.0.0.0/33", "\"10.0.0.0/33\" is no ADDRESS/LENGTH"),
        ("/dev/eth0", "is no ADDRESS/LENGTH"),
        (
            "eth0 eth1",
            "\"eth0 eth1\" is neither a name nor an address",
        ),
        ("eth\n0", "\"eth\\n0\" is neither"),
        ("fe80::1%eth0", "is neither"),
        ("interface-with-16", "is neither"),
        ("^^eth0", "is neither"),
        ("eth0,^lo", "\"^lo\" has other marks than the first part"),
        ("^eth0,=lo", "\"=lo\" has other marks"),
        ("^=eth0,^lo", "\"^lo\" has other marks"),
    ] {
        let text = value.parse::<InterfaceFilter>().unwrap_err().to_string();
        assert!(text.contains(part), "{value}: {text}");
        assert!(
            text.starts_with("BURN_DIST_IFNAME is ") && !text.contains('\n'),
            "{text}"
        );
    }
}

#[test]
fn marks_are_written_once() {
    for (value, expected) in [
        ("^docker,^lo", "^docker,lo"),
        ("=eth0,=eth1", "=eth0,eth1"),
        ("^=eth0 , ^=ib0", "^=eth0,ib0"),
        (" 10.1.2.3/16 ", "10.1.0.0/16"),
        ("=10.1.2.3", "=10.1.2.3"),
        ("FD00::1", "fd00::1"),
        ("", ""),
        (" ", ""),
    ] {
        let filter: InterfaceFilter = value.parse().unwrap();
        assert_eq!(filter.to_string(), expected, "{value}");
    }
}

#[test]
fn it_comes_from_the_environment() {
    let of = |value: &str| {
        let environment: Environment = [("BURN_DIST_IFNAME", value)].into_iter().collect();
        InterfaceFilter::of(&environment)
    };
    assert_eq!(of("^lo").unwrap(), Some("^lo".parse().unwrap()));
    assert_eq!(of(" ").unwrap(), None);
    assert!(of("eth0,").is_err());
    assert_eq!(InterfaceFilter::of(&Environment::default()).unwrap(), None);
}

/// Parts of filters.
const PARTS: [&str; 10] = [
    "eth0",
    "eth01",
    "ib0",
    "lo",
    "docker0",
    "e",
    "10.0.0.5",
    "10.0.0.0/8",
    "127.0.0.1",
    "fd00::/8",
];

proptest! {
    /// Whatever it is given, it answers; what it takes, it writes so that it is read as the same.
    #[test]
    fn what_is_written_is_read_again(value in r"[\^=,./: a-e0-9%]{0,24}|\PC{0,24}") {
        if let Ok(filter) = value.parse::<InterfaceFilter>() {
            let written = filter.to_string();
            prop_assert_eq!(written.parse::<InterfaceFilter>().unwrap(), filter, "{}", written);
        }
    }

    #[test]
    fn the_chosen_one_can_be_advertised(
        marks in prop::sample::select(vec!["", "=", "^", "^="]),
        parts in prop::collection::vec(prop::sample::select(&PARTS[..]), 1..4),
        up in prop::collection::vec(any::<bool>(), 8),
        peer in prop::sample::select(vec!["", "10.0.0.1", "fd00::1", "127.0.0.1"]),
    ) {
        let mut host = host(
            "lo 127.0.0.1/8, eth0 10.0.0.5/8, eth0 fe80::5/64, eth0 fd00::5/8, eth01 10.9.0.5/24, \
             docker0 172.17.0.1/16, ib0 10.1.0.5/16, ib0 fe80::6/64",
        );
        for (interface, is_up) in host.iter_mut().zip(up) {
            interface.is_up = is_up;
        }
        let value = format!("{marks}{}", parts.join(","));
        if let Ok(found) = choose(&value, &host, peer) {
            prop_assert!(found.is_up && !found.is_ipv6_link_local());
            if let Ok(peer) = peer.parse::<IpAddr>() {
                prop_assert_eq!(found.address.is_ipv4(), peer.is_ipv4());
            }
            // A list means an interface or leaves it out, never both.
            let opposite = match value.strip_prefix('^') {
                Some(included) => included.to_string(),
                None => format!("^{value}"),
            };
            let alone = std::slice::from_ref(found);
            prop_assert!(choose(&opposite, alone, peer).is_err(), "{}", value);
        }
    }
}
