//! Processes that do not come together, and those that come in any order.

use std::time::{Duration, Instant};

use super::processes::{Job, command, free_port};
use super::programs::PROGRAM;

#[test]
fn the_order_in_which_ranks_start_does_not_matter() {
    let port = free_port();
    let point = format!("tcp://127.0.0.1:{port}");
    let mut job = Job::empty(port);
    for rank in [2, 1] {
        job.add(command("leave 5", rank, 3, &point));
    }
    std::thread::sleep(Duration::from_secs(2));
    job.add(command("leave 5", 0, 3, &point));
    job.assert_done();
    job.assert_gone();
}

#[test]
fn a_file_is_a_meeting_point_too_and_is_gone_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("meeting");
    let point = format!("file://{}", path.display());
    let mut job = Job::empty(free_port());
    for rank in [1, 0] {
        job.add(command("leave 5", rank, 2, &point));
    }
    job.assert_done();
    job.assert_gone();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn who_does_not_come_is_named_and_all_others_end() {
    let began = Instant::now();
    let mut job = Job::start(3, "tcp", "leave 5", |rank, command| {
        command.env("BURN_DIST_TIMEOUT", "2");
        if rank == 1 {
            // It says that it is of a world of one, and so does not come to this.
            command
                .env("BURN_DIST_WORLD_SIZE", "1")
                .env("BURN_DIST_RANK", "0");
        }
    });
    assert!(job.end(1).status.success());
    let end = job.end(0);
    assert!(
        end.text.contains("have not joined in time: [1]"),
        "{}",
        end.text
    );
    let end = job.end(2);
    assert!(
        end.text.contains("BURN_DIST_TIMEOUT") || end.text.contains("rank 0 has gone"),
        "{}",
        end.text
    );
    assert!(began.elapsed() < Duration::from_secs(30));
    job.assert_gone();
}

#[test]
fn nobody_to_meet_is_said_with_the_address() {
    let port = free_port();
    let mut job = Job::empty(port);
    let mut alone = command("leave 5", 1, 2, &format!("tcp://127.0.0.1:{port}"));
    alone.env("BURN_DIST_TIMEOUT", "1.5");
    job.add(alone);
    let end = job.end(0);
    let parts = [
        format!("127.0.0.1:{port}"),
        "refused".into(),
        "BURN_DIST_TIMEOUT".into(),
    ];
    assert!(
        parts.iter().all(|part| end.text.contains(part)),
        "{}",
        end.text
    );
    job.assert_gone();
}

/// Two ranks that cannot be of one job: both say why.
fn refused(prepare: impl Fn(usize, &mut std::process::Command), parts: &[&str]) {
    let mut job = Job::start(2, "tcp", "leave 5", prepare);
    job.assert_failed(None, 30_000, parts);
    job.assert_gone();
}

#[test]
fn what_does_not_fit_together_is_refused_on_both_sides() {
    let value = |name: &'static str, values: [&'static str; 2]| {
        move |rank: usize, command: &mut std::process::Command| {
            command.env(name, values[rank]);
        }
    };
    refused(
        value("FAULT_BATCH", ["32", "16"]),
        &["rank 1", "batch_size 16 ≠ 32"],
    );
    refused(
        value("BURN_DIST_STREAMS", ["2", "3"]),
        &["BURN_DIST_STREAMS 3 ≠ 2"],
    );
    refused(
        value("BURN_DIST_WORLD_SIZE", ["2", "3"]),
        &["rank 1", "expects 3 ranks", "expects 2"],
    );
    refused(
        value("BURN_DIST_ORDER", ["rank", "any"]),
        &["BURN_DIST_ORDER any ≠ rank"],
    );
    refused(
        value("BURN_DIST_TRANSPORT", ["tcp", "auto"]),
        &["BURN_DIST_TRANSPORT auto ≠ tcp"],
    );
}

#[test]
fn a_rank_that_is_claimed_twice_is_refused() {
    let mut job = Job::start(3, "tcp", "leave 5", |rank, command| {
        command.env("BURN_DIST_RANK", rank.min(1).to_string());
    });
    job.assert_failed(None, 30_000, &["rank 1 is claimed by process"]);
    job.assert_gone();
}

#[test]
fn another_binary_is_refused_unless_it_is_welcome() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other");
    std::fs::copy(std::env::current_exe().unwrap(), &other).unwrap();
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .open(&other)
        .unwrap();
    std::io::Write::write_all(&mut file, b"x").unwrap();
    drop(file);
    for welcome in ["0", "1"] {
        let port = free_port();
        let point = format!("tcp://127.0.0.1:{port}");
        let mut job = Job::empty(port);
        for rank in 0..2 {
            let same = command("leave 5", rank, 2, &point);
            let program = if rank == 1 {
                other.as_os_str()
            } else {
                same.get_program()
            };
            let mut chosen = std::process::Command::new(program);
            chosen
                .args(same.get_args())
                .env("BURN_DIST_ANY_BUILD", welcome);
            for (name, value) in same.get_envs() {
                if let Some(value) = value {
                    chosen.env(name, value);
                }
            }
            chosen.env(PROGRAM, "leave 5");
            job.add(chosen);
        }
        match welcome {
            "1" => job.assert_done(),
            _ => job.assert_failed(None, 30_000, &["rank 1 runs another binary"]),
        }
        job.assert_gone();
    }
}

#[test]
fn another_token_is_refused_and_names_its_variable() {
    for (theirs, part) in [
        (Some("another"), "another token"),
        (None, "has a token, this process has none"),
    ] {
        let mut job = Job::start(2, "tcp", "leave 5", |rank, command| {
            command.env("BURN_DIST_TIMEOUT", "14");
            match theirs {
                _ if rank == 0 => {}
                Some(token) => drop(command.env("BURN_DIST_TOKEN", token)),
                None => drop(command.env_remove("BURN_DIST_TOKEN")),
            }
        });
        let end = job.end(1);
        assert_eq!(end.status.code(), Some(1));
        assert!(
            end.text.contains(part) && end.text.contains("BURN_DIST_TOKEN"),
            "{}",
            end.text
        );
        // Rank 0 has heard a stranger, and waits for its own.
        let end = job.end(0);
        assert!(
            end.lines
                .iter()
                .any(|line| line.contains("note turned 127.0.0.1:")),
            "{:?}",
            end.lines
        );
        assert!(
            end.text.contains("have not joined in time: [1]"),
            "{}",
            end.text
        );
        job.assert_gone();
    }
}
