//! Who is recognised, and who is turned away.

use std::net::TcpListener;

use super::*;
use crate::fuzzing::{self, Random};
use crate::rendezvous::token::Token;

fn credentials(token: &str) -> Credentials {
    Credentials::new(&Token::new(token), false).unwrap()
}

fn pair() -> [TcpStream; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    [one, listener.accept().unwrap().0]
}

/// What both sides find.
fn meet(
    credentials: [&Credentials; 2],
    purposes: [&[u8]; 2],
) -> [Result<Stream, HandshakeError>; 2] {
    let [one, other] = pair();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| recognise(one, Side::Connects, credentials[0], purposes[0]));
        let second = recognise(other, Side::Accepts, credentials[1], purposes[1]);
        [first.join().unwrap(), second]
    })
}

#[test]
fn who_knows_the_token_is_recognised() {
    let (one, other, none) = (credentials("one"), credentials("other"), credentials(""));
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
    let secret = credentials("secret");
    // A listener sends back what it gets: the greeting and the proof of the other side.
    let [one, other] = pair();
    let echo = std::thread::spawn(move || {
        let _ = io::copy(&mut (&other).take(HELLO as u64 + 32), &mut &other);
    });
    let outcome = recognise(one, Side::Connects, &secret, b"join");
    assert!(
        matches!(outcome, Err(HandshakeError::Token(_))),
        "{outcome:?}"
    );
    echo.join().unwrap();
}

#[test]
fn damaged_greetings_are_turned_away_at_once() {
    let secret = credentials("secret");
    let mut hello = MAGIC.to_vec();
    hello.extend(VERSION.to_le_bytes());
    hello.push(1);
    hello.extend([7; 32]);
    hello.extend([0; 32]);
    hello.extend([7; 32]);
    // Each takes two system calls for a connection.
    for case in 0..fuzzing::cases() / 10 {
        let [one, other] = pair();
        let bytes = Random::new(case).damage(&hello);
        // Turned away before it has said all.
        let _ = (&other).write_all(&bytes);
        other.shutdown(Shutdown::Write).unwrap();
        let began = Instant::now();
        assert!(recognise(one, Side::Accepts, &secret, b"join").is_err());
        assert!(began.elapsed() < PATIENCE);
    }
}

#[test]
fn silence_has_an_end() {
    let [one, _other] = pair();
    let began = Instant::now();
    assert!(recognise(one, Side::Accepts, &credentials(""), b"join").is_err());
    assert!(began.elapsed() >= PATIENCE && began.elapsed() < 3 * PATIENCE);
}

#[cfg(feature = "tls")]
mod encrypted {
    use super::*;
    use crate::rendezvous::wire;

    fn tls() -> Credentials {
        Credentials::new(&Token::new("one"), true).unwrap()
    }

    #[test]
    fn who_encrypts_and_who_does_not_tell_each_other() {
        let [first, second] = meet([&tls(), &tls()], [b"join", b"join"]);
        assert!(first.unwrap().is_encrypted() && second.unwrap().is_encrypted());
        let plain = credentials("one");
        for both in [[&tls(), &plain], [&plain, &tls()]] {
            for found in meet(both, [b"join", b"join"]) {
                let text = found.unwrap_err().to_string();
                assert!(text.contains("BURN_DIST_TLS=1"), "{text}");
            }
        }
        let other = Credentials::new(&Token::new("other"), true).unwrap();
        for found in meet([&tls(), &other], [b"join", b"join"]) {
            // Who finds out first hangs up.
            assert!(matches!(
                found,
                Err(HandshakeError::Token(_) | HandshakeError::Io(_))
            ));
        }
    }

    #[test]
    fn one_thread_reads_while_another_writes() {
        // More than fits into the buffers of a connection: whoever could not do both would wait for ever.
        let message = vec![7u8; 1 << 20];
        let ends = meet([&tls(), &tls()], [b"join", b"join"]).map(Result::unwrap);
        std::thread::scope(|scope| {
            for end in &ends {
                let message = &message;
                scope.spawn(move || {
                    for _ in 0..8 {
                        wire::send(&mut &*end, message).unwrap();
                    }
                });
                scope.spawn(move || {
                    for _ in 0..8 {
                        let received: Vec<u8> = wire::receive(&mut &*end).unwrap();
                        assert!(received == *message);
                    }
                });
            }
        });
        let [one, other] = ends;
        one.shutdown(Shutdown::Both).unwrap();
        assert_eq!((&other).read(&mut [0]).unwrap(), 0);
        // Cut off, and not ended.
        let [one, other] = meet([&tls(), &tls()], [b"join", b"join"]).map(Result::unwrap);
        drop(one);
        let error = (&other).read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn silence_and_damage_have_an_end() {
        let [one, _other] = pair();
        let began = Instant::now();
        assert!(recognise(one, Side::Accepts, &tls(), b"join").is_err());
        assert!(began.elapsed() >= PATIENCE && began.elapsed() < 3 * PATIENCE);
        let mut hello = Vec::new();
        let mut connection = tls().tls.unwrap().connects().unwrap();
        connection.write_tls(&mut hello).unwrap();
        let credentials = tls();
        for case in 0..fuzzing::cases() / 20 {
            let [one, other] = pair();
            let bytes = Random::new(case).damage(&hello);
            let _ = (&other).write_all(&bytes);
            other.shutdown(Shutdown::Write).unwrap();
            let began = Instant::now();
            assert!(recognise(one, Side::Accepts, &credentials, b"join").is_err());
            assert!(began.elapsed() < PATIENCE);
        }
    }
}
