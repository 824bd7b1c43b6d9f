//! Which transport two ranks take, and its lanes.

use std::io::{self, ErrorKind};
use std::time::Duration;

use super::options::Options;
use crate::collective::executor::Link;
use crate::rendezvous::wire::{self, Until, WireError};
use crate::rendezvous::{Host, Member, Roster, Stream, TimeLimit};
use crate::report::Report;
#[cfg(feature = "tls")]
use crate::transport::TlsLane;
use crate::transport::{
    Inbox, InboxOffer, Lane, SharedMemoryError, SharedMemoryLane, TcpLane, Throttled, Transport,
};

/// Why two ranks have no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// Shared memory is wanted where there is none.
    #[error(
        "BURN_DIST_TRANSPORT is shm, but rank {rank} on {host} shares no memory with rank {own}: use auto"
    )]
    Apart {
        /// The other rank.
        rank: usize,
        /// Its host.
        host: String,
        /// This one.
        own: usize,
    },
    /// Shared memory is wanted and cannot be had.
    #[error("BURN_DIST_TRANSPORT is shm, but {0}")]
    SharedMemory(#[from] SharedMemoryError),
    /// The other rank has gone.
    #[error("rank {rank} has gone while connections were made: {reason}")]
    Lost {
        /// The rank.
        rank: usize,
        /// What was seen of it.
        reason: String,
    },
    /// The other rank is there and says nothing.
    #[error(
        "rank {rank} ({place}) has not answered within {seconds:.0} s, while it was to say {awaited}: it is stopped or overloaded; or allow more time by BURN_DIST_TIMEOUT"
    )]
    Silent {
        /// The rank.
        rank: usize,
        /// Its host and process.
        place: String,
        /// The time to come together.
        seconds: f64,
        /// What it was to say.
        awaited: &'static str,
    },
    /// The system refuses something.
    #[error("no connection to rank {rank}: {error}")]
    Io {
        /// The rank.
        rank: usize,
        /// Why.
        error: io::Error,
    },
}

/// TCP connections of two members.
pub(super) fn streams(options: &Options, one: &Member, other: &Member) -> usize {
    if one.host.is(&other.host) {
        1
    } else {
        options.streams
    }
}

/// The lanes to each rank, and the inbox of this one, from which those of shared memory read.
pub(super) fn connect(
    rank: usize,
    roster: &Roster,
    streams: Vec<Vec<Stream>>,
    options: &Options,
    time: TimeLimit,
    report: &Report,
) -> Result<(Vec<Link>, Option<Inbox>), ConnectionError> {
    let own = &roster.members[rank].host;
    let near: Vec<usize> = match options.transport {
        Some(Transport::Tcp) => Vec::new(),
        _ => neighbours(rank, roster, own),
    };
    if options.transport == Some(Transport::Shm) {
        let apart = roster
            .members
            .iter()
            .find(|m| m.rank != rank && !near.contains(&m.rank));
        if let Some(apart) = apart {
            return Err(ConnectionError::Apart {
                rank: apart.rank,
                host: apart.host.name.clone(),
                own: rank,
            });
        }
    }
    let (mut inbox, mut failure) = (None, None);
    if !near.is_empty() {
        let is_seen = |peer: &usize| roster.members[*peer].host.shares_processes(own);
        match Inbox::create(near.len(), near.iter().all(is_seen)) {
            Ok(made) => inbox = Some(made),
            Err(error) if options.transport.is_some() => return Err(error.into()),
            Err(error) => failure = Some(error),
        }
    }
    let near = near.iter().map(|&peer| (peer, &streams[peer][0]));
    let near: Vec<(usize, &Stream)> = near.collect();
    let (mut agreed, without) = agree(rank, roster, &near, inbox.as_ref(), options, time, report)?;
    // Where all ranks of a host have none, the first says so.
    if let Some(error) = failure.filter(|_| without.iter().all(|peer| *peer > rank)) {
        report.warn(&format!("no shared memory, TCP instead: {error}"));
    }
    if let Some(inbox) = &inbox {
        // All have opened it that are going to.
        inbox.close_door();
    }
    let mut links = Vec::with_capacity(streams.len());
    for (peer, streams) in streams.into_iter().enumerate() {
        let mut lanes: Vec<Box<dyn Lane>> = Vec::new();
        if let Some(lane) = agreed.remove(&peer) {
            lanes.push(throttled(lane, options));
        } else {
            for stream in streams {
                let lane = tcp(stream, options);
                lanes.push(lane.map_err(|error| ConnectionError::Io { rank: peer, error })?);
            }
        }
        links.push(lanes);
    }
    Ok((links, inbox))
}

/// A lane over `stream`, encrypted as that is.
fn tcp(stream: Stream, options: &Options) -> io::Result<Box<dyn Lane>> {
    // Later than the deadline of an operation, which knows more of what is missing.
    let silence = options.operation_timeout + Duration::from_secs(5);
    #[cfg(not(feature = "tls"))]
    let socket = stream.into_socket();
    #[cfg(feature = "tls")]
    let socket = match stream.into_parts() {
        (socket, Some(connection)) => {
            let lane = TlsLane::new(socket, connection, silence)?;
            return Ok(throttled(lane, options));
        }
        (socket, None) => socket,
    };
    Ok(throttled(TcpLane::new(socket, silence)?, options))
}

