//! Ranks that call different things.

use std::time::{Duration, Instant};

use crate::outcome::Outcome;
use crate::processes::{Job, SLACK, TRANSPORTS, together};

/// A second, and as much until those that have not waited call the next.
const SOON: Duration = Duration::from_secs(3);

/// Within a second of the call.
#[track_caller]
fn is_noticed_at_once(called: Instant, outcomes: &[Outcome]) {
    let first = outcomes.iter().map(|outcome| outcome.ended).min();
    let first = first.unwrap().saturating_duration_since(called);
    assert!(first < Duration::from_secs(1), "noticed after {first:?}");
}

/// Rank `other` of three calls something else than the others: all name two ranks and both calls. Who only sends does
/// not wait, and learns of it by what it calls next.
fn disagree(usual: &str, other: usize, its: &str, calls: &[&str; 2]) {
    together(TRANSPORTS.to_vec(), |transport| {
        let script =
            |commands: &str| format!("barrier; say calls; hold; {commands}; sleep 1500; barrier");
        let scripts = (0..3).map(|rank| script(if rank == other { its } else { usual }));
        // Long before any deadline.
        let job = Job::new(transport, scripts)
            .all("BURN_DIST_OP_TIMEOUT", "20")
            .start();
        // All have come back from the barrier, and none has been told of a failure there.
        job.wait_for_all("calls");
        job.release();
        let called = Instant::now();
        let until = called + SOON + SLACK;
        let name = format!("rank {other} ");
        let outcomes = job.finish();
        is_noticed_at_once(called, &outcomes);
        for outcome in outcomes {
            outcome.fails(
                until,
                &[&name, calls[0], calls[1], "the same in the same order"],
            );
        }
    });
}

#[test]
fn another_operation() {
    let calls = ["all_reduce(1000 f32, sum)", "broadcast(1000 f32, root 0)"];
    disagree("all_reduce 1000", 1, "broadcast 1000 0", &calls);
}

#[test]
fn another_count() {
    let calls = ["all_reduce(1000 f32, sum)", "all_reduce(1001 f32, sum)"];
    disagree("all_reduce 1000", 2, "all_reduce 1001", &calls);
}

#[test]
fn another_type() {
    let calls = ["all_reduce(500000 f32, sum)", "all_reduce(500000 i64, sum)"];
    disagree("all_reduce 500000", 0, "all_reduce 500000 sum i64", &calls);
}

#[test]
fn another_reduction() {
    let calls = ["all_reduce(10 f32, sum)", "all_reduce(10 f32, max)"];
    disagree("all_reduce 10", 0, "all_reduce 10 max", &calls);
}

#[test]
fn another_root() {
    let calls = ["broadcast(10 f32, root 0)", "broadcast(10 f32, root 1)"];
    disagree("broadcast 10 0", 2, "broadcast 10 1", &calls);
}

#[test]
fn another_root_where_all_but_one_only_send() {
    let calls = ["reduce(10 f32, sum, root 1)", "reduce(10 f32, sum, root 2)"];
    disagree("reduce 10 1; barrier", 2, "reduce 10 2; barrier", &calls);
}

#[test]
fn one_operation_more() {
    let calls = ["all_reduce(10 f32, sum)", "barrier"];
    disagree("barrier", 1, "all_reduce 10; barrier", &calls);
}

#[test]
fn another_order() {
    let calls = ["reduce_scatter(100 f32, sum)", "broadcast(100 f32, root 2)"];
    let (one, other) = (
        "reduce_scatter 100; broadcast 100 2",
        "broadcast 100 2; reduce_scatter 100",
    );
    disagree(one, 1, other, &calls);
}

/// Each is a root and sends to the others: nobody waits, not even for what would come next.
#[test]
fn another_operation_where_nobody_waits() {
    together(TRANSPORTS.to_vec(), |transport| {
        let scripts =
            (0..4).map(|rank| format!("barrier; say calls; hold; broadcast 10 {rank}; watch"));
        let job = Job::new(transport, scripts).start();
        job.wait_for_all("calls");
        job.release();
        let called = Instant::now();
        let outcomes = job.finish();
        is_noticed_at_once(called, &outcomes);
        for outcome in outcomes {
            outcome.fails(
                called + SOON + SLACK,
                &[
                    "as operation 1 rank ",
                    "calls broadcast(10 f32, root ",
                    "the same in the same order",
                ],
            );
        }
    });
}

/// A root that sends does not wait: only who waits for it can find out, long after it was asked first.
#[test]
fn another_operation_that_comes_later_and_does_not_wait() {
    let its = "sleep 900; broadcast 10 2";
    let calls = ["reduce(10 f32, sum, root 0)", "broadcast(10 f32, root 2)"];
    disagree("reduce 10 0; barrier", 2, its, &calls);
}
