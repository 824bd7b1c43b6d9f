//! `burn-dist launch`, with real processes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// What no test takes.
const LONG: Duration = Duration::from_secs(60);

fn burn_dist() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_burn-dist"));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.env_remove("BURN_DIST_TOKEN");
    command
}

/// `ranks` shells that run `script`.
fn launch(ranks: usize, options: &[&str], script: &str) -> Command {
    let mut command = burn_dist();
    command
        .args(["launch", "-n", &ranks.to_string()])
        .args(options);
    command.args(["--", "sh", "-c", script]);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn sorted(output: &Output) -> Vec<String> {
    let mut lines: Vec<String> = text(&output.stdout).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Waits for what should come soon.
fn soon(what: &str, mut has_come: impl FnMut() -> bool) {
    let began = Instant::now();
    while !has_come() {
        assert!(began.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn lives(process: i32) -> bool {
    test_kill_process(Pid::from_raw(process).unwrap()).is_ok()
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// The next lines of a running launch, `count` of them.
fn lines(child: &mut Child, count: usize) -> Vec<String> {
    let reader = BufReader::new(child.stdout.as_mut().unwrap());
    reader.lines().take(count).map(Result::unwrap).collect()
}

#[test]
fn ranks_know_who_they_are_and_share_a_token() {
    let script = "echo $BURN_DIST_RANK/$BURN_DIST_WORLD_SIZE $BURN_DIST_LOCAL_RANK/$BURN_DIST_LOCAL_WORLD_SIZE $BURN_DIST_RDZV $BURN_DIST_TOKEN";
    // What another launcher has left does not reach them.
    let output = launch(
        3,
        &["--port", "4567"],
        &format!("{script} $OMPI_COMM_WORLD_RANK"),
    )
    .env("OMPI_COMM_WORLD_RANK", "7")
    .output()
    .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines = sorted(&output);
    let token = lines[0].rsplit(' ').next().unwrap();
    assert_eq!(token.len(), 64);
    for (rank, line) in lines.iter().enumerate() {
        let expected = format!("[{rank}] {rank}/3 {rank}/3 tcp://127.0.0.1:4567 {token}");
        assert_eq!(*line, expected);
    }
    let given = launch(1, &["--env", "A=b c"], "echo $BURN_DIST_TOKEN $A")
        .env("BURN_DIST_TOKEN", "mine")
        .output()
        .unwrap();
    assert_eq!(sorted(&given), ["[0] mine b c"]);
}

#[test]
fn the_first_failure_is_last_on_the_screen_and_its_code_is_the_code() {
    let script = "if [ $BURN_DIST_RANK = 1 ]; then echo no data >&2; exit 3; fi; sleep 100";
    let output = launch(3, &[], script).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let error = text(&output.stderr);
    assert!(error.contains("[1] no data"), "{error}");
    assert!(error.contains("    no data\n"), "{error}");
    let last = error.lines().last().unwrap();
    assert_eq!(last, "burn-dist: rank 1 was the first to fail: exit code 3");

    let output = launch(2, &[], "[ $BURN_DIST_RANK = 0 ] && kill -9 $$; sleep 100")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(137));
    assert!(text(&output.stderr).ends_with("rank 0 was the first to fail: killed by SIGKILL\n"));
}

#[test]
fn who_does_not_end_is_killed_with_all_its_descendants() {
    let script = "trap '' TERM; if [ $BURN_DIST_RANK = 0 ]; then \
                  sleep 1000 & echo $!; wait; wait; else sleep 1; exit 1; fi";
    let output = launch(2, &["--grace", "0.5"], script).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let lines = sorted(&output);
    let grandchild: i32 = lines[0].strip_prefix("[0] ").unwrap().parse().unwrap();
    soon("the grandchild is gone", || !lives(grandchild));
}

#[test]
fn signals_reach_each_rank_once() {
    let script = "trap 'echo caught; exit 0' INT TERM; echo ready; while :; do sleep 0.05; done";
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut child = launch(2, &[], script).spawn().unwrap();
        assert_eq!(lines(&mut child, 2).len(), 2);
        send(&child, signal);
        let output = child.wait_with_output().unwrap();
        // They have ended as they were asked to: what the launcher was asked is what counts.
        assert_eq!(output.status.code(), Some(code));
        assert_eq!(sorted(&output), ["[0] caught", "[1] caught"]);
    }
    let script = "trap 'echo used; exit 0' USR1; echo ready; while :; do sleep 0.05; done";
    let mut child = launch(1, &[], script).spawn().unwrap();
    lines(&mut child, 1);
    send(&child, Signal::USR1);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(sorted(&output), ["[0] used"]);
}

#[test]
fn a_second_signal_kills() {
    let script = "trap '' INT; echo $$; while :; do sleep 0.05; done";
    let mut child = launch(1, &["--grace", "100"], script).spawn().unwrap();
    let rank: i32 = lines(&mut child, 1)[0]
        .strip_prefix("[0] ")
        .unwrap()
        .parse()
        .unwrap();
    send(&child, Signal::INT);
    // One that comes at once would be the same.
    std::thread::sleep(Duration::from_millis(400));
    send(&child, Signal::INT);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    assert!(!lives(rank));
}

#[test]
fn ranks_do_not_outlive_a_launcher_that_is_killed() {
    let mut child = launch(2, &[], "echo $$; exec sleep 1000").spawn().unwrap();
    let ranks: Vec<i32> = lines(&mut child, 2)
        .iter()
        .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
        .collect();
    send(&child, Signal::KILL);
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    soon("the ranks are gone", || {
        ranks.iter().all(|rank| !lives(*rank))
    });
}

#[test]
fn output_goes_to_a_file_of_each_rank() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("logs");
    let script = "echo out $BURN_DIST_RANK; printf 'err without end' >&2";
    let output = launch(2, &["--output-dir", path.to_str().unwrap()], script)
        .output()
        .unwrap();
    assert!(output.status.success());
    assert!(output.stdout.is_empty());
    for rank in 0..2 {
        let log = std::fs::read_to_string(path.join(format!("rank-{rank}.log"))).unwrap();
        assert!(
            log.contains(&format!("out {rank}\n")) && log.contains("err without end\n"),
            "{log}"
        );
    }
}

#[test]
fn lines_of_any_length_and_content_come_whole() {
    // 200,000 bytes without an end, bytes that are no text, and a progress bar.
    let script =
        "head -c 200000 /dev/zero | tr '\\0' x; echo; printf '\\377\\n'; printf '1%%\\r2%%\\r'";
    let output = launch(1, &[], script).output().unwrap();
    assert!(output.status.success());
    let lines: Vec<&[u8]> = output.stdout.split(|byte| *byte == b'\n').collect();
    let long: usize = lines
        .iter()
        .map(|line| line.iter().filter(|byte| **byte == b'x').count())
        .sum();
    assert_eq!(long, 200_000);
    assert!(lines.contains(&&b"[0] \xff"[..]));
    assert!(lines.contains(&&b"[0] 1%"[..]) && lines.contains(&&b"[0] 2%"[..]));
}

#[test]
fn what_cannot_be_started_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    std::fs::write(&plain, "no program").unwrap();
    for (program, code) in [("no-such-program", 127), (plain.to_str().unwrap(), 126)] {
        let output = burn_dist()
            .args(["launch", "-n", "2", "--", program])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(code));
        let error = text(&output.stderr);
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(error.contains(program), "{error}");
    }
    let output = burn_dist()
        .args(["launch", "-n", "0", "--", "true"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--ranks"));
}

/// A command that does what ssh does, on this host, and writes down the command that it was given.
fn fake_ssh(folder: &Path) -> String {
    let path = folder.join("ssh");
    let log = folder.join("log").display().to_string();
    let script = format!("#!/bin/sh\necho \"$*\" >> {log}\nshift\nexec sh -c \"$*\"\n");
    std::fs::write(&path, script).unwrap();
    let mut mode = std::fs::metadata(&path).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    std::fs::set_permissions(&path, mode).unwrap();
    path.display().to_string()
}

#[test]
fn hosts_are_reached_by_ssh_and_the_token_is_on_no_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let ssh = fake_ssh(folder.path());
    let script = "echo $BURN_DIST_RANK/$BURN_DIST_WORLD_SIZE $BURN_DIST_LOCAL_RANK/$BURN_DIST_LOCAL_WORLD_SIZE ${BURN_DIST_RDZV%:*} $BURN_DIST_TOKEN \"$1\"";
    let output = burn_dist()
        .args(["launch", "--hosts", "a:1,b:2", "--ssh", &ssh, "--"])
        .args(["sh", "-c", script, "x", "it's a 'word'"])
        .env("BURN_DIST_TOKEN", "secret-of-the-job")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let places = ["0/3 0/1", "1/3 0/2", "2/3 1/2"];
    for (rank, line) in sorted(&output).iter().enumerate() {
        let place = places[rank];
        assert_eq!(
            *line,
            format!("[{rank}] {place} tcp://a secret-of-the-job it's a 'word'")
        );
    }
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(log.contains("a cd") && !log.contains("secret"), "{log}");
}

#[test]
fn a_failure_on_another_host_ends_all_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let ssh = fake_ssh(folder.path());
    let script = "[ $BURN_DIST_RANK = 2 ] && { echo lost >&2; exit 4; }; sleep 1000";
    let output = burn_dist()
        .args([
            "launch", "--hosts", "a:1,b:2", "--ssh", &ssh, "--", "sh", "-c", script,
        ])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(4));
    let error = text(&output.stderr);
    assert!(
        error.ends_with("rank 2 on b was the first to fail: exit code 4\n"),
        "{error}"
    );
    assert!(error.contains("    lost\n"), "{error}");
}

#[test]
fn ranks_of_a_host_end_with_their_connection() {
    let folder = tempfile::tempdir().unwrap();
    let ssh = fake_ssh(folder.path());
    let mut child = burn_dist()
        .args(["launch", "--hosts", "a:1,b:1", "--ssh", &ssh, "--"])
        .args(["sh", "-c", "echo $$; exec sleep 1000"])
        .spawn()
        .unwrap();
    let ranks: Vec<i32> = lines(&mut child, 2)
        .iter()
        .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
        .collect();
    send(&child, Signal::KILL);
    child.wait().unwrap();
    soon("the ranks are gone", || {
        ranks.iter().all(|rank| !lives(*rank))
    });
}
