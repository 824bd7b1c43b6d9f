//! Ranks that do not come, come late, or do not fit together.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use crate::outcome::Outcome;
use crate::processes::{Job, SLACK, together};
use crate::programs::CONFIGURATION;

/// Time to come together where somebody does not come.
const TIME: Duration = Duration::from_secs(3);

/// All ranks of a job say the same, which has all of `parts`.
#[track_caller]
fn refused(job: Job, parts: &[&str]) {
    let until = Instant::now() + Duration::from_secs(5) + SLACK;
    for outcome in job.start().finish() {
        outcome.fails(until, parts);
    }
}

#[test]
fn a_rank_that_never_comes_is_named_on_all_that_have() {
    together(vec![1, 2], |absent| {
        let job = Job::same("tcp", 3, "barrier").all("BURN_DIST_TIMEOUT", "3");
        let mut job = job.start_none();
        (0..3)
            .filter(|rank| *rank != absent)
            .for_each(|rank| job.start(rank));
        let until = Instant::now() + TIME + SLACK;
        let missing = format!("have not joined in time: [{absent}]; start them");
        for rank in (0..3).filter(|rank| *rank != absent) {
            job.outcome(rank).fails(until, &["of 3 ranks", &missing]);
        }
    });
}

#[test]
fn without_rank_0_the_others_say_where_they_have_looked() {
    let mut job = Job::same("tcp", 3, "barrier")
        .all("BURN_DIST_TIMEOUT", "2")
        .start_none();
    (1..3).for_each(|rank| job.start(rank));
    let until = Instant::now() + TIME + SLACK;
    for rank in 1..3 {
        let parts = [
            "rank 0 was not reached at tcp://127.0.0.1:",
            "within 2 s",
            "refused",
        ];
        job.outcome(rank).fails(until, &parts);
    }
}

#[test]
fn the_order_in_which_ranks_start_does_not_matter() {
    let mut job = Job::same("shm", 3, "all_reduce 1000").start_none();
    job.start(2);
    job.start(1);
    std::thread::sleep(Duration::from_secs(3));
    job.start(0);
    job.succeeds();
}

#[test]
fn a_file_is_a_meeting_point_too_and_is_gone_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let point = format!("file://{}", folder.path().join("meeting").display());
    let job = Job::same("tcp", 2, "all_reduce 1000; barrier").all("BURN_DIST_RDZV", &point);
    let mut job = job.start_none();
    job.start(1);
    job.start(0);
    job.succeeds();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn another_world_size() {
    let job = Job::same("tcp", 3, "barrier").one(2, "BURN_DIST_WORLD_SIZE", "4");
    refused(job, &["rank 2 on ", " expects 4 ranks, rank 0 expects 3"]);
}

#[test]
fn a_rank_that_is_there_twice() {
    let job = Job::same("tcp", 3, "barrier").one(2, "BURN_DIST_RANK", "1");
    refused(job, &["rank 1 is claimed by process ", "and by process "]);
}

#[test]
fn another_configuration() {
    let job = Job::same("tcp", 3, "barrier").all(CONFIGURATION, "batch_size=16");
    let job = job.one(1, CONFIGURATION, "batch_size=32");
    refused(
        job,
        &["rank 1 runs another configuration: batch_size 32 ≠ 16 of rank 0"],
    );
}

#[test]
fn another_number_of_streams() {
    let job = Job::same("tcp", 2, "barrier").one(1, "BURN_DIST_STREAMS", "3");
    refused(
        job,
        &["rank 1 runs another configuration: BURN_DIST_STREAMS 3 ≠ 2 of rank 0"],
    );
}

#[test]
fn another_binary() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("another");
    let mut binary = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    binary.push(0);
    std::fs::write(&copy, binary).unwrap();
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o700)).unwrap();
    let job = Job::same("tcp", 3, "barrier").all("BURN_DIST_ANY_BUILD", "0");
    refused(
        job.binary(1, &copy),
        &["rank 1 runs another binary than rank 0"],
    );
}

