//! What a process tells the others about itself, and what all then know of all.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::host::{self, Namespaces};

/// Where a process runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its name, for people.
    pub name: String,
    /// A number that is drawn when the host starts, or what else tells it from other hosts.
    pub boot: String,
    /// The network that the process sees.
    pub network: String,
    /// The shared memory that it sees.
    pub ipc: String,
    /// The numbers of processes that it sees.
    pub pid: String,
}

impl Host {
    /// The host of this process, which `id` tells from others, or else the system. What the system does not tell is
    /// empty, and equal to nothing.
    pub fn of_process(id: Option<&str>) -> Self {
        let Namespaces { ipc, network, pid } = Namespaces::of_process();
        Self {
            name: host::own_name(),
            boot: id
                .map(ToOwned::to_owned)
                .or_else(host::own_boot_id)
                .unwrap_or_default(),
            network: network.value.unwrap_or_default(),
            ipc: ipc.value.unwrap_or_default(),
            pid: pid.value.unwrap_or_default(),
        }
    }

    /// Whether both run on one machine.
    pub fn is(&self, other: &Self) -> bool {
        !self.boot.is_empty() && self.boot == other.boot
    }

    /// Whether both see one network, and so each other's loopback.
    pub fn shares_network(&self, other: &Self) -> bool {
        self.is(other) && self.network == other.network
    }

    /// Whether both see one shared memory.
    pub fn shares_memory(&self, other: &Self) -> bool {
        self.is(other) && !self.ipc.is_empty() && self.ipc == other.ipc
    }

    /// Whether both see each other's processes by one number.
    pub fn shares_processes(&self, other: &Self) -> bool {
        self.is(other) && !self.pid.is_empty() && self.pid == other.pid
    }
}

/// A process of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its rank.
    pub rank: usize,
    /// The address at which others reach it: that of its end of the connection to rank 0; of rank 0 itself, that of
    /// its ends of most of these.
    pub address: IpAddr,
    /// The port at which it waits for the ranks above.
    pub port: u16,
    /// Where it runs.
    pub host: Host,
    /// Its number on the host.
    pub process: u32,
}

/// What a process says when it joins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Join {
    pub member: Member,
    pub world_size: usize,
    pub terms: Terms,
}

/// What has to be the same in all processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    /// A number of the executable, unless all are welcome.
    pub build: Option<u64>,
    /// Options and their values, in the order in which they are to be compared.
    pub options: Vec<(String, String)>,
}

impl Terms {
    /// How those of `rank` differ from these of rank 0; `None` if they do not.
    pub(super) fn difference(&self, theirs: &Self, rank: usize) -> Option<String> {
        if self.build != theirs.build {
            return Some(format!(
                "rank {rank} runs another binary than rank 0: start the same one everywhere, or set BURN_DIST_ANY_BUILD=1"
            ));
        }
        let value = |options: &[(String, String)], name: &str| {
            let found = options.iter().find(|(other, _)| other == name);
            found.map_or("unset".to_owned(), |(_, value)| value.clone())
        };
        let names = self.options.iter().chain(&theirs.options);
        names.map(|(name, _)| name).find_map(|name| {
            let (own, other) = (value(&self.options, name), value(&theirs.options, name));
            (own != other).then(|| {
                format!("rank {rank} runs another configuration: {name} {other} ≠ {own} of rank 0")
            })
        })
    }
}

/// A number of the executable of this process; the same for the same content.
///
/// # Errors
///
/// If it cannot be read.
pub fn build_of_process() -> std::io::Result<u64> {
    use siphasher::sip::SipHasher13;
    use std::hash::Hasher;
    use std::io::Read;

    let mut file = std::fs::File::open("/proc/self/exe")?;
    let (mut hasher, mut block) = (SipHasher13::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut block)? {
            0 => return Ok(hasher.finish()),
            count => hasher.write(&block[..count]),
        }
    }
}

/// What all know when all are there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Roster {
    /// A number of this world, of which no other job has the same.
    pub world: String,
    /// All ranks, in order.
    pub members: Vec<Member>,
}

impl Roster {
    /// Whether no rank before `rank` is on its host.
    pub fn is_first_of_host(&self, rank: usize) -> bool {
        let own = &self.members[rank].host;
        !self.members[..rank]
            .iter()
            .any(|member| member.host.is(own))
    }

    /// The number of the world in messages.
    pub fn group(&self) -> u32 {
        let first = self.world.get(..8);
        first
            .and_then(|first| u32::from_str_radix(first, 16).ok())
            .unwrap_or_default()
    }

