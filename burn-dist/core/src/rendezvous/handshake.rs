//! Two processes of one job recognise each other on a new connection.
//!
//! Each side says who it is and draws a number; each then proves that it knows the token, over both numbers and what
//! the connection is for, so that neither a listener nor one of an old job can repeat it. Whoever does not
//! speak the protocol is found out by its first bytes or after [`PATIENCE`].

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::token::Token;
use super::wire::Until;

/// The time that a stranger has.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

const MAGIC: &[u8; 8] = b"BurnDist";
/// Of everything that goes over the wire.
const VERSION: u16 = 1;
/// Magic, version, whether a token is set, and a number.
const HELLO: usize = 8 + 2 + 1 + 32;

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

/// Recognises the other side of `stream`. Both have to say the same `purpose`.
pub(super) fn recognise(
    stream: &TcpStream,
    side: Side,
    token: &Token,
    purpose: &[u8],
) -> Result<(), HandshakeError> {
    let deadline = Instant::now() + PATIENCE;
    let mut stream = Until { stream, deadline };
    let mut nonce = [0; 32];
    getrandom::fill(&mut nonce).map_err(io::Error::other)?;
    let mut hello = MAGIC.to_vec();
    hello.extend(VERSION.to_le_bytes());
    hello.push(token.is_set().into());
    hello.extend(nonce);
    stream.write_all(&hello)?;

    // A stranger may send less than a greeting and wait: its first bytes suffice.
    let mut theirs = [0; HELLO];
    stream.read_exact(&mut theirs[..8])?;
    if &theirs[..8] != MAGIC {
        return Err(HandshakeError::Stranger);
    }
    stream.read_exact(&mut theirs[8..])?;
    let version = u16::from_le_bytes([theirs[8], theirs[9]]);
    if version != VERSION {
        return Err(HandshakeError::Version(version));
    }
    match (token.is_set(), theirs[10] != 0) {
        (true, false) => {
            return Err(HandshakeError::Token(
                "it has no token, this process has one",
            ));
        }
        (false, true) => {
            return Err(HandshakeError::Token(
                "it has a token, this process has none",
            ));
        }
        _ => {}
    }
    // In one order for both sides.
    let hellos: [&[u8]; 2] = match side {
        Side::Connects => [&hello, &theirs],
        Side::Accepts => [&theirs, &hello],
    };
    stream.write_all(&token.proof(&[side.name(), purpose, hellos[0], hellos[1]]))?;
    let mut proof = [0; 32];
    // Who finds this side's proof wrong hangs up before its own.
    stream.read_exact(&mut proof)?;
    let expected = [side.other().name(), purpose, hellos[0], hellos[1]];
    if !token.verifies(&expected, &proof) {
        return Err(HandshakeError::Token(
            "it has another token, or is of another job",
        ));
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::{Shutdown, TcpListener};

    use super::*;
    use crate::fuzzing::{self, Random};

    fn pair() -> [TcpStream; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        [one, listener.accept().unwrap().0]
    }

    /// What both sides find.
    fn meet(tokens: [&Token; 2], purposes: [&[u8]; 2]) -> [Result<(), HandshakeError>; 2] {
        let [one, other] = pair();
        std::thread::scope(|scope| {
            let first = scope.spawn(|| recognise(&one, Side::Connects, tokens[0], purposes[0]));
            let second = recognise(&other, Side::Accepts, tokens[1], purposes[1]);
            [first.join().unwrap(), second]
        })
    }

    #[test]
    fn who_knows_the_token_is_recognised() {
        let (one, other, none) = (Token::new("one"), Token::new("other"), Token::default());
        assert!(
            meet([&one, &one], [b"join", b"join"])
                .iter()
                .all(Result::is_ok)
        );
        assert!(
            meet([&none, &none], [b"join", b"join"])
                .iter()
                .all(Result::is_ok)
        );
        for (tokens, part) in [
            ([&one, &other], "another token"),
            ([&one, &none], "no token"),
        ] {
            let [first, second] = meet(tokens, [b"join", b"join"]);
            let text = first.unwrap_err().to_string();
            assert!(
                text.contains(part) && text.contains("BURN_DIST_TOKEN"),
                "{text}"
            );
            assert!(second.is_err());
        }
        // What a connection is for, and so the world, belongs to what is proven.
        assert!(
            meet([&one, &one], [b"lane 1", b"lane 2"])
                .iter()
                .all(Result::is_err)
        );
    }

    #[test]
    fn what_was_heard_once_helps_nobody() {
        let token = Token::new("secret");
        // A listener sends back what it gets: the greeting and the proof of the other side.
        let [one, other] = pair();
        let echo = std::thread::spawn(move || {
            let _ = io::copy(&mut (&other).take(HELLO as u64 + 32), &mut &other);
        });
        let outcome = recognise(&one, Side::Connects, &token, b"join");
        assert!(
            matches!(outcome, Err(HandshakeError::Token(_))),
            "{outcome:?}"
        );
        echo.join().unwrap();
    }

    #[test]
    fn damaged_greetings_are_turned_away_at_once() {
        let token = Token::new("secret");
        let mut hello = MAGIC.to_vec();
        hello.extend(VERSION.to_le_bytes());
        hello.push(1);
        hello.extend([7; 32 + 32]);
        // Each takes two system calls for a connection.
        for case in 0..fuzzing::cases() / 10 {
            let [one, other] = pair();
            let bytes = Random::new(case).damage(&hello);
            // Turned away before it has said all.
            let _ = (&other).write_all(&bytes);
            other.shutdown(Shutdown::Write).unwrap();
            let began = Instant::now();
            assert!(recognise(&one, Side::Accepts, &token, b"join").is_err());
            assert!(began.elapsed() < PATIENCE);
        }
    }

    #[test]
    fn silence_has_an_end() {
        let [one, _other] = pair();
        let began = Instant::now();
        assert!(recognise(&one, Side::Accepts, &Token::default(), b"join").is_err());
        assert!(began.elapsed() >= PATIENCE && began.elapsed() < 3 * PATIENCE);
    }
}
