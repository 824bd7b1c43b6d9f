//! A connection between each two ranks, or several.
//!
//! Each rank connects to those below it and hears those above. The handshake is about the world, so that a process of
//! another job with the same token is turned away as well.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::RendezvousError;
use super::acceptor::Acceptor;
use super::completion::{Completion, LOOK, is_turned_away};
use super::credentials::Credentials;
use super::handshake::{HandshakeError, PATIENCE, Side, recognise};
use super::joining::connect;
use super::member::{Member, Roster};
use super::stream::Stream;
use super::wire::{self, Until};
use crate::report::Report;

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
    pub timeout: Duration,
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
        let deadline = Instant::now() + self.timeout;
        let (acceptor, greetings) =
            Acceptor::start::<Greeting>(listener, self.credentials, self.purpose(), self.report)?;
        let mut found: BTreeMap<(usize, usize), Stream> = BTreeMap::new();
        for peer in 0..self.rank {
            for lane in 0..self.lanes(peer) {
                found.insert(
                    (peer, lane),
                    self.connect_to(peer, lane, deadline, completion)?,
                );
            }
        }
        let above = (self.rank + 1..ranks).flat_map(|peer| {
            let lanes = self.lanes(peer);
            (0..lanes).map(move |lane| (peer, lane))
        });
        let mut missing: Vec<(usize, usize)> = above.collect();
        while !missing.is_empty() {
            completion.check()?;
            let rest = deadline.saturating_duration_since(Instant::now());
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
                    seconds: self.timeout.as_secs_f64(),
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

    fn connect_to(
        &self,
        peer: usize,
        lane: usize,
        deadline: Instant,
        completion: &Completion<'_>,
    ) -> Result<Stream, RendezvousError> {
        let member = &self.roster.members[peer];
        let address = self.first.filter(|_| peer == 0).unwrap_or(member.address);
        let address = SocketAddr::new(address, member.port);
        loop {
            completion.check()?;
            let rest = deadline.saturating_duration_since(Instant::now());
            let failed = |reason: String| RendezvousError::Unconnectable {
                rank: self.rank,
                peer,
                host: member.host.name.clone(),
                address,
                reason,
            };
            if rest.is_zero() {
                return Err(failed("it does not answer".into()));
            }
            let socket = match connect(address, self.from, rest.min(PATIENCE)) {
                Ok(socket) => socket,
                // It listens since before it joined: nobody else comes later.
                Err(error) if error.kind() == ErrorKind::TimedOut => continue,
                Err(error) => return Err(failed(error.to_string())),
            };
            let known = recognise(socket, Side::Connects, self.credentials, &self.purpose());
            let stream = match known {
                Ok(stream) => stream,
                // It is slow, or this rank is.
                Err(HandshakeError::Io(error)) if error.kind() == ErrorKind::TimedOut => continue,
                // Too many connect to it at once, of which most are strangers.
                Err(HandshakeError::Io(error)) if is_turned_away(&error) => {
                    std::thread::sleep(LOOK);
                    continue;
                }
                Err(error) => return Err(failed(error.to_string())),
            };
            let greeting = Greeting {
                rank: self.rank,
                lane,
            };
            let deadline = Instant::now() + PATIENCE;
            wire::send(
                &mut Until {
                    stream: &stream,
                    deadline,
                },
                &greeting,
            )
            .map_err(|error| failed(error.to_string()))?;
            return Ok(stream);
        }
    }
}
