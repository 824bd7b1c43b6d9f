//! Ranks that are killed, panic or end.

use std::time::Duration;

use crate::outcome::Outcome;
use crate::processes::{Job, TRANSPORTS, together};

/// Within this time of a death all others have failed.
const DEATH: Duration = Duration::from_secs(5);

/// Every transport with every victim of worlds of these sizes.
fn victims(sizes: &[usize]) -> Vec<(&'static str, usize, usize)> {
    let sizes = sizes
        .iter()
        .flat_map(|size| (0..*size).map(move |victim| (*size, victim)));
    let all =
        sizes.flat_map(|(size, victim)| TRANSPORTS.map(|transport| (transport, size, victim)));
    all.collect()
}

#[track_caller]
fn all_name(outcomes: &[Outcome], until: std::time::Instant, victim: usize, operation: &str) {
    let dead = format!("rank {victim} (");
    for outcome in outcomes {
        outcome.fails(until, &[&dead, "has died", operation]);
    }
}

#[test]
fn a_rank_that_is_killed_in_the_middle_of_an_operation_is_named_with_it() {
    together(victims(&[2, 4]), |(transport, size, victim)| {
        let script = "barrier; say calls; all_reduce 1000000";
        // Megabytes in either direction at 0.4 MB/s.
        let job = Job::same(transport, size, script).all("BURN_DIST_THROTTLE", "0.4:10");
        let mut job = job.all("BURN_DIST_OP_TIMEOUT", "20").start();
        job.wait_for_all("calls");
        std::thread::sleep(Duration::from_secs(1));
        let killed = job.kill(victim);
        let outcomes = job.outcomes_but(&[victim]);
        all_name(
            &outcomes,
            killed + DEATH,
            victim,
            "operation 1 (all_reduce(1000000 f32, sum))",
        );
        for outcome in &outcomes {
            let flight = job.flight(outcome.rank);
            assert_eq!(flight["rank"], outcome.rank);
            assert_eq!(flight["error"].as_str(), outcome.error.as_deref());
            let operations = flight["operations"].as_array().unwrap();
            let last = operations.last().unwrap();
            assert_eq!((&last["sequence"], operations.len()), (&1.into(), 2));
            assert_eq!(last["call"]["operation"], "all_reduce");
            assert_eq!(
                (&operations[0]["state"], &last["state"]),
                (&"done".into(), &"failed".into())
            );
        }
        job.finish();
    });
}

#[test]
fn a_rank_that_is_killed_before_the_first_operation_is_named() {
    together(victims(&[3]), |(transport, size, victim)| {
        let scripts = (0..size).map(|rank| match rank {
            rank if rank == victim => "sleep 60000",
            _ => "barrier",
        });
        let mut job = Job::new(transport, scripts).start();
        job.wait_for_all("joined");
        let killed = job.kill(victim);
        all_name(
            &job.outcomes_but(&[victim]),
            killed + DEATH,
            victim,
            // Of the barrier, or of nothing yet: who has said that it has joined may not have called it.
            "has died",
        );
        job.finish();
    });
}

#[test]
fn a_rank_that_is_killed_between_operations_is_named_by_the_next() {
    together(victims(&[3]), |(transport, size, victim)| {
        let script = "all_reduce 1000; say done; sleep 1000; all_reduce 77";
        let mut job = Job::same(transport, size, script).start();
        job.wait_for_all("done");
        let killed = job.kill(victim);
        let outcomes = job.outcomes_but(&[victim]);
        all_name(&outcomes, killed + DEATH, victim, "between operations");
        job.finish();
    });
}

/// Its children hold its connections open, so that they do not end.
#[test]
fn a_rank_that_is_killed_and_has_children_is_named() {
    together(victims(&[3]), |(transport, size, victim)| {
        let scripts = (0..size).map(|rank| match rank {
            rank if rank == victim => "barrier; orphan 8000; say ready; sleep 60000",
            _ => "barrier; say ready; all_reduce 1000",
        });
        let job = Job::new(transport, scripts);
        let mut job = job.all("BURN_DIST_OP_TIMEOUT", "20").start();
        job.wait_for_all("ready");
        let killed = job.kill(victim);
        let outcomes = job.outcomes_but(&[victim]);
        all_name(&outcomes, killed + DEATH, victim, "its process has ended");
        job.finish();
    });
}

#[test]
fn a_rank_that_is_killed_leaves_its_timeline() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let script = "all_reduce 1000; say done; sleep 60000";
    let mut job = Job::same("tcp", 2, script)
        .all("BURN_DIST_TRACE", path.to_str().unwrap())
        .start();
    job.wait_for_all("done");
    // It is written several times a second.
    std::thread::sleep(Duration::from_secs(2));
    (0..2).for_each(|rank| {
        job.kill(rank);
    });
    (0..2).for_each(|rank| drop(job.outcome(rank)));
    for rank in 0..2 {
        let path = folder.path().join(format!("trace.rank-{rank}.json"));
        let text = std::fs::read_to_string(path).unwrap();
        let events: serde_json::Value = serde_json::from_str(&format!("{text}]")).unwrap();
        assert_eq!(events[0]["name"], "all_reduce");
    }
}

#[test]
fn a_process_that_ends_without_a_word_has_died() {
    together(victims(&[3]), |(transport, size, victim)| {
        let scripts = (0..size).map(|rank| match rank {
            rank if rank == victim => "barrier; sleep 1000; say ends; exit 0",
            _ => "barrier; all_reduce 10; barrier",
        });
        let mut job = Job::new(transport, scripts).start();
        job.wait_for(victim, "ends");
        let ends = std::time::Instant::now();
        all_name(
            &job.outcomes_but(&[victim]),
            ends + DEATH,
            victim,
            "operation 1 (all_reduce",
        );
        job.finish();
    });
}

#[test]
fn a_rank_that_panics_has_left() {
    together(victims(&[3]), |(transport, size, victim)| {
        let scripts = (0..size).map(|rank| match rank {
            rank if rank == victim => "barrier; sleep 500; say panics; panic",
            _ => "barrier; all_reduce 10; barrier",
        });
        let mut job = Job::new(transport, scripts).start();
        job.wait_for(victim, "panics");
        let until = std::time::Instant::now() + DEATH;
        let left = format!("rank {victim} has left after 1 operation");
        for outcome in job.outcomes_but(&[victim]) {
            outcome.fails(until, &[&left, "operation 1 (all_reduce(10 f32, sum))"]);
        }
        let panicked = job.outcome(victim);
        assert!(panicked.code != Some(0) && panicked.log.contains("as the script says"));
        job.finish();
    });
}

#[test]
fn a_rank_that_is_killed_while_the_job_starts_is_named() {
    together(vec![0, 1, 2], |victim| {
        // Two have joined, and the third comes when one of them is dead.
        let last = if victim == 2 { 1 } else { 2 };
        let mut job = Job::same("tcp", 3, "barrier")
            .all("BURN_DIST_TIMEOUT", "8")
            .start_none();
        let first: Vec<usize> = (0..3).filter(|rank| *rank != last).collect();
        first.iter().for_each(|rank| job.start(*rank));
        job.wait_until_listening(&first);
        // They have joined a moment later.
        std::thread::sleep(Duration::from_secs(1));
        let killed = job.kill(victim);
        job.start(last);
        for outcome in job.outcomes_but(&[victim]) {
            outcome.fails(
                killed + Duration::from_secs(12),
                &[&format!("rank {victim}")],
            );
        }
        job.finish();
    });
}
