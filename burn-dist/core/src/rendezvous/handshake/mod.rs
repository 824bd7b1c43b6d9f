//! Two processes of one job recognise each other on a new connection.
//!
//! Each side says who it is and draws a number; each then proves that it knows the token, over both numbers, which side
//! it is and what the connection is for, so that neither a listener nor one of an old job can repeat it. The side that
//! connects proves first: a stranger who comes gets nothing from which a weak token could be guessed. Whoever does not
//! speak the protocol is found out by its first bytes or when its time is over. At last both say of which run of the
//! job they are, which those of one token need not have in common.
//!
//! If a connection is encrypted, it is from its first byte on, and each side also says what TLS exports of its end: the
//! same at both ends, unless somebody between the two decrypts and encrypts again. A process
//! that encrypts and one that does not tell each other so.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use super::credentials::Credentials;
use super::stream::Stream;
use super::token::Token;
use super::wire::{self, Until, WireError};

/// The time that a stranger has.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

const MAGIC: &[u8; 8] = b"BurnDist";
/// Of everything that goes over the wire.
const VERSION: u16 = 4;
/// Magic, version, what is set, a number, and what TLS exports.
const HELLO: usize = 8 + 2 + 1 + 32 + 32;
/// A token is set.
const TOKEN: u8 = 1;
/// Connections have to be encrypted.
const TLS: u8 = 2;
/// In place of a proof, for a side that has given none.
const NO_PROOF: [u8; 32] = [0; 32];
/// The first byte of each side in a TLS connection.
const TLS_HANDSHAKE: u8 = 22;

/// Why two processes do not recognise each other.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The other side is something else, or gone.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The other side speaks something else.
    #[error("it does not speak the protocol of burn-dist")]
    Stranger,
    /// The other side has another version.
    #[error(
        "it speaks version {0} of the protocol, this process version {VERSION}: start the same binary"
    )]
    Version(u16),
    /// The other side has a token and this one has none, or the other way around, or they differ.
    #[error("{0}: give all processes of the job the same BURN_DIST_TOKEN")]
    Token(&'static str),
    /// One side encrypts and the other does not.
    #[error("{0}: set BURN_DIST_TLS=1 for all processes of the job, or for none")]
    Tls(&'static str),
    /// Somebody between the two sides reads along.
    #[error(
        "a man in the middle decrypts the connection and encrypts it again: find out who answers at this address"
    )]
    Intercepted,
    /// One side is left over from an earlier run of the job.
    #[error(
        "it is of {}, this process of {}: end what an earlier run has left, or give all processes the same BURN_DIST_RUN",
        named(theirs),
        named(own)
    )]
    Run {
        /// The run of the other side.
        theirs: Option<String>,
        /// That of this one.
        own: Option<String>,
    },
}

/// A run, as it is shown: on one line, whoever has said it.
pub(super) fn named(run: &Option<String>) -> String {
    run.as_ref()
        .map_or_else(|| "no run".to_owned(), |run| format!("run {run:?}"))
}

/// Which side of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Connects,
    Accepts,
}

impl Side {
    fn name(self) -> &'static [u8] {
        match self {
            Self::Connects => b"connects",
            Self::Accepts => b"accepts",
        }
    }

    fn other(self) -> Self {
        match self {
            Self::Connects => Self::Accepts,
            Self::Accepts => Self::Connects,
        }
    }
}

/// Recognises the other side of `socket` until `deadline`. Both have to say the same `purpose`.
pub(super) fn recognise(
    socket: TcpStream,
    side: Side,
    credentials: &Credentials,
    purpose: &[u8],
    deadline: Instant,
) -> Result<Stream, HandshakeError> {
    let stream = open(socket, side, credentials, deadline)?;
    let binding = stream.binding()?;
    let own = hello(credentials, &binding)?;
    let mut until = Until {
        stream: &stream,
        deadline,
    };
    until.write_all(&own)?;
    let theirs = greeted(&mut until, credentials)?;
    // In one order for both sides.
    let hellos: [&[u8]; 2] = match side {
        Side::Connects => [&own, &theirs],
        Side::Accepts => [&theirs, &own],
    };
    let said = |side: Side| [side.name(), purpose, hellos[0], hellos[1]];
    prove(&mut until, side, &credentials.token, said)?;
    // Said by who knows the token, as was just proven.
    if theirs[HELLO - 32..] != binding {
        return Err(HandshakeError::Intercepted);
    }
    let run = wire::send(&mut until, &credentials.run).and_then(|()| wire::receive(&mut until));
    let run: Option<String> = run.map_err(|error| match error {
        WireError::Io(error) => HandshakeError::Io(error),
        _ => HandshakeError::Stranger,
    })?;
    if run != credentials.run {
        return Err(HandshakeError::Run {
            theirs: run,
            own: credentials.run.clone(),
        });
    }
    Ok(stream)
}

