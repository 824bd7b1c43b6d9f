//! Ranks that leave while others go on, and those that leave with operations pending.

use std::time::Duration;

use crate::processes::{Job, SLACK, TRANSPORTS, together};

#[test]
fn a_rank_that_leaves_is_named_by_all_that_go_on() {
    let victims = [0, 1, 2, 3].iter();
    let all = victims.flat_map(|leaves| TRANSPORTS.map(|transport| (transport, *leaves)));
    together(all.collect(), |(transport, leaves)| {
        let scripts = (0..4).map(|rank| match rank {
            rank if rank == leaves => "barrier; stay 4000",
            _ => "barrier; say calls; sleep 500; all_reduce 1000; all_reduce 1000",
        });
        let mut job = Job::new(transport, scripts).start();
        for rank in (0..4).filter(|rank| *rank != leaves) {
            job.wait_for(rank, "calls");
        }
        let until = std::time::Instant::now() + Duration::from_secs(5);
        let left = format!("rank {leaves} has left after 1 operation");
        for outcome in job.outcomes_but(&[leaves]) {
            outcome.fails(
                until,
                &[&left, "calls operation 1 (all_reduce(1000 f32, sum))"],
            );
        }
        job.outcome(leaves).succeeds();
        job.finish();
    });
}

/// Along a chain rank 0 is done when the next has what it sends. The children of the dead one hold its connections open.
#[test]
fn a_death_is_told_when_rank_0_has_nothing_more_to_do() {
    let all = TRANSPORTS
        .iter()
        .flat_map(|t| [3, 4].map(|size| (*t, size)));
    together(all.collect(), |(transport, size)| {
        let scripts = (0..size).map(|rank| match rank {
            0 => "barrier; say ready; broadcast 1000 0; say done; leave",
            1 => "barrier; orphan 8000; say ready; sleep 60000",
            _ => "barrier; say ready; broadcast 1000 0",
        });
        let mut job = Job::new(transport, scripts)
            .all("BURN_DIST_ALGORITHM", "chain")
            .all("BURN_DIST_OP_TIMEOUT", "20")
            .start();
        job.wait_for_all("ready");
        job.wait_for(0, "done");
        std::thread::sleep(Duration::from_millis(500));
        let until = job.kill(1) + Duration::from_secs(5);
        for outcome in job.outcomes_but(&[0, 1]) {
            let cause = ["rank 1 (", "has died", "operation 1 (broadcast("];
            outcome.fails(until, &cause);
        }
        job.outcome(0).succeeds();
        job.finish();
    });
}

/// The process that watches the dead one has left before.
#[test]
fn a_death_is_told_whoever_has_left() {
    let all = TRANSPORTS
        .iter()
        .flat_map(|t| [true, false].map(|stays| (*t, stays)));
    together(all.collect(), |(transport, stays)| {
        let first = match stays {
            true => "barrier; say ready; broadcast 1000 0; say done; sleep 60000",
            false => "barrier; say ready; broadcast 1000 0; say done; leave",
        };
        let scripts = [
            first,
            "barrier; say ready; broadcast 1000 0; say done; leave",
            "barrier; orphan 8000; say ready; sleep 60000",
            "barrier; say ready; broadcast 1000 0",
        ];
        let mut job = Job::new(transport, scripts)
            .all("BURN_DIST_ALGORITHM", "chain")
            .all("BURN_DIST_OP_TIMEOUT", "20")
            .start();
        job.wait_for_all("ready");
        (0..2).for_each(|rank| job.wait_for(rank, "done"));
        job.outcome(1).succeeds();
        let until = job.kill(2) + Duration::from_secs(5);
        job.outcome(3).fails(until, &["rank 2 (", "has died"]);
        job.kill(0);
        job.finish();
    });
}

#[test]
fn a_panic_of_rank_0_is_seen_at_once() {
    let scripts = [
        "broadcast 10 0; say done; panic",
        "say ready; sleep 60000; broadcast 10 0",
    ];
    let mut job = Job::new("tcp", scripts)
        .all("BURN_DIST_OP_TIMEOUT", "20")
        .start();
    job.wait_for(0, "done");
    let done = std::time::Instant::now();
    assert_ne!(job.outcome(0).code, Some(0));
    assert!(done.elapsed() < Duration::from_secs(3));
    job.kill(1);
    job.finish();
}

/// What it has done is done; nobody hears of a failure of its own.
#[test]
fn rank_0_waits_for_those_that_go_on_and_no_longer() {
    let scripts = [
        "broadcast 10 0; say done; leave",
        "say ready; hold; broadcast 10 0; say done; sleep 60000",
    ];
    let mut job = Job::new("tcp", scripts)
        .all("BURN_DIST_OP_TIMEOUT", "20")
        .start();
    job.wait_for(0, "done");
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(job.threads(0, "coordinator"), 1);
    job.release();
    job.outcome(0).succeeds();
    job.kill(1);
    job.finish();
}

#[test]
fn a_rank_that_is_stopped_holds_no_thread_of_rank_0_when_that_has_left() {
    let scripts = [
        "barrier; say calls; sleep 1000; stay 20000",
        "barrier; say calls; sleep 20000",
    ];
    let job = Job::new("tcp", scripts).start();
    job.wait_for_all("calls");
    job.stop(1);
    assert_eq!(job.threads(0, "coordinator"), 1);
    let until = std::time::Instant::now() + Duration::from_secs(1 + 5 + 5) + SLACK;
    while job.threads(0, "coordinator") > 0 {
        assert!(std::time::Instant::now() < until, "a thread is left");
        std::thread::sleep(Duration::from_millis(50));
    }
    job.kill(1);
    job.kill(0);
    job.finish();
}

#[test]
fn operations_that_are_pending_are_done_before_a_rank_leaves() {
    together(TRANSPORTS.to_vec(), |transport| {
        let script = "start 100000; start 10; start 1000; leave";
        Job::same(transport, 3, script).start().succeeds();
    });
}

#[test]
fn a_pending_operation_that_nobody_else_calls_keeps_no_rank() {
    together(TRANSPORTS.to_vec(), |transport| {
        for leaves in [0, 1] {
            let scripts = (0..2).map(|rank| match rank {
                rank if rank == leaves => "barrier; leave",
                _ => "barrier; start 1000; start 10; leave",
            });
            // Nobody has waited for it, so nobody is told; but all end.
            Job::new(transport, scripts).start().succeeds();
        }
    });
}

#[test]
fn ranks_may_leave_at_different_times_after_the_last_operation() {
    together(TRANSPORTS.to_vec(), |transport| {
        for last in [0, 2] {
            let scripts = (0..3).map(|rank| match rank {
                rank if rank == last => "all_reduce 100000; sleep 1000; leave",
                _ => "all_reduce 100000; leave",
            });
            Job::new(transport, scripts).start().succeeds();
        }
    });
}
