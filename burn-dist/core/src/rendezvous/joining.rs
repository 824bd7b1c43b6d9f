//! The other ranks find rank 0 and join.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use super::RendezvousError;
use super::credentials::Credentials;
use super::handshake::{HandshakeError, PATIENCE, Side, recognise};
use super::identity::MeetingPoint;
use super::interface_filter::{DOWN, InterfaceError};
use super::meeting::PURPOSE;
use super::meeting_file::MeetingFile;
use super::member::{Join, Roster, Welcome};
use super::stream::Stream;
use super::time_limit::TimeLimit;
use super::wire::{self, Until, WireError};
use crate::report::Report;

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(100);
/// How long another token or run is taken for that of an old job which is about to end.
const OLD_JOB: Duration = Duration::from_secs(10);

/// Connects to rank 0. Names that are not known yet, hosts that are not up and processes that do not listen yet are
/// tried again until `time` is over: so the order in which processes start does not matter.
pub(super) fn reach(
    point: &MeetingPoint,
    credentials: &Credentials,
    source: &dyn Fn(&IpAddr) -> Result<Option<IpAddr>, RendezvousError>,
    time: TimeLimit,
    report: &Report,
) -> Result<Stream, RendezvousError> {
    let started = Instant::now();
    let mut tell = started + Duration::from_secs(10);
    loop {
        let failed = match attempt(point, credentials, source, time) {
            Ok(stream) => return Ok(stream),
            Err(Attempt::Never(error)) => return Err(error),
            Err(failed) => failed,
        };
        let now = Instant::now();
        let is_over = now + PAUSE >= time.end;
        let unreached = |reason| RendezvousError::Unreached {
            point: point.clone(),
            seconds: time.seconds(),
            reason,
        };
        let reason = match failed {
            // Who does not speak the protocol may have rank 0's port before it.
            Attempt::Handshake(error)
                if is_over
                    || started.elapsed() > OLD_JOB
                        && !matches!(error, HandshakeError::Stranger) =>
            {
                return Err(RendezvousError::Handshake {
                    point: point.clone(),
                    error,
                });
            }
            Attempt::Absent(reason) if is_over => return Err(unreached(advised(point, reason))),
            Attempt::Silent(reason) if is_over => return Err(unreached(reason)),
            Attempt::Handshake(error) => error.to_string(),
            Attempt::Absent(reason) | Attempt::Silent(reason) => reason,
            Attempt::Never(error) => return Err(error),
        };
        if now >= tell {
            tell = now + Duration::from_secs(10);
            report.note(&format!("waiting for rank 0 at {point}: {reason}"));
        }
        std::thread::sleep(PAUSE);
    }
}

/// What to do about a rank 0 that is not there, with what a loopback address means to other hosts.
fn advised(point: &MeetingPoint, reason: String) -> String {
    let advice = format!("{reason}; start it, or allow more time by BURN_DIST_TIMEOUT");
    match point {
        MeetingPoint::Tcp { host, .. }
            if host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback()) =>
        {
            format!(
                "{advice}; {host} is the loopback of this host and network namespace, from others give the address of rank 0 in the network"
            )
        }
        _ => advice,
    }
}

/// Why rank 0 is not reached.
enum Attempt {
    /// Nobody listens there, or it is not known where.
    Absent(String),
    /// Somebody listens and says nothing.
    Silent(String),
    /// Who listens is somebody else.
    Handshake(HandshakeError),
    /// And will not be.
    Never(RendezvousError),
}

fn attempt(
    point: &MeetingPoint,
    credentials: &Credentials,
    source: &dyn Fn(&IpAddr) -> Result<Option<IpAddr>, RendezvousError>,
    time: TimeLimit,
) -> Result<Stream, Attempt> {
    let addresses = addresses(point, &credentials.run).map_err(Attempt::Absent)?;
    let mut reason = format!("{point} stands for no address");
    for address in addresses {
        let from = source(&address.ip()).map_err(no_source)?;
        let rest = time.rest().min(PATIENCE);
        if rest.is_zero() {
            break;
        }
        match connect(address, from, rest) {
            Ok(socket) => {
                let deadline = Instant::now() + PATIENCE;
                let known = recognise(socket, Side::Connects, credentials, PURPOSE, deadline);
                return known.map_err(|error| match error {
                    HandshakeError::Io(error) => Attempt::Silent(format!(
                        "{address} accepts connections and does not say who it is: {error}; it may be stopped or overloaded, or another program"
                    )),
                    error => Attempt::Handshake(error),
                });
            }
            Err(error) => reason = format!("{address}: {error}"),
        }
    }
    Err(Attempt::Absent(reason))
}

/// An interface that is down may come up, as in a container that has just started; one that is not there does not.
fn no_source(error: RendezvousError) -> Attempt {
    match &error {
        RendezvousError::Interface(InterfaceError::NoMatch { rejected, .. })
            if rejected.iter().any(|(_, reason)| *reason == DOWN) =>
        {
            Attempt::Absent(error.to_string())
        }
        _ => Attempt::Never(error),
    }
}

fn addresses(point: &MeetingPoint, run: &Option<String>) -> Result<Vec<SocketAddr>, String> {
    match point {
        MeetingPoint::Tcp { host, port } => {
            let resolved = (host.as_str(), *port).to_socket_addrs();
            resolved
                .map(Iterator::collect)
                .map_err(|error| error.to_string())
        }
        MeetingPoint::File(path) => MeetingFile::addresses(path, run),
    }
}

/// Connects to `address`, from a local address if one is given.
pub(super) fn connect(
    address: SocketAddr,
    from: Option<IpAddr>,
    timeout: Duration,
) -> io::Result<TcpStream> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if let Some(from) = from {
        socket.bind(&SocketAddr::new(from, 0).into())?;
    }
    socket.connect_timeout(&address.into(), timeout)?;
    socket.set_tcp_nodelay(true)?;
    // A port to oneself can be connected to by chance while nobody listens there.
    if socket.local_addr()?.as_socket() == Some(address) {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    Ok(socket.into())
}

/// Says who this process is, and waits until all have.
pub(super) fn join(
    stream: &Stream,
    join: &Join,
    time: TimeLimit,
) -> Result<Roster, RendezvousError> {
    // Rank 0 knows more of who is missing, and says it when its time is over.
    let deadline = time.end + PATIENCE;
    let mut stream = Until { stream, deadline };
    let outcome = wire::send(&mut stream, join).and_then(|()| wire::receive(&mut stream));
    match outcome {
        Ok(Welcome::Roster(roster)) if roster.is_of(join.world_size) => Ok(roster),
        Ok(Welcome::Roster(_)) => Err(RendezvousError::Lost {
            rank: 0,
            reason: "it has sent a list of other ranks".into(),
        }),
        Ok(Welcome::Refused(reason)) => Err(RendezvousError::Refused(reason)),
        Err(WireError::Io(error)) if error.kind() == io::ErrorKind::TimedOut => {
            Err(RendezvousError::Late {
                seconds: time.seconds(),
            })
        }
        Err(error) => Err(RendezvousError::Lost {
            rank: 0,
            reason: error.to_string(),
        }),
    }
}