/// What a side says first.
fn hello(credentials: &Credentials, binding: &[u8; 32]) -> io::Result<Vec<u8>> {
    let mut nonce = [0; 32];
    getrandom::fill(&mut nonce).map_err(io::Error::other)?;
    let mut hello = MAGIC.to_vec();
    hello.extend(VERSION.to_le_bytes());
    let token = if credentials.token.is_set() { TOKEN } else { 0 };
    let tls = if credentials.encrypt() { TLS } else { 0 };
    hello.push(token | tls);
    hello.extend(nonce);
    hello.extend(binding);
    Ok(hello)
}

/// Reads what the other side says first, if the two can go on.
fn greeted(
    until: &mut Until<'_>,
    credentials: &Credentials,
) -> Result<[u8; HELLO], HandshakeError> {
    let is_encrypted = until.stream.is_encrypted();
    // A stranger may send less than a greeting and wait: its first bytes suffice.
    let mut theirs = [0; HELLO];
    until.read_exact(&mut theirs[..8])?;
    if theirs[0] == TLS_HANDSHAKE && !is_encrypted {
        let_read(until.stream);
        return Err(HandshakeError::Tls("it uses TLS, this process does not"));
    }
    if &theirs[..8] != MAGIC {
        return Err(HandshakeError::Stranger);
    }
    until.read_exact(&mut theirs[8..])?;
    let version = u16::from_le_bytes([theirs[8], theirs[9]]);
    if version != VERSION {
        return Err(HandshakeError::Version(version));
    }
    if credentials.encrypt() && !is_encrypted {
        return Err(HandshakeError::Tls(
            "it does not use TLS, this process expects it",
        ));
    }
    if !credentials.encrypt() && theirs[10] & TLS != 0 {
        return Err(HandshakeError::Tls(
            "it expects TLS, this process does not use it",
        ));
    }
    match (credentials.token.is_set(), theirs[10] & TOKEN != 0) {
        (true, false) => Err(HandshakeError::Token(
            "it has no token, this process has one",
        )),
        (false, true) => Err(HandshakeError::Token(
            "it has a token, this process has none",
        )),
        _ => Ok(theirs),
    }
}

/// Both sides prove that they know the token, each over what is `said` of it; the one that connects before the other.
fn prove<'a>(
    until: &mut Until<'_>,
    side: Side,
    token: &Token,
    said: impl Fn(Side) -> [&'a [u8]; 4],
) -> Result<(), HandshakeError> {
    let own = token.proof(&said(side));
    let mut theirs = [0; 32];
    if side == Side::Connects {
        until.write_all(&own)?;
    }
    until.read_exact(&mut theirs)?;
    let is_proven = token.verifies(&said(side.other()), &theirs);
    if side == Side::Accepts {
        let answered = until.write_all(if is_proven { &own } else { &NO_PROOF });
        // Who is turned away may have gone.
        if is_proven {
            answered?;
        }
    }
    is_proven.then_some(()).ok_or(HandshakeError::Token(
        "it has another token, or is of another job",
    ))
}

/// Lets the other side read what this one has said: to hang up on what it has sent would take it away.
fn let_read(stream: &Stream) {
    let mut until = Until {
        stream,
        deadline: Instant::now() + Duration::from_secs(1),
    };
    // What goes wrong here is worth no error beside the one that is known.
    let _ = stream.shutdown(Shutdown::Write);
    let _ = io::copy(&mut until, &mut io::sink());
}

/// Begins to encrypt, if that is wanted and the other side does too. If it does not, the greetings tell.
#[cfg(feature = "tls")]
fn open(
    socket: TcpStream,
    side: Side,
    credentials: &Credentials,
    deadline: Instant,
) -> Result<Stream, HandshakeError> {
    let stream = Stream::plain(socket);
    let Some(tls) = &credentials.tls else {
        return Ok(stream);
    };
    let mut connection = match side {
        Side::Connects => tls.connects()?,
        Side::Accepts => tls.accepts()?,
    };
    let mut until = Until {
        stream: &stream,
        deadline,
    };
    while connection.wants_write() {
        connection.write_tls(&mut until)?;
    }
    if until.peek()? != Some(TLS_HANDSHAKE) {
        return Ok(stream);
    }
    while connection.is_handshaking() {
        connection.complete_io(&mut until)?;
    }
    let (socket, _) = stream.into_parts();
    Ok(Stream::encrypted(socket, connection))
}

#[cfg(not(feature = "tls"))]
fn open(
    socket: TcpStream,
    _side: Side,
    _credentials: &Credentials,
    _deadline: Instant,
) -> Result<Stream, HandshakeError> {
    Ok(Stream::plain(socket))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
