//! Connections that are encrypted: the same results, nothing to read on the way, and nobody in between.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod middle;
#[path = "../worlds/mod.rs"]
mod worlds;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use burn_dist_core::collective::{Algorithm, Order, Reduction};
use burn_dist_core::rendezvous::{Identity, MeetingPoint, Token};
use burn_dist_core::report::Report;
use burn_dist_core::transport::{Poll, Throttle, Transport};
use burn_dist_core::{Options, World, WorldError};
use middle::client;
use rustls::StreamOwned;
use worlds::{free_port, identity, options, run};

fn encrypted() -> Options {
    Options {
        tls: true,
        token: Token::new("a secret of the job"),
        transport: Some(Transport::Tcp),
        ..options()
    }
}

/// Numbers of very different sizes: sums differ with their order.
fn sample(rank: usize, count: usize) -> Vec<f32> {
    let number = |index: usize| {
        let bits = (index * 7 + rank * 13).wrapping_mul(0x9E37_79B9) as u32;
        (bits as f32 - 2e9) * 2f32.powi((bits % 41) as i32 - 20)
    };
    (0..count).map(number).collect()
}

/// All bits that the operations of a rank give.
fn results(world: &World, counts: &[usize]) -> Vec<u32> {
    let mut bits = Vec::new();
    let mut note = |numbers: &[f32]| bits.extend(numbers.iter().map(|number| number.to_bits()));
    for &count in counts {
        let own = sample(world.rank(), count);
        for reduction in [Reduction::Sum, Reduction::Mean, Reduction::Max] {
            let mut data = own.clone();
            world.all_reduce(&mut data, reduction).unwrap();
            note(&data);
        }
        let mut data = own.clone();
        let part = world.reduce_scatter(&mut data, Reduction::Sum).unwrap();
        note(&data[part]);
        let mut data = own.clone();
        world.broadcast(&mut data, count % world.size()).unwrap();
        note(&data);
        let gathered = world
            .all_gather(&own[..count / (world.rank() + 1)])
            .unwrap();
        (0..world.size()).for_each(|rank| note(gathered.of(rank)));
        world.barrier().unwrap();
    }
    bits
}

#[test]
fn results_are_those_without_tls_to_the_last_bit() {
    for (ranks, algorithm, poll) in [
        (2, None, Poll::Block),
        (3, None, Poll::Hybrid),
        (4, None, Poll::Block),
        (4, Some(Algorithm::Chain), Poll::Block),
        (3, Some(Algorithm::Rabenseifner), Poll::Block),
        (4, Some(Algorithm::Ring), Poll::Block),
    ] {
        let order = match algorithm {
            Some(Algorithm::Ring) => Order::Any,
            _ => Order::Rank,
        };
        let encrypted = Options {
            algorithm,
            order,
            poll: Some(poll),
            ..encrypted()
        };
        let plain = Options {
            tls: false,
            ..encrypted.clone()
        };
        let counts = [0, 1, 3, 1_021, 70_001, 1_000_003];
        let expected = run(ranks, &plain, |world| results(&world, &counts));
        let found = run(ranks, &encrypted, |world| {
            assert_eq!(
                world.transport((world.rank() + 1) % ranks),
                Some(Transport::Tcp)
            );
            results(&world, &counts)
        });
        assert!(found == expected, "{ranks} ranks, {algorithm:?}");
    }
}

#[test]
fn a_slow_network_and_shared_memory_change_no_bit() {
    let counts = [5, 30_001];
    let plain = Options {
        tls: false,
        ..encrypted()
    };
    let expected = run(3, &plain, |world| results(&world, &counts));
    let slow = Options {
        throttle: Some(Throttle {
            rate: 20e6,
            latency: Duration::from_millis(2),
        }),
        ..encrypted()
    };
    assert!(run(3, &slow, |world| results(&world, &counts)) == expected);
    let shared = Options {
        transport: Some(Transport::Shm),
        ..encrypted()
    };
    let found = run(3, &shared, |world| {
        let peer = (world.rank() + 1) % 3;
        assert_eq!(world.transport(peer), Some(Transport::Shm));
        results(&world, &counts)
    });
    assert!(found == expected);
}

