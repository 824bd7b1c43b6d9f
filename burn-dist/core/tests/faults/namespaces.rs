//! Ranks in two network namespaces, joined by a cable that can be cut and slowed.

use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::processes::{DEADLINE, Job, command, free_port};

/// The deadline, and time for a slow machine.
const LATE: u64 = DEADLINE * 1_000 + 1_000;

/// Addresses are the same for all tests: one network at a time.
static ONE: Mutex<()> = Mutex::new(());

/// Two namespaces, `10.98.7.1` and `10.98.7.2` at the ends of a cable; gone when it is dropped.
struct Network {
    names: [String; 2],
    _one: MutexGuard<'static, ()>,
}

fn ip(arguments: &[&str]) -> bool {
    let mut command = Command::new("ip");
    command
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

impl Network {
    /// `None`, and says so, where namespaces cannot be had.
    fn new() -> Option<Self> {
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let names = ["a", "b"].map(|end| format!("bd{}{end}", std::process::id()));
        let network = Self { names, _one: one };
        let [a, b] = &network.names;
        if !ip(&["netns", "add", a]) {
            println!("skipped: network namespaces need root and the command ip");
            return None;
        }
        assert!(ip(&["netns", "add", b]));
        let cable = [
            "link", "add", "cable", "netns", a, "type", "veth", "peer", "name", "cable", "netns", b,
        ];
        assert!(ip(&cable), "no cable between namespaces");
        for (name, address) in [(a, "10.98.7.1/24"), (b, "10.98.7.2/24")] {
            assert!(ip(&["-n", name, "addr", "add", address, "dev", "cable"]));
            assert!(ip(&["-n", name, "link", "set", "cable", "up"]));
            assert!(ip(&["-n", name, "link", "set", "lo", "up"]));
        }
        Some(network)
    }

    /// A job whose ranks are at the given ends; rank 0 is at the first.
    fn job(&self, ends: &[usize], program: &str, prepare: impl Fn(usize, &mut Command)) -> Job {
        let port = free_port();
        let mut job = Job::empty(port);
        for (rank, end) in ends.iter().enumerate() {
            let inside = command(
                program,
                rank,
                ends.len(),
                &format!("tcp://10.98.7.1:{port}"),
            );
            let mut outside = Command::new("ip");
            outside.args(["netns", "exec", &self.names[*end]]);
            outside.arg(inside.get_program()).args(inside.get_args());
            for (name, value) in inside.get_envs() {
                match value {
                    Some(value) => outside.env(name, value),
                    None => outside.env_remove(name),
                };
            }
            // They share the host's memory, which no cable leads to.
            outside.env("BURN_DIST_TRANSPORT", "tcp");
            prepare(rank, &mut outside);
            job.add(outside);
        }
        job
    }

    fn cut(&self) {
        assert!(ip(&["-n", &self.names[1], "link", "set", "cable", "down"]));
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&["netns", "del", name]);
        }
    }
}

#[test]
fn ranks_of_two_networks_work_and_say_where_they_are_reached() {
    let Some(network) = Network::new() else {
        return;
    };
    let mut job = network.job(&[0, 1, 1], "leave 20", |_, _| {});
    job.assert_done();
    job.assert_gone();
    let mut job = network.job(&[0, 1], "leave 5", |rank, command| {
        if rank == 1 {
            command.env("BURN_DIST_IFNAME", "=cable");
        }
    });
    job.assert_done();
    job.assert_gone();
}

#[test]
fn an_interface_that_is_not_there_is_named_beside_those_that_are() {
    let Some(network) = Network::new() else {
        return;
    };
    let mut job = network.job(&[0, 1], "leave 5", |rank, command| {
        command.env("BURN_DIST_TIMEOUT", "4");
        if rank == 1 {
            command.env("BURN_DIST_IFNAME", "ib");
        }
    });
    let end = job.end(1);
    assert!(
        end.text.contains("BURN_DIST_IFNAME=ib") && end.text.contains("10.98.7.2%cable"),
        "{}",
        end.text
    );
    assert!(!job.end(0).status.success());
    job.assert_gone();
}

#[test]
fn loopback_between_networks_is_refused_with_an_explanation() {
    let Some(network) = Network::new() else {
        return;
    };
    let mut job = network.job(&[0, 0, 1], "leave 5", |rank, command| {
        if rank == 1 {
            let points = command
                .get_envs()
                .find(|(name, _)| *name == "BURN_DIST_RDZV");
            let point = points.unwrap().1.unwrap().to_str().unwrap();
            let point = point.replace("10.98.7.1", "127.0.0.1");
            command.env("BURN_DIST_RDZV", point);
        }
    });
    job.assert_failed(
        None,
        30_000,
        &[
            "rank 1",
            "loopback address 127.0.0.1",
            "rank 2",
            "BURN_DIST_IFNAME",
        ],
    );
    job.assert_gone();
}

#[test]
fn a_cut_cable_is_noticed_on_both_sides_within_the_deadline() {
    let Some(network) = Network::new() else {
        return;
    };
    // In the middle of large operations, of small ones, and between two.
    for program in ["loop 4000000", "loop 100", "pause-then-loop 1500"] {
        let mut job = network.job(&[0, 0, 1], program, |_, _| {});
        job.run();
        network.cut();
        for rank in 0..3 {
            let end = job.end(rank);
            assert_eq!(end.status.code(), Some(1), "rank {rank}: {:?}", end.lines);
            // Who is cut off cannot know which side is: it names those that it does not hear.
            let name = if rank < 2 { "rank 2 (" } else { "rank 0 (" };
            assert!(
                end.text.contains(name),
                "{program}: rank {rank}: {}",
                end.text
            );
            assert!(
                end.after <= LATE,
                "{program}: rank {rank}: {} ms: {}",
                end.after,
                end.text
            );
        }
        job.assert_gone();
        assert!(ip(&["-n", &network.names[1], "link", "set", "cable", "up"]));
        // Until it carries again.
        std::thread::sleep(Duration::from_millis(500));
    }
}

#[test]
fn a_slow_cable_only_slows() {
    let Some(network) = Network::new() else {
        return;
    };
    let name = &network.names[0];
    let shaped = Command::new("ip")
        .args([
            "netns", "exec", name, "tc", "qdisc", "add", "dev", "cable", "root", "tbf",
        ])
        .args(["rate", "40mbit", "burst", "32kb", "latency", "400ms"])
        .stderr(Stdio::null())
        .status();
    if !shaped.is_ok_and(|status| status.success()) {
        println!("skipped: the command tc cannot slow a cable here");
        return;
    }
    let mut job = network.job(
        &[0, 1],
        "calls all_reduce:sum:f32:1000000,barrier",
        |_, _| {},
    );
    job.assert_done();
    job.assert_gone();
    // 4 MB at 5 MB/s are not done within the least deadline that there is: it says so, and names the way.
    let mut job = network.job(
        &[0, 1],
        "calls all_reduce:sum:f32:8000000,barrier",
        |_, command| {
            command.env("BURN_DIST_OP_TIMEOUT", "2");
        },
    );
    job.assert_failed(None, 3_500, &["not done within 2 s", "rank 1 waits for 0"]);
    job.assert_gone();
}
