//! Ranks as threads of this process, each with a world of its own.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use burn_dist_core::rendezvous::{Identity, Launcher, MeetingPoint};
use burn_dist_core::report::Report;
use burn_dist_core::{Options, World};

/// What each of `ranks` threads returns, in order.
pub fn run<R: Send>(ranks: usize, work: impl Fn(Arc<World>) -> R + Sync) -> Vec<R> {
    let port = free_port();
    std::thread::scope(|scope| {
        let start = |rank| {
            let work = &work;
            scope.spawn(move || work(Arc::new(connect(rank, ranks, port))))
        };
        let threads: Vec<_> = (0..ranks).map(start).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    })
}

/// A port at which nobody listens now.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn connect(rank: usize, world_size: usize, port: u16) -> World {
    let identity = Identity {
        rank,
        world_size,
        local_rank: None,
        local_world_size: None,
        meeting_point: Some(MeetingPoint::Tcp {
            host: "127.0.0.1".into(),
            port,
        }),
        launcher: Launcher::BurnDist,
        run: None,
    };
    let options = Options {
        timeout: Duration::from_secs(60),
        operation_timeout: Duration::from_secs(60),
        report: Some(Report::silent()),
        flight_recorder: Some(std::env::temp_dir().join("burn-dist-tests")),
        ..Options::default()
    };
    World::connect(&identity, options).unwrap()
}