/// Options that write their notes down.
fn noted(options: Options) -> (Options, Arc<Mutex<String>>) {
    let notes = Arc::new(Mutex::new(String::new()));
    let written = notes.clone();
    let report = Report::new(move |_, line| {
        let mut notes = written.lock().unwrap();
        notes.push_str(line);
        notes.push('\n');
    });
    let report = Some(report);
    (Options { report, ..options }, notes)
}

/// Rank 1 of 2, which finds rank 0 elsewhere.
fn second(host: &str, port: u16) -> Identity {
    Identity {
        meeting_point: Some(MeetingPoint::Tcp {
            host: host.into(),
            port,
        }),
        ..identity(1, 2, port)
    }
}

/// Rank 0 at `port` and rank 1 do not come together: what rank 0 notes, and why rank 1 gives up.
fn refused(port: u16, rank_0: Options, rank_1: Options, identity_1: &Identity) -> [String; 2] {
    let (rank_0, notes) = noted(Options {
        timeout: Duration::from_secs(25),
        ..rank_0
    });
    let first = std::thread::spawn(move || World::connect(&identity(0, 2, port), rank_0));
    let began = Instant::now();
    let error = World::connect(identity_1, rank_1).unwrap_err().to_string();
    // For some seconds it may be an old job that is about to end.
    assert!(began.elapsed() < Duration::from_secs(25), "{error}");
    first.join().unwrap().unwrap_err();
    let notes = notes.lock().unwrap().clone();
    [notes, error]
}

#[test]
fn who_expects_tls_and_who_does_not_use_it_both_say_so() {
    let plain = || Options {
        tls: false,
        ..encrypted()
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let port = free_port();
            let [notes, error] = refused(port, encrypted(), plain(), &identity(1, 2, port));
            assert!(
                error.contains("it expects TLS, this process does not use it: set BURN_DIST_TLS=1"),
                "{error}"
            );
            assert!(
                notes.contains("it does not use TLS, this process expects it"),
                "{notes}"
            );
        });
        let port = free_port();
        let [notes, error] = refused(port, plain(), encrypted(), &identity(1, 2, port));
        assert!(
            error.contains("it does not use TLS, this process expects it: set BURN_DIST_TLS=1"),
            "{error}"
        );
        assert!(
            notes.contains("it uses TLS, this process does not"),
            "{notes}"
        );
    });
}

#[test]
fn tls_without_a_token_is_refused() {
    let options = Options {
        token: Token::default(),
        ..encrypted()
    };
    let error = World::connect(&identity(0, 2, free_port()), options).unwrap_err();
    assert!(matches!(error, WorldError::Tls(_)));
    let text = error.to_string();
    assert!(
        text.contains("BURN_DIST_TLS is 1") && text.contains("BURN_DIST_TOKEN"),
        "{text}"
    );
}

