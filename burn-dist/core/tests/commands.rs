//! `burn-dist doctor` and `burn-dist tune`, between real ranks, and the timeline that they leave.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
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
        "(/proc/loadavg)",
        "(/proc/meminfo), available ",
        "memory limit ",
        "BURN_DIST_TLS is not 1",
        "127.0.0.1%lo",
        "means 127.0.0.1%lo",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn doctor_says_what_becomes_of_tls() {
    let tls = ("BURN_DIST_TLS", "1");
    let built = cfg!(feature = "tls");
    for (variables, expected) in [
        (
            &[tls][..],
            if built {
                "! BURN_DIST_TLS is 1, but no token is set"
            } else {
                "feature tls"
            },
        ),
        (
            &[tls, ("BURN_DIST_TOKEN", "secret")],
            if built {
                "  BURN_DIST_TLS is 1: connections are encrypted"
            } else {
                "feature tls"
            },
        ),
    ] {
        let text = text(&burn_dist(&["doctor"], variables).stdout);
        assert!(text.contains(expected), "{expected}: {text}");
    }
    if !built {
        // Nor does a job begin that would not encrypt.
        let output = burn_dist(&["launch", "-n", "2", "--", BURN_DIST, "doctor"], &[tls]);
        assert_eq!(output.status.code(), Some(1));
        let error = text(&output.stderr);
        assert!(error.contains("built without TLS: build it"), "{error}");
    }
}

/// What `burn-dist doctor` says as rank 1 of 60,000 on this host: more than the cores of any machine that tests run on.
/// Nobody listens where they meet.
fn doctor_in_a_job(point: &str, more: &[(&str, &str)]) -> String {
    let job = [
        ("BURN_DIST_RANK", "1"),
        ("BURN_DIST_WORLD_SIZE", "60000"),
        ("BURN_DIST_LOCAL_RANK", "0"),
        ("BURN_DIST_LOCAL_WORLD_SIZE", "60000"),
        ("BURN_DIST_RDZV", point),
        ("BURN_DIST_TIMEOUT", "1"),
    ];
    let output = burn_dist(&["doctor"], &[&job[..], more].concat());
    assert_eq!(output.status.code(), Some(1));
    text(&output.stdout)
}

#[test]
fn doctor_knows_what_ranks_do_while_they_wait() {
    let point = "tcp://127.0.0.1:1";
    for quiet in [&[][..], &[("BURN_DIST_POLL", "block")]] {
        let text = doctor_in_a_job(point, quiet);
        let few = text.contains("! 60000 ranks on ");
        assert!(few && !text.contains("BURN_DIST_POLL"), "{text}");
    }
    let text = doctor_in_a_job(point, &[("BURN_DIST_POLL", "spin")]);
    let spins = "! BURN_DIST_POLL is spin, with 60000 ranks on ";
    assert!(text.contains(spins), "{text}");
}

#[test]
fn doctor_shows_the_addresses_of_names_alone() {
    let text = doctor_in_a_job("tcp://127.0.0.1:1", &[]);
    let meets = text.contains("meet at tcp://127.0.0.1:1\n");
    assert!(meets && !text.contains("127.0.0.1 is"), "{text}");
    let text = doctor_in_a_job("tcp://localhost:1", &[]);
    let mut lines = text.lines();
    let line = lines.find(|line| line.starts_with("  localhost is "));
    let line = line.unwrap();
    assert!(line.contains("127.0.0.1") && !line.contains('['), "{line}");
}

/// Of a socket for datagrams each is what was written at once: other ranks may write to the same screen.
#[test]
fn an_error_is_written_in_one_piece() {
    for (arguments, expected) in [
        (
            &["tune", "/none/table"][..],
            "burn-dist: one rank has nothing to tune: ",
        ),
        (
            &["tune"],
            "error: the following required arguments were not provided: <TABLE> ",
        ),
    ] {
        let (error, other) = UnixDatagram::pair().unwrap();
        let mut command = Command::new(BURN_DIST);
        command.args(arguments).stderr(OwnedFd::from(other));
        assert!(!command.status().unwrap().success());
        let mut line = [0; 1000];
        let length = error.recv(&mut line).unwrap();
        let line = text(&line[..length]);
        assert!(line.starts_with(expected) && line.ends_with('\n'), "{line}");
    }
}

#[test]
fn without_a_command_there_is_help() {
    let output = burn_dist(&[], &[]);
    assert_eq!(output.status.code(), Some(2));
    let help = text(&output.stderr);
    for part in ["Usage: burn-dist <COMMAND>", "launch", "doctor", "tune"] {
        assert!(help.contains(part), "{help}");
    }
    let version = text(&burn_dist(&["--version"], &[]).stdout);
    assert!(version.starts_with("burn-dist 0."), "{version}");
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
        "--rounds",
        "3",
    ];
    let output = burn_dist(&arguments, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    let line = shown
        .lines()
        .find(|line| line.contains("all_reduce doubling           1024 bytes"));
    assert!(line.is_some() && shown.contains("round 3 of 3"), "{shown}");
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

/// Before anything is measured, and whatever is there stays as it is.
#[test]
fn tune_says_at_once_if_the_table_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("old"), "old").unwrap();
    let tune = |path: &str, variables: &[(&str, &str)]| {
        let arguments = ["launch", "-n", "2", "--", BURN_DIST, "tune", path];
        let more = ["--rounds", "1", "--repetitions", "1"];
        burn_dist(&[&arguments[..], &more].concat(), variables)
    };
    for name in ["none/table", ""] {
        // Nothing else may fail here: another rank could do so first and be the one reported.
        let output = tune(&path(name), &[]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            error.contains(&format!("cannot write {}: ", path(name))),
            "{error}"
        );
        assert!(!text(&output.stdout).contains("round"));
    }
    // What fails later finds and leaves nothing there.
    for name in ["new", "old"] {
        let output = tune(&path(name), &[("BURN_DIST_ALGORITHM", "none")]);
        assert!(text(&output.stderr).contains("BURN_DIST_ALGORITHM"));
    }
    assert!(!std::fs::exists(path("new")).unwrap());
    assert_eq!(std::fs::read_to_string(path("old")).unwrap(), "old");
}
