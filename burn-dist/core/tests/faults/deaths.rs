//! Ranks that die, stop, leave, or do not come.

use rustix::process::Signal;

use super::processes::{DEADLINE, Job, TRANSPORTS};

/// A death is noticed at once; the margin is for a machine with more to do.
const SOON: u64 = 5_000;
/// The deadline, and as much for a slow machine as a tenth of a second needs.
const LATE: u64 = DEADLINE * 1_000 + 500;

/// An operation that takes a while, so that it is hit in its middle.
const LARGE: &str = "loop 4000000";
/// As many elements as the programs that do something else after it.
const SMALL: &str = "loop 1000";

#[test]
fn a_death_is_named_on_all_other_ranks() {
    for transport in TRANSPORTS {
        for program in [SMALL, LARGE] {
            for victim in 0..3 {
                let mut job = Job::start(3, transport, program, |_, _| {});
                job.run();
                job.signal(victim, Signal::KILL);
                let name = format!("rank {victim} (");
                job.assert_failed(Some(victim), SOON, &[&name, "has died", "connection"]);
                // Each survivor has written down what it did.
                for rank in (0..3).filter(|rank| *rank != victim) {
                    let flight = std::fs::read(job.flight(rank)).unwrap();
                    let flight: serde_json::Value = serde_json::from_slice(&flight).unwrap();
                    assert_eq!(flight["rank"], rank);
                    assert!(flight["error"].as_str().unwrap().contains("has died"));
                    let operations = flight["operations"].as_array().unwrap();
                    assert!(operations.len() >= 5);
                    assert_eq!(operations[0]["call"]["operation"], "all_reduce");
                }
                job.assert_gone();
            }
        }
    }
}

#[test]
fn a_death_between_operations_is_found_by_the_next() {
    for transport in TRANSPORTS {
        for victim in 0..2 {
            let mut job = Job::start(2, transport, "pause-then-loop 1500", |rank, command| {
                if rank == victim {
                    command.env(super::programs::PROGRAM, "pause");
                }
            });
            job.run();
            job.signal(victim, Signal::KILL);
            let name = format!("rank {victim} (");
            job.assert_failed(Some(victim), SOON, &[&name, "has died"]);
            job.assert_gone();
        }
    }
}

#[test]
fn a_stopped_rank_is_named_within_the_deadline_and_fails_as_well() {
    for transport in TRANSPORTS {
        for victim in 0..4 {
            let mut job = Job::start(4, transport, SMALL, |_, _| {});
            job.run();
            job.signal(victim, Signal::STOP);
            let name = format!("rank {victim} (");
            // Not an innocent one that itself waits for it.
            job.assert_failed(Some(victim), LATE, &[&name, "not answer", "operation"]);
            job.signal(victim, Signal::CONT);
            let end = job.end(victim);
            assert_eq!(end.status.code(), Some(1), "{:?}", end.lines);
            job.assert_gone();
        }
    }
}

#[test]
fn who_does_not_call_is_named_with_what_it_did_last() {
    for transport in TRANSPORTS {
        for victim in [0, 2] {
            let calls = |last: &str| format!("calls gather,barrier,{last}");
            let mut job = Job::start(3, transport, &calls("barrier"), |rank, command| {
                if rank == victim {
                    command.env(super::programs::PROGRAM, calls("sleep:600000"));
                }
            });
            let name = format!(
                "rank {victim} (its last was operation 2, barrier) has not called operation 3 (barrier)"
            );
            job.assert_failed(Some(victim), LATE, &[&name, "BURN_DIST_OP_TIMEOUT"]);
            job.assert_gone();
        }
    }
}

#[test]
fn who_has_left_is_named() {
    for transport in TRANSPORTS {
        for victim in 0..3 {
            let mut job = Job::start(3, transport, SMALL, |rank, command| {
                if rank == victim {
                    command.env(super::programs::PROGRAM, "leave 6");
                }
            });
            let end = job.end(victim);
            assert!(
                end.status.success(),
                "{transport} {victim}: {:?}",
                end.lines
            );
            for rank in (0..3).filter(|rank| *rank != victim) {
                let end = job.end(rank);
                assert_eq!(end.status.code(), Some(1), "{:?}", end.lines);
                let name = format!("rank {victim} ");
                assert!(
                    end.text.contains(&name),
                    "{transport} {victim}: {}",
                    end.text
                );
                assert!(end.after < SOON, "{} ms: {}", end.after, end.text);
            }
            job.assert_gone();
        }
    }
}

#[test]
fn a_panic_or_an_exit_is_a_death_or_a_departure() {
    for transport in TRANSPORTS {
        for program in ["panic", "exit"] {
            let mut job = Job::start(2, transport, SMALL, |rank, command| {
                if rank == 1 {
                    command.env(super::programs::PROGRAM, program);
                }
            });
            assert!(!job.end(1).status.success());
            job.assert_failed(Some(1), SOON, &["rank 1 "]);
            job.assert_gone();
        }
    }
}

#[test]
fn what_was_started_is_done_before_a_rank_leaves() {
    for transport in TRANSPORTS {
        let mut job = Job::start(3, transport, "start-and-leave", |_, _| {});
        job.assert_done();
        job.assert_gone();
    }
}
