//! Ranks that do not come, come late, or do not fit together.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

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
        outcomes[1].fails(until, &[differs, "BURN_DIST_TOKEN"]);
        outcomes[0].fails(until, &["have not joined in time: [1]"]);
        assert!(
            outcomes[0].log.contains("turned 127.0.0.1:"),
            "{outcomes:#?}"
        );
    });
}