    /// Whether it names `world_size` ranks, each in its place: it comes from outside.
    pub(super) fn is_of(&self, world_size: usize) -> bool {
        let ranks = self.members.iter().map(|member| member.rank);
        ranks.eq(0..world_size)
    }

    /// Why the ranks will not reach each other; `None` if nothing says so.
    pub(super) fn unreachable(&self) -> Option<String> {
        let (first, others) = self.members.split_first()?;
        let lonely = others.iter().find(|member| member.address.is_loopback())?;
        let far = self
            .members
            .iter()
            .find(|m| !m.host.shares_network(&lonely.host))?;
        let (first, lonely_rank) = (&first.host.name, lonely.rank);
        Some(format!(
            "rank {lonely_rank} on {} has reached rank 0 on {first} by the loopback address {}, at which rank {} on {} cannot reach it: give an address of the network as the meeting point, or name the interface by BURN_DIST_IFNAME",
            lonely.host.name, lonely.address, far.rank, far.host.name
        ))
    }
}

/// The answer to [`Join`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Welcome {
    /// All are there.
    Roster(Roster),
    /// There will be no world.
    Refused(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing;

    fn host(name: &str) -> Host {
        Host {
            name: name.into(),
            boot: name.into(),
            network: "net".into(),
            ipc: "ipc".into(),
            pid: "pid".into(),
        }
    }

    fn roster(members: &[(&str, &str)]) -> Roster {
        let member = |(rank, (name, address)): (usize, &(&str, &str))| Member {
            rank,
            address: address.parse().unwrap_or(IpAddr::from([0, 0, 0, 0])),
            port: 1,
            host: host(name),
            process: 1,
        };
        Roster {
            world: "0123456789abcdef".into(),
            members: members.iter().enumerate().map(member).collect(),
        }
    }

    #[test]
    fn loopback_between_hosts_is_refused_and_within_a_host_it_is_not() {
        let one = roster(&[("a", "127.0.0.1"), ("a", "127.0.0.1")]);
        assert_eq!(one.unreachable(), None);
        let two = roster(&[("a", "127.0.0.1"), ("a", "10.0.0.1"), ("b", "10.0.0.2")]);
        assert_eq!(two.unreachable(), None);
        let trap = roster(&[("a", "127.0.0.1"), ("a", "127.0.1.1"), ("b", "10.0.0.2")]);
        let reason = trap.unreachable().unwrap_or_default();
        assert!(reason.contains("rank 1 on a"), "{reason}");
        assert!(
            reason.contains("127.0.1.1") && reason.contains("rank 2 on b"),
            "{reason}"
        );
    }

    #[test]
    fn damaged_messages_are_refused_or_read() {
        let roster = roster(&[("a", "10.0.0.1"), ("b", "fd00::2")]);
        fuzzing::messages(&[Join {
            member: roster.members[1].clone(),
            world_size: 2,
            terms: Terms {
                build: Some(7),
                options: vec![("batch_size".into(), "16".into())],
            },
        }]);
        fuzzing::messages(&[Welcome::Roster(roster), Welcome::Refused("no".into())]);
    }

    #[test]
    fn a_roster_names_all_ranks_in_their_places() {
        let mut roster = roster(&[("a", "10.0.0.1"), ("b", "10.0.0.2")]);
        assert!(roster.is_of(2) && !roster.is_of(1) && !roster.is_of(3));
        roster.members.swap(0, 1);
        assert!(!roster.is_of(2));
        // Whatever rank 0 calls the world.
        for world in ["", "é", "x", "0123456z", "0123456789"] {
            roster.world = world.into();
            roster.group();
        }
    }

    #[test]
    fn terms_name_what_differs() {
        let terms = |build, batch: &str| Terms {
            build: Some(build),
            options: vec![
                ("epochs".into(), "3".into()),
                ("batch_size".into(), batch.into()),
            ],
        };
        assert_eq!(terms(1, "16").difference(&terms(1, "16"), 3), None);
        let build = terms(1, "16").difference(&terms(2, "16"), 3);
        assert!(
            build
                .unwrap_or_default()
                .starts_with("rank 3 runs another binary")
        );
        let value = terms(1, "32")
            .difference(&terms(1, "16"), 3)
            .unwrap_or_default();
        assert!(value.contains("batch_size 16 ≠ 32"), "{value}");
        let missing = terms(1, "32").difference(
            &Terms {
                build: Some(1),
                options: vec![],
            },
            3,
        );
        assert!(missing.unwrap_or_default().contains("epochs unset ≠ 3"));
    }
}
