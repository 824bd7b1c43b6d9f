//! A connection between each two ranks, or several.
//!
//! Each rank connects to those below it and hears those above. The handshake is about the world, so that a process of
//! another job with the same token is turned away as well.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::RendezvousError;
use super::acceptor::Acceptor;
use super::completion::{Completion, LOOK};
use super::credentials::Credentials;
use super::handshake::{HandshakeError, PATIENCE, Side, recognise};
use super::joining::connect;
use super::member::{Member, Roster};
use super::stream::Stream;
use super::time_limit::TimeLimit;
use super::wire::{self, Until};
use crate::report::Report;

/// The longest time between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long it is tried without a word.
const TELL: Duration = Duration::from_secs(10);

/// What a connection between two ranks says first.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Greeting {
    rank: usize,
    /// Number of the connection of the pair.
    lane: usize,
}

/// What is needed to connect to the other ranks.
pub(super) struct Mesh<'a> {
    pub roster: &'a Roster,
    pub rank: usize,
    pub credentials: &'a Credentials,
    /// Connections of a pair.
    pub lanes: &'a dyn Fn(&Member, &Member) -> usize,
    /// Where rank 0 was reached.
    pub first: Option<IpAddr>,
    /// Address that connections come from.
    pub from: Option<IpAddr>,
    pub time: TimeLimit,
    pub report: &'a Report,
}

impl Mesh<'_> {
    fn purpose(&self) -> Vec<u8> {
        [b"lane ", self.roster.world.as_bytes()].concat()
    }

    fn lanes(&self, peer: usize) -> usize {
        (self.lanes)(&self.roster.members[self.rank], &self.roster.members[peer])
    }

    /// Connects to all other ranks: the connections to each, in their order.
    pub fn connect(
        self,
        listener: TcpListener,
        completion: &Completion<'_>,
    ) -> Result<Vec<Vec<Stream>>, RendezvousError> {
        let ranks = self.roster.members.len();
        let (acceptor, greetings) =
            Acceptor::start::<Greeting>(listener, self.credentials, self.purpose(), self.report)?;
        let mut found: BTreeMap<(usize, usize), Stream> = BTreeMap::new();
        for peer in 0..self.rank {
            for lane in 0..self.lanes(peer) {
                found.insert((peer, lane), self.connect_to(peer, lane, completion)?);
            }
        }
        let above = (self.rank + 1..ranks).flat_map(|peer| {
            let lanes = self.lanes(peer);
            (0..lanes).map(move |lane| (peer, lane))
        });
        let mut missing: Vec<(usize, usize)> = above.collect();
        while !missing.is_empty() {
            completion.check()?;
            let rest = self.time.rest();
            let greeting = greetings.recv_timeout(rest.min(LOOK));
            if greeting.is_err() && !rest.is_zero() {
                continue;
            }
            let Ok((Greeting { rank, lane }, stream)) = greeting else {
                let mut ranks: Vec<usize> = missing.iter().map(|(rank, _)| *rank).collect();
                ranks.dedup();
                return Err(RendezvousError::Unconnected {
                    rank: self.rank,
                    ranks,
                    seconds: self.time.seconds(),
                });
            };
            if let Some(index) = missing.iter().position(|one| *one == (rank, lane)) {
                missing.swap_remove(index);
                found.insert((rank, lane), stream);
            }
        }
        drop(acceptor);
        let mut links: Vec<Vec<Stream>> = (0..ranks).map(|_| Vec::new()).collect();
        for ((peer, _), stream) in found {
            stream.socket().set_read_timeout(None)?;
            stream.socket().set_write_timeout(None)?;
            links[peer].push(stream);
        }
        Ok(links)
    }

    /// Connects to `peer`, again and again: it listens since before it joined, but the way to it may be cut for a while,
    /// or too many strangers may come.
    fn connect_to(
        &self,
        peer: usize,
        lane: usize,
        completion: &Completion<'_>,
    ) -> Result<Stream, RendezvousError> {
        let member = &self.roster.members[peer];
        let address = self.first.filter(|_| peer == 0).unwrap_or(member.address);
        let address = SocketAddr::new(address, member.port);
        let failed = |reason: String| RendezvousError::Unconnectable {
            rank: self.rank,
            peer,
            host: member.host.name.clone(),
            address,
            reason,
        };
        let (mut pause, mut tell) = (LOOK, Instant::now() + TELL);
        loop {
            completion.check()?;
            let reason = match self.attempt(address) {
                Ok(stream) => {
                    let greeting = Greeting {
                        rank: self.rank,
                        lane,
                    };
                    let mut until = Until {
                        stream: &stream,
                        deadline: Instant::now() + PATIENCE,
                    };
                    wire::send(&mut until, &greeting).map_err(|error| failed(error.to_string()))?;
                    return Ok(stream);
                }
                Err(HandshakeError::Io(error)) => error.to_string(),
                Err(error) => return Err(failed(error.to_string())),
            };
            if self.time.rest() <= pause {
                let seconds = self.time.seconds();
                return Err(failed(format!(
                    "not within {seconds:.0} s, at last: {reason}"
                )));
            }
            if Instant::now() >= tell {
                tell = Instant::now() + TELL;
                let line = format!("waiting for rank {peer} at {address}: {reason}");
                self.report.note(&line);
            }
            std::thread::sleep(pause);
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    fn attempt(&self, address: SocketAddr) -> Result<Stream, HandshakeError> {
        // Some time for a first attempt, and none that cannot be waited.
        let rest = self.time.rest().clamp(LOOK, PATIENCE);
        let socket = connect(address, self.from, rest)?;
        let deadline = Instant::now() + rest;
        let (credentials, purpose) = (self.credentials, self.purpose());
        recognise(socket, Side::Connects, credentials, &purpose, deadline)
    }
}
