//! Who is there: rank, world size and meeting point of every process of a job, and the connections between them.
//!
//! | module | what it is for |
//! |---|---|
//! | `environment` | the variables of a process |
//! | `launcher` | what each launcher leaves in them |
//! | `host_list` | Slurm's lists of hosts |
//! | `kubernetes` | the jobs and sets of jobs of Kubernetes among them |
//! | `run` | which run of a job they say it is |
//! | `identity` | who this process is, from all of them |
//! | `interface` | the network interfaces of this host |
//! | `interface_filter` | which of them `BURN_DIST_IFNAME` means, and the best of them |
//! | `subnet` | a range of addresses: `10.1.0.0/16` |
//! | `token` | what the processes of a job know, and strangers do not |
//! | `credentials` | a token, the run of the job, and TLS if it is wanted |
//! | `stream`, `session` | a connection on which both sides have recognised each other, and what encrypts it |
//! | `wire` | messages, bounded in length and time |
//! | `handshake` | two processes of a job recognise each other |
//! | `acceptor` | hears who connects |
//! | `refusals` | whom it has turned away |
//! | `time_limit` | the time for all of this |
//! | `member` | what a process tells about itself |
//! | `meeting` | rank 0 waits for the others |
//! | `meeting_file` | where it does, in a file |
//! | `joining` | the others find rank 0 |
//! | `mesh` | connections between each two ranks |
//! | `completion` | all learn whether all are connected |
//!
//! Knows no transport and no collective.

mod acceptor;
mod completion;
mod credentials;
mod environment;
mod handshake;
mod host_list;
mod identity;
mod interface;
mod interface_filter;
mod joining;
mod kubernetes;
mod launcher;
mod meeting;
mod meeting_file;
mod member;
mod mesh;
mod refusals;
mod run;
#[cfg(feature = "tls")]
mod session;
mod stream;
mod subnet;
mod time_limit;
mod token;
pub(crate) mod wire;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

pub(crate) use credentials::Credentials;
pub use credentials::TlsError;
pub use environment::Environment;
pub use handshake::HandshakeError;
pub use identity::{Identity, IdentityError, MeetingPoint};
pub use interface::{Interface, interfaces};
pub use interface_filter::{InterfaceError, InterfaceFilter};
pub use launcher::Launcher;
pub(crate) use member::Roster;
pub use member::{Host, Member, Terms, build_of_process};
pub(crate) use run::VARIABLE as RUN;
pub(crate) use stream::Stream;
pub(crate) use time_limit::TimeLimit;
pub use token::{Token, TokenError};

use crate::report::{Numbers, Report};
use completion::Completion;
use meeting_file::{MeetingFile, Published};
use member::Join;
use mesh::Mesh;

