//! Ranks that stop, or do something else for too long.

use std::time::Duration;

use crate::processes::{DEADLINE, Job, SLACK, TRANSPORTS, together};

#[test]
fn a_stopped_rank_is_named_by_all_others_and_fails_when_it_goes_on() {
    let sizes = [(2, 0), (2, 1), (4, 0), (4, 1), (4, 3)];
    let all = sizes
        .iter()
        .flat_map(|(size, victim)| TRANSPORTS.map(|t| (t, *size, *victim)));
    together(all.collect(), |(transport, size, victim)| {
        let mut job = Job::same(
            transport,
            size,
            "barrier; say calls; forever all_reduce 1000",
        )
        .start();
        job.wait_for_all("calls");
        let stopped = job.stop(victim);
        let name = format!("rank {victim} (");
        for outcome in job.outcomes_but(&[victim]) {
            let until = stopped + DEADLINE + SLACK;
            outcome.fails(
                until,
                &[&name, "does not answer", "(all_reduce(1000 f32, sum))"],
            );
        }
        job.go_on(victim);
        let goes_on = std::time::Instant::now();
        job.outcome(victim)
            .fails(goes_on + Duration::from_secs(5), &["rank"]);
        job.finish();
    });
}

#[test]
fn a_rank_that_does_not_call_is_named_with_what_it_did_last() {
    let all = [0, 1, 2]
        .iter()
        .flat_map(|idle| TRANSPORTS.map(|transport| (transport, *idle)));
    together(all.collect(), |(transport, idle)| {
        let scripts = (0..3).map(|rank| match rank {
            rank if rank == idle => "all_reduce 10; say calls; sleep 8000; barrier",
            _ => "all_reduce 10; say calls; barrier",
        });
        let mut job = Job::new(transport, scripts).start();
        job.wait_for_all("calls");
        let called = std::time::Instant::now();
        let name = format!("rank {idle} (its last was operation 0, all_reduce(10 f32, sum))");
        for outcome in job.outcomes_but(&[idle]) {
            let until = called + DEADLINE + SLACK;
            outcome.fails(
                until,
                &[&name, "has not called operation 1 (barrier) within 3 s"],
            );
        }
        let until = called + Duration::from_secs(8) + SLACK;
        job.outcome(idle).fails(until, &[&name]);
        job.finish();
    });
}

#[test]
fn a_barrier_names_all_who_are_missing() {
    let scripts = ["barrier", "sleep 6000", "barrier", "sleep 6000"];
    let mut job = Job::new("shm", scripts).start();
    let missing = "ranks 1 (it has called none), 3 (it has called none) have not called operation 0 (barrier)";
    job.wait_for_all("joined");
    let until = std::time::Instant::now() + DEADLINE + SLACK;
    for outcome in job.outcomes_but(&[1, 3]) {
        outcome.fails(until, &[missing]);
    }
    job.finish();
}

#[test]
fn an_operation_that_is_slow_is_no_failure_and_one_that_is_too_slow_says_so() {
    together(TRANSPORTS.to_vec(), |transport| {
        // 4 MB in either direction at 4 MB/s: a second of the three that there are.
        let job = Job::same(transport, 2, "all_reduce 1000000").all("BURN_DIST_THROTTLE", "4:10");
        job.start().succeeds();
        let job = Job::same(transport, 2, "say calls; all_reduce 4000000");
        let job = job.all("BURN_DIST_THROTTLE", "2:10").start();
        job.wait_for_all("calls");
        let until = std::time::Instant::now() + DEADLINE + SLACK;
        for outcome in job.finish() {
            let parts = [
                "is not done within 3 s, although all ranks have called it",
                "operation 0 (all_reduce(",
            ];
            outcome.fails(until, &parts);
        }
    });
}

#[test]
fn a_job_that_is_stopped_as_a_whole_goes_on_with_the_time_it_had() {
    together(TRANSPORTS.to_vec(), |transport| {
        let scripts = [
            "barrier; say calls; all_reduce 1000; barrier",
            "barrier; say calls; hold; all_reduce 1000; barrier",
        ];
        let mut job = Job::new(transport, scripts).start();
        job.wait_for_all("calls");
        (0..2).for_each(|rank| {
            job.stop(rank);
        });
        std::thread::sleep(DEADLINE + Duration::from_secs(2));
        (0..2).for_each(|rank| job.go_on(rank));
        job.release();
        (0..2).for_each(|rank| job.outcome(rank).succeeds());
        job.finish();
    });
}

/// Where time is over in the moment in which all go on, who is missing is still found out.
#[test]
fn a_pause_before_the_deadline_makes_nobody_the_cause() {
    together(TRANSPORTS.to_vec(), |transport| {
        let scripts = [
            "barrier; say calls; barrier",
            "barrier; say calls; sleep 60000",
            "barrier; say calls; barrier",
        ];
        let mut job = Job::new(transport, scripts).start();
        job.wait_for_all("calls");
        std::thread::sleep(DEADLINE - Duration::from_millis(700));
        (0..3).for_each(|rank| {
            job.stop(rank);
        });
        std::thread::sleep(Duration::from_millis(750));
        (0..3).for_each(|rank| job.go_on(rank));
        let until = std::time::Instant::now() + DEADLINE + SLACK;
        for outcome in job.outcomes_but(&[1]) {
            outcome.fails(until, &["rank 1 (its last was", "has not called"]);
        }
        job.kill(1);
        job.finish();
    });
}

#[test]
fn a_death_is_told_when_rank_0_is_stopped_for_a_moment() {
    together(TRANSPORTS.to_vec(), |transport| {
        let script = "barrier; say calls; forever all_reduce 1000";
        let job = Job::same(transport, 3, script);
        let mut job = job.all("BURN_DIST_OP_TIMEOUT", "20").start();
        job.wait_for_all("calls");
        job.stop(0);
        std::thread::sleep(Duration::from_millis(200));
        let until = job.kill(1) + Duration::from_secs(5);
        std::thread::sleep(Duration::from_millis(1_700));
        job.go_on(0);
        for outcome in job.outcomes_but(&[1]) {
            outcome.fails(until, &["rank 1 (", "has died"]);
        }
        job.finish();
    });
}

/// Nobody can tell one from the other: who waits for the dead names both, who waits for rank 0 names that.
#[test]
fn a_death_while_rank_0_is_stopped_for_good_ends_all_in_time() {
    together(TRANSPORTS.to_vec(), |transport| {
        let script = "barrier; say calls; forever all_reduce 1000";
        let mut job = Job::same(transport, 3, script).start();
        job.wait_for_all("calls");
        job.stop(0);
        std::thread::sleep(Duration::from_millis(200));
        let until = job.kill(1) + DEADLINE + SLACK;
        job.outcome(2)
            .fails(until, &["rank 0 (", "does not answer"]);
        job.kill(0);
        job.finish();
    });
}
