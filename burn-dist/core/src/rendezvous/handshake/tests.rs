//! Who is recognised, and who is turned away.

use super::*;
use crate::fuzzing::{self, Random};
use crate::rendezvous::token::Token;

fn credentials(token: &str) -> Credentials {
    Credentials::new(&Token::new(token), None, false).unwrap()
}

fn soon() -> Instant {
    Instant::now() + PATIENCE
}

/// What both sides find.
fn meet(
    credentials: [&Credentials; 2],
    purposes: [&[u8]; 2],
) -> [Result<Stream, HandshakeError>; 2] {
    let [one, other] = fuzzing::connection();
    std::thread::scope(|scope| {
        let first =
            scope.spawn(|| recognise(one, Side::Connects, credentials[0], purposes[0], soon()));
        let second = recognise(other, Side::Accepts, credentials[1], purposes[1], soon());
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
    let [one, other] = fuzzing::connection();
    let echo = std::thread::spawn(move || {
        let _ = io::copy(&mut (&other).take(HELLO as u64 + 32), &mut &other);
    });
    let outcome = recognise(one, Side::Connects, &secret, b"join", soon());
    assert!(
        matches!(outcome, Err(HandshakeError::Token(_))),
        "{outcome:?}"
    );
    echo.join().unwrap();
}

/// What whoever comes gets, who can say all but a proof of the token.
#[test]
fn a_stranger_who_connects_gets_no_proof_to_guess_the_token_from() {
    for guess in [None, Some([7; 32])] {
        let [stranger, other] = fuzzing::connection();
        let hears = std::thread::spawn(move || {
            let secret = credentials("secret");
            recognise(other, Side::Accepts, &secret, b"join", soon())
        });
        (&stranger)
            .write_all(&hello(&credentials("any"), &[0; 32]).unwrap())
            .unwrap();
        let mut heard = [0; HELLO];
        (&stranger).read_exact(&mut heard).unwrap();
        if let Some(guess) = guess {
            (&stranger).write_all(&guess).unwrap();
        }
        stranger.shutdown(Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        (&stranger).read_to_end(&mut rest).unwrap();
        assert!(rest.iter().all(|byte| *byte == 0), "{rest:?}");
        assert!(hears.join().unwrap().is_err());
    }
}

/// A side that has been told a proof sends it to a process on the other side of another connection.
#[test]
fn a_proof_of_one_side_is_none_of_the_other() {
    let token = Token::new("secret");
    let parts = |side: Side| [side.name(), b"join" as &[u8], b"one", b"other"];
    let proof = token.proof(&parts(Side::Connects));
    assert!(token.verifies(&parts(Side::Connects), &proof));
    assert!(!token.verifies(&parts(Side::Accepts), &proof));
}

#[test]
fn those_of_another_run_are_named_with_both_runs_on_both_sides() {
    let of = |run: Option<&str>| Credentials {
        run: run.map(ToOwned::to_owned),
        ..credentials("one")
    };
    let same = meet([&of(Some("7")), &of(Some("7"))], [b"join", b"join"]);
    assert!(same.iter().all(Result::is_ok));
    for (runs, texts) in [
        (
            [Some("7"), Some("8\n")],
            [
                r#"it is of run "8\n", this process of run "7""#,
                r#"it is of run "7", this process of run "8\n""#,
            ],
        ),
        (
            [Some("7"), None],
            [
                r#"it is of no run, this process of run "7""#,
                r#"it is of run "7", this process of no run"#,
            ],
        ),
    ] {
        let found = meet([&of(runs[0]), &of(runs[1])], [b"join", b"join"]);
        for (found, part) in found.into_iter().zip(texts) {
            let text = found.unwrap_err().to_string();
            assert!(
                text.contains(part) && text.contains("BURN_DIST_RUN"),
                "{text}"
            );
        }
    }
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
        let [one, other] = fuzzing::connection();
        let bytes = Random::new(case).damage(&hello);
        // Turned away before it has said all.
        let _ = (&other).write_all(&bytes);
        other.shutdown(Shutdown::Write).unwrap();
        let began = Instant::now();
        assert!(recognise(one, Side::Accepts, &secret, b"join", soon()).is_err());
        assert!(began.elapsed() < PATIENCE);
    }
}

#[test]
fn silence_has_an_end() {
    let [one, _other] = fuzzing::connection();
    let began = Instant::now();
    assert!(recognise(one, Side::Accepts, &credentials(""), b"join", soon()).is_err());
    assert!(began.elapsed() >= PATIENCE && began.elapsed() < 3 * PATIENCE);
}

#[cfg(feature = "tls")]
mod encrypted {
    use super::*;
    use crate::rendezvous::wire;

    fn tls() -> Credentials {
        Credentials::new(&Token::new("one"), None, true).unwrap()
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
        let other = Credentials::new(&Token::new("other"), None, true).unwrap();
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
        let [one, _other] = fuzzing::connection();
        let began = Instant::now();
        assert!(recognise(one, Side::Accepts, &tls(), b"join", soon()).is_err());
        assert!(began.elapsed() >= PATIENCE && began.elapsed() < 3 * PATIENCE);
        let mut hello = Vec::new();
        let mut connection = tls().tls.unwrap().connects().unwrap();
        connection.write_tls(&mut hello).unwrap();
        let credentials = tls();
        for case in 0..fuzzing::cases() / 20 {
            let [one, other] = fuzzing::connection();
            let bytes = Random::new(case).damage(&hello);
            let _ = (&other).write_all(&bytes);
            other.shutdown(Shutdown::Write).unwrap();
            let began = Instant::now();
            assert!(recognise(one, Side::Accepts, &credentials, b"join", soon()).is_err());
            assert!(began.elapsed() < PATIENCE);
        }
    }
}