/// Why the processes of a job did not come together.
#[derive(Debug, thiserror::Error)]
pub enum RendezvousError {
    /// The port of rank 0 cannot be had.
    #[error(
        "rank 0 cannot listen on port {port}: {error}; another process may have it: choose another, by --port of burn-dist launch, BURN_DIST_RDZV, or MASTER_PORT"
    )]
    Listen {
        /// The port.
        port: u16,
        /// Why.
        error: io::Error,
    },
    /// The file of the meeting point cannot be written.
    #[error("rank 0 cannot write the meeting point {}: {error}; it has to be a new file in a folder that all share: remove it, or name another", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Rank 0 was not found.
    #[error("rank 0 was not reached at {point} within {seconds:.0} s: {reason}")]
    Unreached {
        /// Where it was looked for.
        point: MeetingPoint,
        /// The time that was given.
        seconds: f64,
        /// What the last attempt ended with, and what to do.
        reason: String,
    },
    /// Who listens at the meeting point is not of this job.
    #[error("{point} is not rank 0 of this job: {error}")]
    Handshake {
        /// The meeting point.
        point: MeetingPoint,
        /// Why.
        error: HandshakeError,
    },
    /// Ranks did not come.
    #[error(
        "of {world_size} ranks these have not joined in time: [{}]; start them, or allow more time by BURN_DIST_TIMEOUT",
        Numbers(ranks)
    )]
    Missing {
        /// Who is missing.
        ranks: Vec<usize>,
        /// How many there are to be.
        world_size: usize,
    },
    /// Not all ranks have come, as rank 0 does not say.
    #[error(
        "rank 0 has not said within {seconds:.0} s that all are there: it waits for others, or is stopped; start them, or allow more time by BURN_DIST_TIMEOUT"
    )]
    Late {
        /// The time that was given.
        seconds: f64,
    },
    /// The processes do not fit together.
    #[error("{0}")]
    Refused(String),
    /// A rank has gone meanwhile.
    #[error("rank {rank} has gone while the job was starting: {reason}")]
    Lost {
        /// The rank.
        rank: usize,
        /// What was seen of it.
        reason: String,
    },
    /// Ranks are there and say nothing.
    #[error(
        "{} has not answered within {seconds:.0} s, while it was to say {awaited}: it is stopped, overloaded or cut off",
        numbers(ranks)
    )]
    Silent {
        /// Who.
        ranks: Vec<usize>,
        /// The time that was given.
        seconds: f64,
        /// What they were to say.
        awaited: &'static str,
    },
    /// One rank does not reach another.
    #[error(
        "rank {rank} cannot reach rank {peer} on {host} at {address}: {reason}; it may be stopped, a firewall or a network policy may forbid it, or BURN_DIST_IFNAME name another interface"
    )]
    Unconnectable {
        /// Who.
        rank: usize,
        /// Whom.
        peer: usize,
        /// The host of that.
        host: String,
        /// Its address.
        address: SocketAddr,
        /// Why.
        reason: String,
    },
    /// Other ranks do not reach one.
    #[error(
        "ranks [{}] have not connected to rank {rank} within {seconds:.0} s: they are stopped or overloaded, or a firewall or a network policy forbids it",
        Numbers(ranks)
    )]
    Unconnected {
        /// To whom.
        rank: usize,
        /// Who.
        ranks: Vec<usize>,
        /// The time that was given.
        seconds: f64,
    },
    /// The interface that is wanted is not there.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// The system refuses something.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// `rank 3`, `each of the ranks 3 and 4`.
fn numbers(ranks: &[usize]) -> String {
    match ranks {
        [one] => format!("rank {one}"),
        several => format!("each of the ranks {}", Numbers(several)),
    }
}

/// What a process brings to a rendezvous.
pub(crate) struct Rendezvous<'a> {
    pub identity: &'a Identity,
    pub point: &'a MeetingPoint,
    pub credentials: &'a Credentials,
    pub terms: Terms,
    /// Where this process runs.
    pub host: Host,
    pub time: TimeLimit,
    /// The interface to connect from; that of the route to rank 0, if `None`.
    pub interface: Option<&'a InterfaceFilter>,
    /// Ports to wait at for other ranks; any, if there are none.
    pub ports: Vec<u16>,
    /// Connections between two members.
    pub lanes: &'a dyn Fn(&Member, &Member) -> usize,
    pub report: &'a Report,
}

/// The processes of a job, connected.
pub(crate) struct Assembly {
    pub roster: Roster,
    /// To rank 0, or on rank 0 to each other.
    pub control: BTreeMap<usize, Stream>,
    /// To each rank.
    pub links: Vec<Vec<Stream>>,
}

