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
use super::member::{Join, Roster, Welcome};
use super::stream::Stream;
use super::wire::{self, Until, WireError};
use crate::report::Report;

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(100);
/// How long another token is taken for that of an old job which is about to end.
const OLD_JOB: Duration = Duration::from_secs(10);

/// Connects to rank 0. Names that are not known yet, hosts that are not up and processes that do not listen yet are
/// tried again until `deadline`: so the order in which processes start does not matter.
pub(super) fn reach(
    point: &MeetingPoint,
    credentials: &Credentials,
    source: &dyn Fn(&IpAddr) -> Result<Option<IpAddr>, RendezvousError>,
    timeout: Duration,
    report: &Report,
) -> Result<Stream, RendezvousError> {
    let started = Instant::now();
    let deadline = started + timeout;
    let mut tell = started + Duration::from_secs(10);
    loop {
        let reason = match attempt(point, credentials, source, deadline) {
            Ok(stream) => return Ok(stream),
            Err(Attempt::Never(error)) => return Err(error),
            Err(Attempt::Later(reason)) => reason,
            Err(Attempt::Handshake(error)) => {
                // Who does not speak the protocol may have rank 0's port before it.
                let lasting = !matches!(error, HandshakeError::Io(_) | HandshakeError::Stranger);
                if lasting && started.elapsed() > OLD_JOB {
                    return Err(RendezvousError::Handshake {
                        point: point.clone(),
                        error,
                    });
                }
                error.to_string()
            }
        };
        let now = Instant::now();
        if now + PAUSE >= deadline {
            return Err(RendezvousError::Unreached {
                point: point.clone(),
                seconds: timeout.as_secs_f64(),
                reason: explained(point, reason),
            });
        }
        if now >= tell {
            tell = now + Duration::from_secs(10);
            report.note(&format!("waiting for rank 0 at {point}: {reason}"));
        }
        std::thread::sleep(PAUSE);
    }
}

/// What was not reached, with what a loopback address means to other hosts.
fn explained(point: &MeetingPoint, reason: String) -> String {
    match point {
        MeetingPoint::Tcp { host, .. }
            if host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback()) =>
        {
            format!(
                "{reason}; {host} is the loopback of this host and network namespace, from others give the address of rank 0 in the network"
            )
        }
        _ => reason,
    }
}

enum Attempt {
    Later(String),
    Handshake(HandshakeError),
    Never(RendezvousError),
}

fn attempt(
    point: &MeetingPoint,
    credentials: &Credentials,
    source: &dyn Fn(&IpAddr) -> Result<Option<IpAddr>, RendezvousError>,
    deadline: Instant,
) -> Result<Stream, Attempt> {
    let addresses = addresses(point).map_err(Attempt::Later)?;
    let mut reason = format!("{point} stands for no address");
    for address in addresses {
        let from = source(&address.ip()).map_err(no_source)?;
        let rest = deadline
            .saturating_duration_since(Instant::now())
            .min(PATIENCE);
        if rest.is_zero() {
            break;
        }
        match connect(address, from, rest) {
            Ok(socket) => {
                let known = recognise(socket, Side::Connects, credentials, PURPOSE);
                return known.map_err(Attempt::Handshake);
            }
            Err(error) => reason = format!("{address}: {error}"),
        }
    }
    Err(Attempt::Later(reason))
}

/// An interface that is down may come up, as in a container that has just started; one that is not there does not.
fn no_source(error: RendezvousError) -> Attempt {
    match &error {
        RendezvousError::Interface(InterfaceError::NoMatch { rejected, .. })
            if rejected.iter().any(|(_, reason)| *reason == DOWN) =>
        {
            Attempt::Later(error.to_string())
        }
        _ => Attempt::Never(error),
    }
}

fn addresses(point: &MeetingPoint) -> Result<Vec<SocketAddr>, String> {
    match point {
        MeetingPoint::Tcp { host, port } => {
            let resolved = (host.as_str(), *port).to_socket_addrs();
            resolved
                .map(Iterator::collect)
                .map_err(|error| error.to_string())
        }
        MeetingPoint::File(path) => {
            let text = std::fs::read_to_string(path);
            let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
            let lines = text.lines().map(|line| line.parse::<SocketAddr>());
            lines
                .collect::<Result<_, _>>()
                .map_err(|_| format!("{} is no file of rank 0: remove it", path.display()))
        }
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
    timeout: Duration,
) -> Result<Roster, RendezvousError> {
    let deadline = Instant::now() + timeout;
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
                seconds: timeout.as_secs_f64(),
            })
        }
        Err(error) => Err(RendezvousError::Lost {
            rank: 0,
            reason: error.to_string(),
        }),
    }
}
