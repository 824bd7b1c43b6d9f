//! `burn-dist doctor` and `burn-dist tune`, between real ranks, and the timeline that they leave.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::{Command, Output};

use burn_dist_core::collective::Table;

const BURN_DIST: &str = env!("CARGO_BIN_EXE_burn-dist");

fn burn_dist(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(BURN_DIST);
    command.args(arguments).envs(variables.iter().copied());
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn doctor_alone_says_what_is_here() {
    let output = burn_dist(&["doctor"], &[("BURN_DIST_IFNAME", "127.0.0.0/8")]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let text = text(&output.stdout);
    for part in [
        "launcher\n  none",
        "/dev/shm",
        "locked memory",
        "127.0.0.1%lo",
        "means 127.0.0.1%lo",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn an_output_that_nobody_reads_is_one_line_and_no_panic() {
    let script = format!("{BURN_DIST} doctor | true; exit ${{PIPESTATUS[0]}}");
    let output = Command::new("bash").args(["-c", &script]).output().unwrap();
    // It may have written all before the reader was gone.
    let error = text(&output.stderr);
    assert!(
        error.is_empty() || (error.lines().count() == 1 && error.contains("Broken pipe")),
        "{error}"
    );
    let full = Command::new("bash")
        .args(["-c", &format!("{BURN_DIST} doctor >/dev/full")])
        .output()
        .unwrap();
    assert_eq!(full.status.code(), Some(1));
    let error = text(&full.stderr);
    assert!(
        error.starts_with("burn-dist: ") && error.lines().count() == 1,
        "{error}"
    );
}

#[test]
fn doctor_says_what_is_wrong_before_it_ends() {
    let output = burn_dist(
        &["doctor"],
        &[("BURN_DIST_RANK", "3"), ("BURN_DIST_WORLD_SIZE", "2")],
    );
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(
        error.contains("rank 3 of 2") && error.lines().count() == 1,
        "{error}"
    );
    assert!(text(&output.stdout).contains("/dev/shm"));
}

#[test]
fn doctor_measures_each_pair_and_a_trace_shows_it() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.json");
    let arguments = ["launch", "-n", "3", "--", BURN_DIST, "doctor"];
    let output = burn_dist(&arguments, &[("BURN_DIST_TRACE", trace.to_str().unwrap())]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let text = text(&output.stdout);
    for pair in ["0 - 1", "0 - 2", "1 - 2"] {
        let line = text.lines().find(|line| line.contains(pair)).unwrap();
        let figures: Vec<f64> = line
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        // The numbers of the ranks, latency and bandwidth.
        assert!(
            figures.len() == 4 && figures[2] > 0.0 && figures[3] > 0.0,
            "{line}"
        );
    }
    for rank in 0..3 {
        let path = folder.path().join(format!("trace.rank-{rank}.json"));
        let events: Vec<serde_json::Value> =
            serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let trips = events.iter().filter(|event| event["name"] == "round_trip");
        assert_eq!(trips.count(), 3 * 55);
        assert!(
            events
                .iter()
                .all(|event| event["pid"] == rank && event["args"]["order"] == "rank")
        );
    }
}

#[test]
fn tune_writes_a_table_that_all_ranks_take() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.json");
    let path = path.to_str().unwrap();
    let arguments = [
        "launch",
        "-n",
        "2",
        "--",
        BURN_DIST,
        "tune",
        path,
        "--repetitions",
        "2",
    ];
    let output = burn_dist(&arguments, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table: Result<Table, _> = serde_json::from_slice(&std::fs::read(path).unwrap());
    assert!(table.is_ok());
    let arguments = ["launch", "-n", "2", "--", BURN_DIST, "doctor"];
    assert!(
        burn_dist(&arguments, &[("BURN_DIST_TUNE", path)])
            .status
            .success()
    );
    let alone = burn_dist(&["tune", path], &[]);
    assert_eq!(alone.status.code(), Some(1));
    assert!(text(&alone.stderr).contains("burn-dist launch"));
}
