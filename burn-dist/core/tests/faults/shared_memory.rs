//! Ranks of one host that cannot share memory as others do.

use crate::outcome::Outcome;
use crate::processes::Job;
use crate::programs::{CLOSED, FILE_SIZE};

const SCRIPT: &str = "all_reduce 1000; start 100000; barrier";

#[test]
fn a_program_whose_files_are_closed_to_others_shares_memory_by_a_name() {
    // Two that find each other's memory among open files, and one that has it in a folder, where nothing is left.
    let job = Job::same("shm", 3, SCRIPT).one(1, CLOSED, "1");
    let outcomes = job.start().succeeds();
    for outcome in &outcomes {
        assert!(outcome.log.is_empty(), "{outcomes:#?}");
    }
}

#[test]
fn a_limit_of_file_sizes_costs_shared_memory_and_no_more() {
    let job = Job::same("", 2, SCRIPT).one(1, FILE_SIZE, "1000000");
    let outcomes = job.start().succeeds();
    assert!(outcomes[1].log.contains("no shared memory, TCP instead"));
    assert!(
        outcomes[1]
            .log
            .contains("`ulimit -f` allows files of 1000000 bytes")
    );
    // All have none, which one says.
    let job = Job::same("", 3, SCRIPT).all(FILE_SIZE, "1000000");
    let outcomes = job.start().succeeds();
    let says = |outcome: &&Outcome| outcome.log.contains("no shared memory, TCP instead");
    let told: Vec<usize> = outcomes.iter().filter(says).map(|o| o.rank).collect();
    assert_eq!(told, [0]);
    let job = Job::same("shm", 2, SCRIPT).one(1, FILE_SIZE, "1000000");
    let outcomes = job.all("BURN_DIST_TIMEOUT", "5").start().finish();
    let until = std::time::Instant::now();
    outcomes[1].fails(
        until,
        &["BURN_DIST_TRANSPORT is shm, but", "ulimit -f unlimited"],
    );
}
