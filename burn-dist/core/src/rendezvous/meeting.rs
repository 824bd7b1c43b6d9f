//! Rank 0 waits for the others and tells all who all are.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::RendezvousError;
use super::acceptor::{Acceptor, listen};
use super::credentials::Credentials;
use super::handshake::PATIENCE;
use super::identity::MeetingPoint;
use super::member::{Join, Roster, Welcome};
use super::stream::Stream;
use super::time_limit::TimeLimit;
use super::wire::{self, Until};
use crate::report::{Numbers, Report};

/// What a connection to rank 0 is for.
pub(super) const PURPOSE: &[u8] = b"join";

/// Listens where the others come. At a loopback address nobody else can come; else on all of the host's.
pub(super) fn open(point: &MeetingPoint) -> Result<TcpListener, RendezvousError> {
    let any = [
        SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
    ];
    let (local, port) = match point {
        MeetingPoint::File(_) => (None, 0),
        MeetingPoint::Tcp { host, port } => {
            let resolved = (host.as_str(), *port).to_socket_addrs();
            let mut resolved = resolved
                .map(Iterator::collect)
                .unwrap_or_else(|_| Vec::new());
            resolved.retain(|address| address.ip().is_loopback());
            // A name of the host itself may stand for its loopback here and for another address elsewhere.
            let literal = host == "localhost" || host.parse::<IpAddr>().is_ok();
            (resolved.first().copied().filter(|_| literal), *port)
        }
    };
    let addresses = match local {
        Some(local) => vec![local],
        None => any
            .map(|address| SocketAddr::new(address.ip(), port))
            .to_vec(),
    };
    let mut outcome = Err(io::Error::from(io::ErrorKind::AddrNotAvailable));
    for address in addresses {
        outcome = listen(address);
        if outcome.is_ok() {
            break;
        }
    }
    outcome.map_err(|error| RendezvousError::Listen { port, error })
}

/// Waits until all ranks have joined, and welcomes them: all members, and the connections to those above rank 0.
pub(super) fn gather(
    listener: TcpListener,
    credentials: &Credentials,
    mut own: Join,
    time: TimeLimit,
    report: &Report,
) -> Result<(Roster, BTreeMap<usize, Stream>), RendezvousError> {
    let at = listener.local_addr()?;
    let (acceptor, joins) = Acceptor::start(listener, credentials, PURPOSE.to_vec(), report)?;
    let mut world = [0; 16];
    getrandom::fill(&mut world).map_err(io::Error::other)?;
    let mut joined = BTreeMap::new();
    let outcome = wait_for_all(&own, &joins, &mut joined, (at, time.end), report).and_then(|()| {
        if own.member.address.is_unspecified() {
            let sockets = joined.values().map(|(_, stream)| stream.socket());
            own.member.address = reached_at(sockets).unwrap_or(own.member.address);
        }
        let members = joined.values().map(|(join, _)| join.member.clone());
        let roster = Roster {
            world: world.iter().map(|byte| format!("{byte:02x}")).collect(),
            members: [own.member.clone()].into_iter().chain(members).collect(),
        };
        match roster.unreachable() {
            Some(reason) => Err((RendezvousError::Refused(reason), None)),
            None => Ok(roster),
        }
    });
    let roster = match outcome {
        Ok(roster) => roster,
        Err((error, other)) => {
            let streams = joined.into_values().map(|(_, stream)| stream);
            refuse(&error, streams.chain(other), &joins, own.world_size);
            return Err(error);
        }
    };
    drop(acceptor);
    let mut streams = BTreeMap::new();
    for (rank, (_, stream)) in joined {
        let deadline = Instant::now() + PATIENCE;
        let mut until = Until {
            stream: &stream,
            deadline,
        };
        // Who has gone meanwhile is found out when all say that they are connected, and then all are told.
        let _ = wire::send(&mut until, &Welcome::Roster(roster.clone()));
        streams.insert(rank, stream);
    }
    Ok((roster, streams))
}

/// The address at which most of the other ends of `sockets` reach this process; loopback only if there is no other.
fn reached_at<'a>(sockets: impl Iterator<Item = &'a TcpStream>) -> Option<IpAddr> {
    let local = sockets.filter_map(|socket| socket.local_addr().ok());
    let mut counts = BTreeMap::<IpAddr, usize>::new();
    for address in local {
        *counts.entry(address.ip().to_canonical()).or_default() += 1;
    }
    let best = counts
        .into_iter()
        .max_by_key(|(address, count)| (!address.is_loopback(), *count));
    best.map(|(address, _)| address)
}

