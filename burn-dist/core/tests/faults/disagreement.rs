//! Ranks that call different things, each pair of calls named on all of them.

use super::processes::{Job, TRANSPORTS};
use super::programs::PROGRAM;

/// A quarter of a second until it is told, and time for a machine with more to do.
const SOON: u64 = 1_000;

/// `ranks` ranks, of which `odd` calls something else.
fn disagree(ranks: usize, odd: usize, calls: &str, other: &str, parts: &[&str]) {
    for transport in TRANSPORTS {
        let mut job = Job::start(
            ranks,
            transport,
            &format!("calls {calls}"),
            |rank, command| {
                if rank == odd {
                    command.env(PROGRAM, format!("calls {other}"));
                }
            },
        );
        let name = format!("rank {odd} ");
        let parts: Vec<&str> = parts
            .iter()
            .copied()
            .chain([name.as_str(), "the same order"])
            .collect();
        job.assert_failed(None, SOON, &parts);
        job.assert_gone();
    }
}

#[test]
fn another_operation() {
    let parts = ["all_reduce(10 f32, sum)", "broadcast(10 f32, root 1)"];
    disagree(
        3,
        2,
        "barrier,all_reduce:sum:f32:10,barrier",
        "barrier,broadcast:1,barrier",
        &parts,
    );
}

#[test]
fn another_type_or_count_or_reduction() {
    let calls = "all_reduce:sum:f32:100,barrier";
    disagree(
        2,
        1,
        calls,
        "all_reduce:sum:f64:100,barrier",
        &["100 f32", "100 f64"],
    );
    disagree(
        2,
        0,
        calls,
        "all_reduce:sum:f32:101,barrier",
        &["(100 f32", "(101 f32"],
    );
    disagree(
        2,
        1,
        calls,
        "all_reduce:max:f32:100,barrier",
        &["f32, sum", "f32, max"],
    );
}

/// Each waits for the other, and no message flows.
#[test]
fn another_root_where_nobody_sends() {
    let parts = ["broadcast(10 f32, root 0)", "broadcast(10 f32, root 1)"];
    disagree(
        2,
        1,
        "broadcast:1,barrier",
        "broadcast:0,barrier",
        &["root 0", "root 1"],
    );
    disagree(2, 0, "broadcast:0,barrier", "broadcast:1,barrier", &parts);
}

#[test]
fn one_operation_more_or_another_order() {
    let twice = "all_reduce:sum:f32:10,all_reduce:sum:f32:10,barrier";
    disagree(
        3,
        1,
        twice,
        "all_reduce:sum:f32:10,barrier",
        &["all_reduce(10 f32, sum)", "barrier"],
    );
    disagree(
        2,
        1,
        "reduce:0,barrier",
        "barrier,reduce:0",
        &["reduce(10 f32", "barrier"],
    );
}
