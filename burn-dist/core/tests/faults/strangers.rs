//! Who connects and does not belong to the job disturbs nothing.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::processes::{Job, command, free_port};

/// A rank 0 that listens and waits for rank 1.
fn waiting() -> (Job, String) {
    let port = free_port();
    let point = format!("tcp://127.0.0.1:{port}");
    let mut job = Job::empty(port);
    job.add(command("leave 20", 0, 2, &point));
    (job, point)
}

/// Connects as soon as somebody listens.
fn stranger(port: u16) -> TcpStream {
    let began = Instant::now();
    loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => return stream,
            Err(error) => assert!(began.elapsed() < Duration::from_secs(30), "{error}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// How long the other side keeps a connection.
fn kept(mut stream: &TcpStream) -> Duration {
    let began = Instant::now();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let mut bytes = [0; 1024];
    // It says its greeting, and nothing more.
    while matches!(stream.read(&mut bytes), Ok(count) if count > 0) {}
    began.elapsed()
}

#[test]
fn strangers_are_turned_away_and_the_job_goes_on() {
    let (mut job, point) = waiting();
    let http = stranger(job.port);
    (&http)
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    let garbage = stranger(job.port);
    (&garbage).write_all(&[0xA5; 4096]).unwrap();
    let silent = stranger(job.port);
    let half = stranger(job.port);
    (&half).write_all(b"BurnDist").unwrap();
    for (stream, within) in [(&http, 2), (&garbage, 2), (&silent, 6), (&half, 6)] {
        // As long as a slow machine needs on top.
        assert!(kept(stream) < Duration::from_secs(within + 2));
    }
    // One that says a byte at a time, and would go on for hours, is cut off all the same.
    let slow = stranger(job.port);
    let began = Instant::now();
    while (&slow).write_all(b"B").is_ok() {
        assert!(began.elapsed() < Duration::from_secs(12));
        std::thread::sleep(Duration::from_millis(100));
    }
    job.add(command("leave 20", 1, 2, &point));
    job.assert_done_with(0, "note turned 127.0.0.1:");
    job.assert_gone();
}

#[test]
fn a_thousand_connections_do_not_keep_a_rank_away() {
    let (mut job, point) = waiting();
    let crowd: Vec<TcpStream> = (0..1_000).map(|_| stranger(job.port)).collect();
    let began = Instant::now();
    job.add(command("leave 20", 1, 2, &point));
    job.assert_done();
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
    drop(crowd);
    job.assert_gone();
}

/// What two ranks say to each other while they join comes in two pieces, cut anywhere.
#[test]
fn a_greeting_may_come_in_pieces() {
    // Both greetings and proofs, and the beginning of what follows.
    for cut in (0..130).step_by(5) {
        let port = free_port();
        let mut job = Job::empty(port);
        job.add(command("leave 5", 0, 2, &format!("tcp://127.0.0.1:{port}")));
        let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
        let between = proxy.local_addr().unwrap().port();
        job.add(command(
            "leave 5",
            1,
            2,
            &format!("tcp://127.0.0.1:{between}"),
        ));
        let from = proxy.accept().unwrap().0;
        let to = stranger(port);
        let back = [to.try_clone().unwrap(), from.try_clone().unwrap()];
        let ways = [[from, to], back]
            .map(|[from, to]| std::thread::spawn(move || forward(&from, &to, cut)));
        job.assert_done();
        for way in ways {
            way.join().unwrap();
        }
        job.assert_gone();
    }
}

/// Passes bytes on, with a pause before the byte `cut`.
fn forward(mut from: &TcpStream, mut to: &TcpStream, cut: usize) {
    to.set_nodelay(true).unwrap();
    let (mut passed, mut bytes) = (0, [0; 4096]);
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let before = cut.saturating_sub(passed).min(count);
        if to.write_all(&bytes[..before]).is_err() {
            break;
        }
        if (passed..passed + count).contains(&cut) {
            std::thread::sleep(Duration::from_millis(20));
        }
        if to.write_all(&bytes[before..count]).is_err() {
            break;
        }
        passed += count;
    }
    let _ = to.shutdown(std::net::Shutdown::Write);
}