/// Tells all why there will be no world: those at the ends of `streams`, and for a moment those that still come, if
/// others do not.
fn refuse(
    error: &RendezvousError,
    streams: impl Iterator<Item = Stream>,
    joins: &Receiver<(Join, Stream)>,
    world_size: usize,
) {
    let tell = |stream: Stream| {
        let deadline = Instant::now() + PATIENCE;
        let mut until = Until {
            stream: &stream,
            deadline,
        };
        // Who is gone need not know.
        let _ = wire::send(&mut until, &Welcome::Refused(error.to_string()));
    };
    let mut told = streams.map(tell).count();
    if matches!(error, RendezvousError::Missing { .. }) {
        return;
    }
    let until = Instant::now() + PATIENCE;
    while told + 1 < world_size {
        let rest = until.saturating_duration_since(Instant::now());
        let Ok((_, stream)) = joins.recv_timeout(rest) else {
            return;
        };
        tell(stream);
        told += 1;
    }
}

type Joined = BTreeMap<usize, (Join, Stream)>;

/// Waits at an address until all but `own` are in `joined`, or until the time is over. An error comes with the connection
/// of who has caused it, if that is not among them.
fn wait_for_all(
    own: &Join,
    joins: &Receiver<(Join, Stream)>,
    joined: &mut Joined,
    (at, deadline): (SocketAddr, Instant),
    report: &Report,
) -> Result<(), (RendezvousError, Option<Stream>)> {
    let world_size = own.world_size;
    let missing = |joined: &Joined| {
        let missing = (1..world_size).filter(|rank| !joined.contains_key(rank));
        missing.collect::<Vec<usize>>()
    };
    let mut tell = Instant::now() + Duration::from_secs(10);
    while joined.len() + 1 < world_size {
        let now = Instant::now();
        if now >= deadline {
            let ranks = missing(joined);
            return Err((RendezvousError::Missing { ranks, world_size }, None));
        }
        if now >= tell {
            tell = now + Duration::from_secs(10);
            let missing = missing(joined);
            report.note(&format!(
                "waiting at {at} for {} of {world_size} ranks to join: [{}]; {:.0} s are left",
                missing.len(),
                Numbers(&missing),
                (deadline - now).as_secs_f64()
            ));
        }
        let (join, stream) = match joins.recv_timeout(tell.min(deadline) - now) {
            Ok(joined) => joined,
            Err(RecvTimeoutError::Timeout) => continue,
            // The listener has ended: nobody can come any more.
            Err(RecvTimeoutError::Disconnected) => {
                return Err((io::Error::from(io::ErrorKind::BrokenPipe).into(), None));
            }
        };
        if let Some(reason) = refusal(own, joined, &join) {
            return Err((RendezvousError::Refused(reason), Some(stream)));
        }
        // Who has gone and come again takes its own place.
        joined.insert(join.member.rank, (join, stream));
    }
    Ok(())
}

/// Why there can be no world with `join`.
fn refusal(own: &Join, joined: &Joined, join: &Join) -> Option<String> {
    let (rank, world_size) = (join.member.rank, own.world_size);
    if join.world_size != world_size {
        return Some(format!(
            "rank {rank} on {} expects {} ranks, rank 0 expects {world_size}: start all with the same world size",
            join.member.host.name, join.world_size
        ));
    }
    if rank == 0 || rank >= world_size {
        return Some(format!(
            "process {} on {} says that it is rank {rank} of {world_size}, as rank 0 itself does: give each process a rank of its own",
            join.member.process, join.member.host.name
        ));
    }
    if let Some((other, _)) = joined.get(&rank).filter(|(_, stream)| lives(stream)) {
        let (one, two) = (&other.member, &join.member);
        return Some(format!(
            "rank {rank} is claimed by process {} on {} and by process {} on {}: give each process a rank of its own",
            one.process, one.host.name, two.process, two.host.name
        ));
    }
    own.terms.difference(&join.terms, rank)
}

/// Whether the other side of a connection that says nothing is still there.
fn lives(stream: &Stream) -> bool {
    matches!(stream.is_readable(), Ok(false))
}
