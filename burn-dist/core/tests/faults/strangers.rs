//! Who connects and is not of the job: dropped within seconds, written down, and no disturbance.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::outcome::Outcome;
use crate::processes::{Job, Running, SLACK, together};
use crate::programs::OPEN_FILES;
use crate::proxy;

/// The time that a stranger has to say who it is.
const PATIENCE: Duration = Duration::from_secs(5);
/// The greeting of a handshake, as a process with a token sends it.
const HELLO: &[u8] =
    b"BurnDist\x04\0\x010123456789012345678901234567890123456789012345678901234567890123";

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    stream
}

/// Reads until the other side hangs up: within `time` of `began`.
#[track_caller]
fn is_dropped(mut stream: TcpStream, began: Instant, time: Duration) {
    let mut bytes = [0; 4096];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => panic!("a stranger is not dropped: {error}"),
        }
    }
    assert!(
        began.elapsed() < time + SLACK,
        "dropped after {:?}",
        began.elapsed()
    );
}

/// Two of three ranks wait for the third: rank 0 hears all who come, rank 1 only when the third has come.
fn waiting_job(script: &str) -> Running {
    let mut job = Job::same("tcp", 3, script).start_none();
    job.start(0);
    job.start(1);
    job.wait_until_listening(&[0, 1]);
    job
}

/// Sends all of `bytes` at once, and nothing more.
fn says(port: u16, bytes: &[u8]) {
    let began = Instant::now();
    let mut stream = connect(port);
    stream.write_all(bytes).unwrap();
    is_dropped(stream, began, PATIENCE);
}

/// Sends a greeting, a byte each 100 ms, and then nothing.
fn says_slowly(port: u16) {
    let began = Instant::now();
    let mut stream = connect(port);
    for byte in HELLO {
        // It may be dropped meanwhile.
        let _ = stream.write_all(&[*byte]);
        std::thread::sleep(Duration::from_millis(100));
    }
    is_dropped(stream, began, PATIENCE);
}

#[test]
fn strangers_at_the_meeting_port_and_at_data_ports_disturb_nothing() {
    // Ranks that live long enough to lose patience.
    let mut job = waiting_job("all_reduce 1000; barrier; sleep 6000");
    let meeting = job.ports(0);
    let data = job.ports(1);
    assert_eq!(
        (meeting.len(), data.len()),
        (2, 1),
        "the port of the meeting and two for data"
    );
    let garbage: Vec<u8> = (0..4096u32)
        .map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    std::thread::scope(|scope| {
        for port in meeting.into_iter().chain(data) {
            scope.spawn(move || says(port, b"GET / HTTP/1.1\r\nHost: burn-dist\r\n\r\n"));
            scope.spawn(move || says(port, b""));
            scope.spawn(move || says(port, &HELLO[..20]));
            scope.spawn(move || says(port, &[HELLO, &[7; 32]].concat()));
            scope.spawn(move || says_slowly(port));
            let garbage = &garbage;
            scope.spawn(move || says(port, garbage));
        }
        // Those at data ports are accepted only once all ranks have joined.
        std::thread::sleep(Duration::from_secs(1));
        job.start(2);
    });
    let outcomes = job.succeeds();
    for reason in [
        "it does not speak the protocol",
        "it has another token",
        "timed out",
    ] {
        let log = &outcomes[0].log;
        assert!(
            log.contains("turned 127.0.0.1:") && log.contains(reason),
            "{reason}: {log}"
        );
    }
}

/// Allows this process and those that it starts as many open files as the system lets them have.
fn allow_many_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
}

#[test]
fn a_thousand_connections_that_say_nothing_disturb_nothing() {
    allow_many_files();
    let mut job = waiting_job("all_reduce 1000; barrier");
    let ports = [job.ports(0), job.ports(1)].concat();
    let began = Instant::now();
    let crowd: Vec<TcpStream> = (0..1_100)
        .flat_map(|_| ports.iter().map(|port| connect(*port)))
        .collect();
    job.start(2);
    let outcomes = job.succeeds();
    assert!(outcomes.iter().all(|outcome| outcome.error.is_none()));
    for stranger in crowd {
        is_dropped(stranger, began, Duration::from_secs(20));
    }
}

/// Holds `count` connections to `port` that say nothing, and new ones for those that are dropped, until all is `over`.
fn crowd(port: u16, count: usize, over: &AtomicBool) {
    let mut held = Vec::new();
    while !over.load(Ordering::Acquire) {
        while held.len() < count {
            // The port may be closed.
            let Ok(stream) = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))) else {
                break;
            };
            stream.set_nonblocking(true).unwrap();
            held.push(stream);
        }
        held.retain(|mut stream| {
            let read = stream.read(&mut [0; 4096]);
            matches!(read, Err(error) if error.kind() == ErrorKind::WouldBlock)
        });
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn more_silent_connections_than_there_are_files_keep_no_rank_out() {
    allow_many_files();
    let job = Job::same("tcp", 3, "all_reduce 1000; barrier").all(OPEN_FILES, "128");
    let mut job = job.start_none();
    job.start(0);
    job.wait_until_listening(&[0]);
    let ports = job.ports(0);
    let over = AtomicBool::new(false);
    let outcomes = std::thread::scope(|scope| {
        for port in ports {
            let over = &over;
            scope.spawn(move || crowd(port, 300, over));
        }
        // Longer than a stranger has.
        std::thread::sleep(PATIENCE + Duration::from_secs(1));
        job.start(1);
        job.start(2);
        let outcomes = job.outcomes_but(&[]);
        over.store(true, Ordering::Release);
        outcomes
    });
    outcomes.iter().for_each(Outcome::succeeds);
    let log = &outcomes[0].log;
    // A line for each reason, and a count for each at either port.
    let lines = log.lines().filter(|line| line.contains("turned "));
    assert!((1..=12).contains(&lines.count()), "{log}");
    assert!(
        log.contains("it says nothing") && log.contains(" times in all: "),
        "{log}"
    );
}

#[test]
fn bytes_that_arrive_one_at_a_time_are_what_they_are() {
    together(vec![0, 3], |count| {
        let script =
            format!("all_reduce {count}; broadcast 5 1; reduce 7 0; all_gather 3; barrier");
        let job = Job::same("tcp", 2, &script).all("BURN_DIST_OP_TIMEOUT", "20");
        let port = proxy::between(job.port());
        let job = job.one(1, "BURN_DIST_RDZV", &format!("tcp://127.0.0.1:{port}"));
        job.start().succeeds();
    });
}