fn throttled<L: Lane + 'static>(lane: L, options: &Options) -> Box<dyn Lane> {
    match options.throttle {
        Some(throttle) => Box::new(Throttled::new(lane, throttle)),
        None => Box::new(lane),
    }
}

/// The other ranks that see the memory that `rank` sees.
fn neighbours(rank: usize, roster: &Roster, host: &Host) -> Vec<usize> {
    let members = roster.members.iter().filter(|member| member.rank != rank);
    let near = members.filter(|member| member.host.shares_memory(host));
    near.map(|member| member.rank).collect()
}

type Agreed = std::collections::BTreeMap<usize, SharedMemoryLane>;

/// The lanes of shared memory that both sides have got: this one, and each of `near` at the end of its stream; and which of
/// these have no shared memory at all.
fn agree(
    rank: usize,
    roster: &Roster,
    near: &[(usize, &Stream)],
    inbox: Option<&Inbox>,
    options: &Options,
    time: TimeLimit,
    report: &Report,
) -> Result<(Agreed, Vec<usize>), ConnectionError> {
    let time = time.once_there();
    let until = |stream| Until {
        stream,
        deadline: time.end,
    };
    let failed = |rank: usize, awaited| {
        let member = &roster.members[rank];
        move |error| match error {
            WireError::Io(error) if error.kind() == ErrorKind::TimedOut => {
                ConnectionError::Silent {
                    rank,
                    place: format!("{}, process {}", member.host.name, member.process),
                    seconds: time.seconds(),
                    awaited,
                }
            }
            error => ConnectionError::Lost {
                rank,
                reason: error.to_string(),
            },
        }
    };
    const OFFER: &str = "where its shared memory lies";
    const VERDICT: &str = "whether it sees the shared memory of this rank";
    let refused = |rank: usize| move |error| ConnectionError::Io { rank, error };
    for &(peer, stream) in near {
        let offer = inbox.map(Inbox::offer);
        wire::send(&mut until(stream), &offer).map_err(failed(peer, OFFER))?;
    }
    let mut opened = Agreed::new();
    let mut without = Vec::new();
    for (own_ring, &(peer, stream)) in near.iter().enumerate() {
        let offer: Option<InboxOffer> =
            wire::receive(&mut until(stream)).map_err(failed(peer, OFFER))?;
        if offer.is_none() {
            without.push(peer);
        }
        // Where this rank is among the neighbours of the other.
        let others = neighbours(peer, roster, &roster.members[peer].host);
        let ring = others.iter().position(|other| *other == rank);
        if let (Some(inbox), Some(offer), Some(ring)) = (inbox, offer, ring) {
            // Behind this agreement it carries wake-up bytes alone, which need no encryption.
            let socket = stream.socket().try_clone().map_err(refused(peer))?;
            match SharedMemoryLane::new(inbox, own_ring, &offer, ring, socket) {
                Ok(lane) => drop(opened.insert(peer, lane)),
                Err(error) if options.transport.is_some() => return Err(error.into()),
                Err(error) => report.warn(&format!("TCP to rank {peer} of this host: {error}")),
            }
        }
        let lane = opened.get(&peer);
        let verdict = (lane.is_some(), lane.is_some_and(SharedMemoryLane::borrows));
        wire::send(&mut until(stream), &verdict).map_err(failed(peer, VERDICT))?;
    }
    for &(peer, stream) in near {
        match wire::receive(&mut until(stream)).map_err(failed(peer, VERDICT))? {
            (false, _) => drop(opened.remove(&peer)),
            (true, false) => {}
            (true, true) => {
                if let Some(lane) = opened.get_mut(&peer) {
                    lane.allow_loans();
                }
            }
        }
        let socket = stream.socket();
        socket.set_read_timeout(None).map_err(refused(peer))?;
        socket.set_write_timeout(None).map_err(refused(peer))?;
    }
    Ok((opened, without))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// Two ranks of this host, and the connection of rank 0 to rank 1, whose other end is returned.
    fn two_ranks() -> (Roster, Vec<Vec<Stream>>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stream = Stream::plain(TcpStream::connect(address).unwrap());
        let member = |rank| Member {
            rank,
            address: address.ip(),
            port: 1,
            host: Host::of_process(None),
            process: 7,
        };
        let roster = Roster {
            world: "0123456789abcdef".into(),
            members: vec![member(0), member(1)],
        };
        let streams = vec![Vec::new(), vec![stream]];
        (roster, streams, listener.accept().unwrap().0)
    }

    fn fails(roster: &Roster, streams: Vec<Vec<Stream>>) -> String {
        let (options, time) = (Options::default(), TimeLimit::of(Duration::from_secs(1)));
        let outcome = connect(0, roster, streams, &options, time, &Report::silent());
        outcome.map(drop).unwrap_err().to_string()
    }

    #[test]
    fn a_rank_that_is_there_and_says_nothing_is_told_from_one_that_has_gone() {
        let (roster, streams, other_end) = two_ranks();
        let text = fails(&roster, streams);
        assert!(
            text.contains("rank 1 (") && text.contains(", process 7) has not answered within 1"),
            "{text}"
        );
        assert!(text.contains("where its shared memory lies"), "{text}");
        drop(other_end);
        let (roster, streams, other_end) = two_ranks();
        drop(other_end);
        let text = fails(&roster, streams);
        assert!(text.contains("rank 1 has gone"), "{text}");
    }
}