/// Connects as soon as somebody listens.
fn reach(address: (&str, u16)) -> TcpStream {
    let began = Instant::now();
    loop {
        match TcpStream::connect(address) {
            Ok(stream) => return stream,
            Err(error) => assert!(began.elapsed() < Duration::from_secs(30), "{error}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn strangers_with_and_without_tls_are_turned_away_and_the_job_goes_on() {
    let port = free_port();
    let (options, notes) = noted(encrypted());
    let first = std::thread::spawn(move || {
        let world = World::connect(&identity(0, 2, port), options).unwrap();
        results(&world, &[1_021])
    });
    let http = reach(("127.0.0.1", port));
    (&http)
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    let garbage = reach(("127.0.0.1", port));
    // The head of a record, and then nothing that belongs in one.
    (&garbage)
        .write_all(&[&[22, 3, 1, 2, 0][..], &[0xA5; 4096]].concat())
        .unwrap();
    let silent = reach(("127.0.0.1", port));
    // Who speaks TLS as well, and knows no token.
    let socket = reach(("127.0.0.1", port));
    let mut browser = StreamOwned::new(client(), socket);
    browser.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    for (stream, within) in [(&http, 2), (&garbage, 2), (&browser.sock, 2), (&silent, 6)] {
        let began = Instant::now();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let mut bytes = [0; 1024];
        while matches!((&mut &*stream).read(&mut bytes), Ok(count) if count > 0) {}
        // As long as a slow machine needs on top.
        assert!(began.elapsed() < Duration::from_secs(within + 2));
    }
    let world = World::connect(&identity(1, 2, port), encrypted()).unwrap();
    results(&world, &[1_021]);
    first.join().unwrap();
    let notes = notes.lock().unwrap();
    // Both of HTTP for one reason.
    assert_eq!(notes.matches("turned 127.0.0.1:").count(), 3, "{notes}");
    let both = "turned 127.0.0.1 away 2 times in all: it does not speak the protocol";
    assert!(notes.contains(both), "{notes}");
}

/// Passes on what comes at `port` of 127.0.0.2 to the same port of 127.0.0.1, and records it.
fn tap(port: u16) -> Arc<Mutex<Vec<u8>>> {
    let listener = TcpListener::bind(("127.0.0.2", port)).unwrap();
    let recorded = Arc::new(Mutex::new(Vec::new()));
    let record = recorded.clone();
    std::thread::spawn(move || {
        let from = listener.accept().unwrap().0;
        let to = reach(("127.0.0.1", port));
        let back = [to.try_clone().unwrap(), from.try_clone().unwrap()];
        for [mut from, mut to] in [[from, to], back] {
            let record = record.clone();
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(count @ 1..) = from.read(&mut bytes) {
                    record.lock().unwrap().extend(&bytes[..count]);
                    if to.write_all(&bytes[..count]).is_err() {
                        break;
                    }
                }
                let _ = to.shutdown(Shutdown::Write);
            });
        }
    });
    recorded
}

const DATA: &[u8] = b"what nobody else may read of a patient and of a model";

/// All bytes of two ranks on the wire of the control connection, and on that of the data.
fn on_the_wire(tls: bool) -> [Vec<u8>; 2] {
    let (port, lane) = (free_port(), free_port());
    let taps = [tap(port), tap(lane)];
    let options = Options {
        tls,
        ports: vec![lane],
        ..encrypted()
    };
    std::thread::scope(|scope| {
        let exchange = |world: World| {
            let mut data = [0; 53];
            if world.rank() == 0 {
                data.copy_from_slice(DATA);
            }
            world.broadcast(&mut data, 0).unwrap();
            assert_eq!(data, DATA);
            let gathered = world.all_gather(&data).unwrap();
            assert_eq!(gathered.of(1), DATA);
        };
        let first = options.clone();
        scope.spawn(move || exchange(World::connect(&identity(0, 2, port), first).unwrap()));
        let rest = Options {
            ports: Vec::new(),
            ..options
        };
        // Where it reaches rank 0 first it reaches it again.
        exchange(World::connect(&second("127.0.0.2", port), rest).unwrap());
    });
    taps.map(|tap| tap.lock().unwrap().clone())
}

#[test]
fn nothing_on_the_wire_can_be_read() {
    let holds = |wire: &[u8], text: &[u8]| wire.windows(text.len()).any(|bytes| bytes == text);
    let [control, data] = on_the_wire(false);
    assert!(holds(&control, b"BurnDist") && holds(&control, b"world_size"));
    assert!(holds(&data, b"BurnDist") && holds(&data, DATA));
    let [control, data] = on_the_wire(true);
    // Both were recorded, from their first bytes on.
    for wire in [&control, &data] {
        assert!(wire.len() > 500 && wire[0] == 22);
        for text in [b"BurnDist", b"world_size", DATA] as [&[u8]; 3] {
            assert!(!holds(wire, text));
        }
    }
}