#[test]
fn another_token_and_none() {
    together(vec!["other", ""], |token| {
        let job = Job::same("tcp", 2, "barrier").all("BURN_DIST_TIMEOUT", "3");
        // Rank 0 is still there when the other gives up.
        let job = job
            .one(1, "BURN_DIST_TOKEN", token)
            .one(0, "BURN_DIST_TIMEOUT", "8");
        let outcomes = job.start().finish();
        let until = Instant::now() + SLACK;
        let differs = if token.is_empty() {
            "it has a token, this process has none"
        } else {
            "it has another token"
        };
        outcomes[1].fails(
            until,
            &["is not rank 0 of this job", differs, "BURN_DIST_TOKEN"],
        );
        let error = outcomes[1].error.clone().unwrap_or_default();
        // Somebody listens, and can be reached.
        assert!(
            !error.contains("start it") && !error.contains("loopback"),
            "{error}"
        );
        outcomes[0].fails(until, &["have not joined in time: [1]"]);
        // It has come again and again.
        let log = &outcomes[0].log;
        assert_eq!(log.matches("turned 127.0.0.1:").count(), 1, "{log}");
        assert!(log.contains("turned 127.0.0.1 away "), "{log}");
    });
}

#[test]
fn a_rank_of_an_earlier_run_is_turned_away_and_the_job_waits_for_its_own() {
    let job = Job::same("tcp", 3, "all_reduce 1000")
        .all("BURN_DIST_WORLD_SIZE", "2")
        .all("BURN_DIST_RUN", "new");
    // Not the third of this job, but the second of another.
    let mut job = job
        .one(2, "BURN_DIST_RANK", "1")
        .one(2, "BURN_DIST_RUN", "old")
        .one(2, "BURN_DIST_TIMEOUT", "2")
        .start_none();
    job.start(0);
    job.start(2);
    let until = Instant::now() + Duration::from_secs(2) + SLACK;
    let explained = r#"it is of run "new", this process of run "old""#;
    job.outcome(2).fails(until, &[explained, "BURN_DIST_RUN"]);
    job.start(1);
    let outcomes = job.finish();
    outcomes[..2].iter().for_each(Outcome::succeeds);
    let log = &outcomes[0].log;
    assert!(
        log.contains(r#"it is of run "old", this process of run "new""#),
        "{log}"
    );
    assert_eq!(log.matches("turned 127.0.0.1:").count(), 1, "{log}");
}

#[test]
fn a_file_that_a_killed_job_has_left_holds_up_nobody() {
    together(vec!["", "next"], |run| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("meeting");
        let point = format!("file://{}", path.display());
        let job = Job::same("tcp", 2, "all_reduce 1000").all("BURN_DIST_RDZV", &point);
        let mut killed = job.clone().start_none();
        killed.start(0);
        while !path.exists() {
            std::thread::sleep(Duration::from_millis(20));
        }
        killed.kill(0);
        killed.outcome(0);
        assert!(path.exists());
        let mut next = job.all("BURN_DIST_RUN", run).start_none();
        next.start(1);
        std::thread::sleep(Duration::from_secs(1));
        next.start(0);
        let outcomes = next.succeeds();
        assert!(
            outcomes[0].log.contains("is left over from no run"),
            "{outcomes:#?}"
        );
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    });
}

#[test]
fn a_rank_that_is_stopped_while_the_job_starts_is_named_as_such() {
    let job = Job::same("shm", 3, "barrier").all("BURN_DIST_TIMEOUT", "5");
    let mut job = job.start_none();
    job.start(0);
    job.start(1);
    job.wait_until_listening(&[0, 1]);
    // It has joined a moment later, and waits for the third.
    std::thread::sleep(Duration::from_secs(1));
    job.stop(1);
    job.start(2);
    // What rank 0 has at least, once all are there.
    let until = Instant::now() + Duration::from_secs(10) + 2 * SLACK;
    for outcome in job.outcomes_but(&[1]) {
        outcome.fails(until, &["stopped", " within 1"]);
        let error = outcome.error.unwrap_or_default();
        assert!(
            error.contains("rank 1") || error.contains("ranks [1]"),
            "{error}"
        );
        assert!(!error.contains("gone"), "{error}");
    }
    job.kill(1);
    job.finish();
}

#[test]
fn a_rank_0_that_is_stopped_is_told_from_one_that_is_not_there() {
    let mut job = Job::same("tcp", 2, "barrier")
        .all("BURN_DIST_TIMEOUT", "6")
        .start_none();
    job.start(0);
    job.wait_until_listening(&[0]);
    job.stop(0);
    job.start(1);
    let until = Instant::now() + Duration::from_secs(11) + SLACK;
    let explained = [
        "rank 0 was not reached",
        "accepts connections",
        "it may be stopped",
    ];
    let outcome = job.outcome(1);
    outcome.fails(until, &explained);
    assert!(!outcome.error.unwrap_or_default().contains("start it"));
    job.kill(0);
    job.finish();
}