impl Rendezvous<'_> {
    /// Brings all processes together.
    pub fn assemble(self) -> Result<Assembly, RendezvousError> {
        let own = |listener: &TcpListener, address: IpAddr| -> io::Result<Join> {
            Ok(Join {
                member: Member {
                    rank: self.identity.rank,
                    address,
                    port: listener.local_addr()?.port(),
                    host: self.host.clone(),
                    process: std::process::id(),
                },
                world_size: self.identity.world_size,
                terms: self.terms.clone(),
            })
        };
        let (roster, control, listener, first, from) = if self.identity.rank == 0 {
            let meeting = meeting::open(self.point)?;
            let published = match self.point {
                MeetingPoint::File(path) => Some(self.publish(path, &meeting)?),
                MeetingPoint::Tcp { .. } => None,
            };
            // Where rank 0 is reached for the first time it is reached again.
            let address = meeting.local_addr()?.ip();
            let listener = self.listen(address)?;
            let own = own(&listener, address)?;
            let gathered = meeting::gather(meeting, self.credentials, own, self.time, self.report);
            // All have read it. Another job may have the name again.
            if let Some(published) = published {
                published.remove();
            }
            let (roster, control) = gathered?;
            (roster, control, listener, None, None)
        } else {
            let source = |address: &IpAddr| self.source(address);
            let stream = joining::reach(
                self.point,
                self.credentials,
                &source,
                self.time,
                self.report,
            )?;
            let socket = stream.socket();
            let (local, remote) = (socket.local_addr()?.ip(), socket.peer_addr()?.ip());
            let listener = self.listen(local)?;
            let roster = joining::join(&stream, &own(&listener, local)?, self.time)?;
            let control = BTreeMap::from([(0, stream)]);
            (
                roster,
                control,
                listener,
                Some(remote),
                self.source(&remote)?,
            )
        };
        let time = self.time.once_there();
        let own = &roster.members[self.identity.rank];
        if roster
            .members
            .iter()
            .any(|member| !member.host.is(&own.host))
        {
            let all = interfaces().unwrap_or_default();
            let chosen = all
                .iter()
                .find(|interface| interface.address == own.address);
            let named = chosen.map_or(own.address.to_string(), ToString::to_string);
            self.report
                .note(&format!("others reach it at {named}, port {}", own.port));
        }
        let mesh = Mesh {
            roster: &roster,
            rank: self.identity.rank,
            credentials: self.credentials,
            lanes: self.lanes,
            first,
            from,
            time,
            report: self.report,
        };
        let completion = Completion::new(self.identity.rank, &control);
        let links = mesh.connect(listener, &completion);
        let links = completion.conclude(links, time)?;
        for stream in control.values() {
            stream.socket().set_read_timeout(None)?;
            stream.socket().set_write_timeout(None)?;
        }
        Ok(Assembly {
            roster,
            control,
            links,
        })
    }

    /// The address to connect from to `address`, if an interface is wanted.
    fn source(&self, address: &IpAddr) -> Result<Option<IpAddr>, RendezvousError> {
        let Some(filter) = self.interface else {
            return Ok(None);
        };
        Ok(Some(filter.choose(&interfaces()?, Some(address))?.address))
    }

    /// Writes where others find `meeting` to a file.
    fn publish(&self, path: &Path, meeting: &TcpListener) -> Result<Published, RendezvousError> {
        let port = meeting.local_addr()?.port();
        let addresses = self.addresses()?.into_iter();
        let file = MeetingFile {
            run: self.credentials.run.clone(),
            addresses: addresses.map(|one| SocketAddr::new(one, port)).collect(),
        };
        file.publish(path, self.report)
    }

    /// Addresses at which other hosts may reach this one, the best first, and loopback for this host at last.
    fn addresses(&self) -> Result<Vec<IpAddr>, RendezvousError> {
        let all = interfaces()?;
        let best = self
            .interface
            .cloned()
            .unwrap_or_default()
            .choose(&all, None);
        let best = match best {
            Ok(best) => Some(best.address),
            Err(error) if self.interface.is_some() => return Err(error.into()),
            Err(_) => None,
        };
        let usable = all
            .iter()
            .filter(|one| one.is_up && !one.is_ipv6_link_local());
        let mut addresses: Vec<IpAddr> = usable.map(|one| one.address).collect();
        addresses.sort_by_key(|address| (Some(*address) != best, address.is_loopback()));
        addresses.dedup();
        Ok(addresses)
    }

    /// Listens for other ranks on `address`.
    fn listen(&self, address: IpAddr) -> Result<TcpListener, RendezvousError> {
        let listen = |port| acceptor::listen(SocketAddr::new(address, port));
        let Some((last, ports)) = self.ports.split_last() else {
            return Ok(listen(0)?);
        };
        let free = ports.iter().find_map(|port| listen(*port).ok());
        let listener = free.map_or_else(|| listen(*last), Ok);
        listener.map_err(|error| RendezvousError::Listen { port: *last, error })
    }
}
