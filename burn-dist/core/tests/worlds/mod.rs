//! Ranks as threads of one process, each with a world of its own.
#![allow(dead_code)]

use std::net::TcpListener;
use std::time::Duration;

use burn_dist_core::rendezvous::{Identity, Launcher, MeetingPoint};
use burn_dist_core::report::Report;
use burn_dist_core::{Options, World};

/// A port that nobody listens at.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

pub fn identity(rank: usize, world_size: usize, port: u16) -> Identity {
    Identity {
        rank,
        world_size,
        local_rank: None,
        local_world_size: None,
        meeting_point: Some(MeetingPoint::Tcp {
            host: "127.0.0.1".into(),
            port,
        }),
        run: None,
        launcher: Launcher::BurnDist,
    }
}

/// Options for a test: short times, and no words.
pub fn options() -> Options {
    Options {
        timeout: Duration::from_secs(60),
        operation_timeout: Duration::from_secs(60),
        report: Some(Report::silent()),
        flight_recorder: Some(std::env::temp_dir().join("burn-dist-tests")),
        ..Options::default()
    }
}

/// What each of `ranks` threads returns, in order.
pub fn run<R: Send>(ranks: usize, options: &Options, work: impl Fn(World) -> R + Sync) -> Vec<R> {
    let port = free_port();
    std::thread::scope(|scope| {
        let start = |rank| {
            let (options, work) = (options.clone(), &work);
            scope.spawn(move || {
                let world = World::connect(&identity(rank, ranks, port), options).unwrap();
                work(world)
            })
        };
        let threads: Vec<_> = (0..ranks).map(start).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    })
}
