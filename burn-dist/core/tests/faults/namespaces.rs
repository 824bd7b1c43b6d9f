//! Two networks on one host and two cables between them: what hosts of a network see of each other. Needs root, and
//! says so where it is not.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::processes::{DEADLINE, Job, SLACK, together};

/// Two network namespaces, joined by the cables `one` (10.77.1.0/24) and `two` (10.77.2.0/24). Both are gone when
/// this is.
struct Networks {
    left: String,
    right: String,
}

fn ip(arguments: &str) -> Result<String, String> {
    let output = Command::new("ip")
        .args(arguments.split_whitespace())
        .output();
    let output = output.map_err(|error| format!("ip: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!(
            "ip {arguments}: {}",
            String::from_utf8_lossy(&output.stderr)
        ))
    }
}

impl Networks {
    /// `None`, with a message, where they cannot be made.
    fn new() -> Option<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: network namespaces need root");
            return None;
        }
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = |side: &str| format!("burn-dist-{}-{number}-{side}", std::process::id());
        let networks = Self {
            left: name("left"),
            right: name("right"),
        };
        remove_old();
        match networks.set_up() {
            Ok(()) => Some(networks),
            Err(reason) => {
                eprintln!("skipped: no network namespaces: {reason}");
                None
            }
        }
    }

    fn set_up(&self) -> Result<(), String> {
        let (left, right) = (&self.left, &self.right);
        for side in [left, right] {
            ip(&format!("netns add {side}"))?;
            ip(&format!("-n {side} link set lo up"))?;
        }
        for (cable, net) in [("one", 1), ("two", 2)] {
            let ends =
                format!("link add {cable} netns {left} type veth peer name {cable} netns {right}");
            ip(&ends)?;
            for (side, end) in [(left, 1), (right, 2)] {
                ip(&format!(
                    "-n {side} address add 10.77.{net}.{end}/24 dev {cable}"
                ))?;
                ip(&format!("-n {side} link set {cable} up"))?;
            }
        }
        // The system takes a moment to see that both ends are up.
        let until = Instant::now() + Duration::from_secs(10);
        for (side, cable) in [(left, "one"), (left, "two"), (right, "one"), (right, "two")] {
            while !ip(&format!("-n {side} link show {cable}"))?.contains("state UP") {
                if Instant::now() > until {
                    return Err(format!("{cable} does not come up"));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    /// Cuts the cable `one`.
    fn cut(&self) -> Instant {
        ip(&format!("-n {} link set one down", self.left)).unwrap();
        Instant::now()
    }

    /// A job with ranks on the left and one on the right, which meet by the cable `one`.
    fn job(&self, scripts: &[&str]) -> Job {
        let mut places = vec![self.left.as_str(); scripts.len() - 1];
        places.push(&self.right);
        let job = Job::new("tcp", scripts.iter().copied()).in_namespaces(&places);
        let point = format!("tcp://10.77.1.1:{}", job.port());
        job.all("BURN_DIST_RDZV", &point)
    }
}

/// Removes namespaces of tests that were killed.
fn remove_old() {
    for line in ip("netns list").unwrap_or_default().lines() {
        let name = line.split_whitespace().next().unwrap_or_default();
        let process = name
            .strip_prefix("burn-dist-")
            .and_then(|rest| rest.split('-').next());
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            // Another test may be faster.
            let _ = ip(&format!("netns delete {name}"));
        }
    }
}

impl Drop for Networks {
    fn drop(&mut self) {
        for side in [&self.left, &self.right] {
            // What was never made cannot be removed; the cables go with the namespaces.
            let _ = ip(&format!("netns delete {side}"));
        }
    }
}

#[test]
fn ranks_in_two_networks_reach_each_other_at_the_addresses_of_the_cable_that_is_wanted() {
    let Some(networks) = Networks::new() else {
        return;
    };
    let networks = &networks;
    let script = "all_reduce 100000; addresses";
    together(vec!["one", "=two", "^one,lo", "10.77.1.0/24"], |wanted| {
        let folder = tempfile::tempdir().unwrap();
        let point = format!("file://{}/meeting", folder.path().display());
        let job = networks.job(&[script; 2]).all("BURN_DIST_IFNAME", wanted);
        let outcomes = job.all("BURN_DIST_RDZV", &point).start().succeeds();
        let net = if wanted.contains("two") || wanted.starts_with('^') {
            2
        } else {
            1
        };
        let addresses = format!("addresses 10.77.{net}.1 10.77.{net}.2");
        for outcome in &outcomes {
            assert!(outcome.said.contains(&addresses), "{wanted}: {outcome:#?}");
        }
    });
    // Where hosts differ each rank says where others reach it: rank 0 too, which listens everywhere.
    let job = networks.job(&[script; 2]);
    let outcomes = job.one(1, "BURN_DIST_HOST_ID", "far").start().succeeds();
    for (outcome, end) in outcomes.iter().zip([1, 2]) {
        let reached = format!("others reach it at 10.77.1.{end}%one");
        assert!(outcome.log.contains(&reached), "{outcome:#?}");
    }
}

#[test]
fn a_way_to_another_rank_that_opens_later_is_taken() {
    let Some(networks) = Networks::new() else {
        return;
    };
    let (left, right) = (&networks.left, &networks.right);
    let blocked = format!("-n {right} route add unreachable 10.77.2.1");
    ip(&blocked).unwrap();
    // Rank 1 is reached by the other cable, to which rank 2 has no way yet.
    let job = Job::same("tcp", 3, "barrier").in_namespaces(&[left, left, right]);
    let point = format!("tcp://10.77.1.1:{}", job.port());
    let job = job.all("BURN_DIST_RDZV", &point);
    let mut job = job.one(1, "BURN_DIST_IFNAME", "=two").start_none();
    (0..3).for_each(|rank| job.start(rank));
    job.wait_until_listening(&[2]);
    std::thread::sleep(Duration::from_secs(3));
    ip(&blocked.replace("add", "delete")).unwrap();
    job.succeeds();
    // A way that stays closed is named, with what was found last.
    ip(&blocked).unwrap();
    let job = networks.job(&["barrier"; 3]).all("BURN_DIST_TIMEOUT", "3");
    let outcomes = job.one(1, "BURN_DIST_IFNAME", "=two").start().finish();
    let explained = [
        "cannot reach rank 1 on ",
        " at 10.77.2.1:",
        "No route to host",
        "not within ",
    ];
    outcomes[2].fails(Instant::now(), &explained);
}

#[test]
fn hosts_of_several_ranks_get_what_one_process_gets() {
    let Some(networks) = Networks::new() else {
        return;
    };
    let places = [
        &networks.left,
        &networks.left,
        &networks.right,
        &networks.right,
    ]
    .map(String::as_str);
    // One after the other: they have the cable to themselves.
    for (algorithm, throttle) in [("", ""), ("hierarchical", ""), ("", "2000:50")] {
        let mut job = Job::same("auto", 4, "topology; agreement").in_namespaces(&places);
        let point = format!("tcp://10.77.1.1:{}", job.port());
        for (rank, place) in places.iter().enumerate() {
            job = job.one(rank, "BURN_DIST_HOST_ID", place);
        }
        let job = job
            .all("BURN_DIST_RDZV", &point)
            .all("BURN_DIST_ALGORITHM", algorithm)
            .all("BURN_DIST_THROTTLE", throttle);
        for outcome in job.all("BURN_DIST_OP_TIMEOUT", "60").start().succeeds() {
            let topology = "Topology { ranks: 4, ranks_of_host: Some(2) }";
            assert!(outcome.said.contains(&topology.to_owned()), "{outcome:#?}");
        }
    }
}

#[test]
fn an_interface_that_is_not_there_is_named() {
    let Some(networks) = Networks::new() else {
        return;
    };
    let job = networks.job(&["barrier"; 2]).all("BURN_DIST_TIMEOUT", "3");
    let outcomes = job.one(1, "BURN_DIST_IFNAME", "ib0").start().finish();
    outcomes[1].fails(Instant::now(), &["BURN_DIST_IFNAME", "ib0", "10.77.1.2"]);
    outcomes[0].fails(Instant::now(), &["have not joined in time: [1]"]);
}

#[test]
fn loopback_between_networks_is_refused_with_an_explanation() {
    let Some(networks) = Networks::new() else {
        return;
    };
    let job = networks.job(&["barrier"; 3]);
    let loopback = format!("tcp://127.0.0.1:{}", job.port());
    let explained = [
        "rank 1 on ",
        "has reached rank 0 on ",
        "by the loopback address 127.0.0.1",
        "rank 2 on ",
    ];
    for outcome in job.one(1, "BURN_DIST_RDZV", &loopback).start().finish() {
        outcome.fails(Instant::now(), &explained);
    }
    let job = networks.job(&["barrier"; 2]).all("BURN_DIST_TIMEOUT", "2");
    let outcomes = job
        .all("BURN_DIST_RDZV", "tcp://127.0.0.1:29999")
        .start()
        .finish();
    let explained = [
        "rank 0 was not reached",
        "loopback of this host and network namespace",
    ];
    outcomes[1].fails(Instant::now(), &explained);
}

/// Cuts the cable when all have said `calls`, and what the two sides then say of each other.
fn cut(networks: &Networks, ranks: usize, script: &str, throttle: &str, operation: &str) {
    let mut job = networks
        .job(&vec![script; ranks])
        .all("BURN_DIST_THROTTLE", throttle)
        .start();
    job.wait_for_all("calls");
    std::thread::sleep(Duration::from_millis(500));
    let until = networks.cut() + DEADLINE + Duration::from_secs(1) + SLACK;
    let far = ranks - 1;
    let silent = format!("rank {far} (");
    for outcome in job.outcomes_but(&[far]) {
        outcome.fails(until, &[&silent, "does not answer", operation]);
    }
    job.outcome(far)
        .fails(until, &["rank 0 (", "does not answer", operation]);
    job.finish();
}

#[test]
fn a_cable_that_is_cut_in_the_middle_of_an_operation_is_noticed_on_both_sides() {
    together(vec![2, 3], |ranks| {
        if let Some(networks) = Networks::new() {
            let script = "barrier; say calls; all_reduce 2000000";
            cut(
                &networks,
                ranks,
                script,
                "2:10",
                "operation 1 (all_reduce(2000000 f32, sum))",
            );
        }
    });
}

#[test]
fn a_cable_that_is_cut_between_operations_is_noticed_by_the_next() {
    together(vec![2, 3], |ranks| {
        if let Some(networks) = Networks::new() {
            let script = "barrier; say calls; sleep 1000; all_reduce 100";
            cut(
                &networks,
                ranks,
                script,
                "1000:10",
                "operation 1 (all_reduce(100 f32, sum))",
            );
        }
    });
}

#[test]
fn a_slow_cable_only_slows() {
    let Some(networks) = Networks::new() else {
        return;
    };
    for side in [&networks.left, &networks.right] {
        let shaping = "tc qdisc add dev one root tbf rate 20mbit burst 32k latency 400ms";
        if let Err(reason) = ip(&format!("netns exec {side} {shaping}")) {
            eprintln!("skipped: no slow cable: {reason}");
            return;
        }
    }
    // 2 MB in either direction at 2.5 MB/s.
    let mut job = networks.job(&["barrier; say calls; all_reduce 500000"; 2]);
    job = job.all("BURN_DIST_OP_TIMEOUT", "20");
    let job = job.start();
    job.wait_for_all("calls");
    let began = Instant::now();
    job.succeeds();
    assert!(
        began.elapsed() > Duration::from_millis(500),
        "{:?}",
        began.elapsed()
    );
}
