//! What signals to the launcher do.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use burn_dist_core::launch::Launch;
use rustix::process::{Pid, Signal, getpid, kill_process};
use signal_hook::consts::{SIGUSR1, SIGUSR2};

use crate::job::{Guarded, Job, in_own_process, script, until};

/// Says each signal that comes, and ends a second after the first that asks to end.
const LISTENER: &str = r#"for s in HUP INT TERM; do trap "echo $s; end=1" $s; done
    for s in USR1 USR2; do trap "echo $s" $s; done
    echo ready; i=0
    while [ $i -lt 10 ]; do sleep 0.1; [ -z "$end" ] || i=$((i + 1)); done"#;

/// A shell cannot trap what it was started to ignore.
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    u64::from_str_radix(ignored.unwrap().trim(), 16).unwrap() & 1 == 1
}

#[test]
fn a_request_to_end_reaches_each_rank_once_and_gives_the_exit_code() {
    for (signal, name, code) in [
        (Signal::INT, "INT", 130),
        (Signal::TERM, "TERM", 143),
        (Signal::HUP, "HUP", 129),
    ] {
        if signal == Signal::HUP && hangup_is_ignored() {
            eprintln!(
                "skipped: SIGHUP, which this process and so its shells ignore, as under nohup"
            );
            continue;
        }
        let job = Job::start(&mut script(2, &[], LISTENER));
        job.wait_for("ready", 2);
        job.send(signal);
        // As `timeout` does; it is no second request.
        job.send(signal);
        let ended = job.wait();
        assert_eq!(ended.code, code, "{}", ended.error);
        let [zero, one] = [0, 1].map(|rank| format!("[{rank}] {name}"));
        assert_eq!(
            ended.lines(),
            [zero.as_str(), "[0] ready", &one, "[1] ready"]
        );
        let expected = format!("burn-dist: SIG{name} is passed on to all ranks; once more");
        assert!(ended.error.contains(&expected), "{}", ended.error);
    }
}

#[test]
fn a_request_to_end_is_heard_while_ranks_are_started() {
    let ranks = 1_000;
    let job = Job::start(&mut script(ranks, &[], "echo ready; exec sleep 60"));
    job.wait_for("ready", 1);
    job.send(Signal::TERM);
    let ended = job.wait();
    assert_eq!(ended.code, 143, "{}", ended.error);
    assert!(ended.lines().len() < ranks, "all were started first");
}

/// The terminal sends it to the group of the launcher, in which no rank is. Nor can a rank read from the
/// terminal, for which the terminal would stop it.
#[test]
fn ctrl_c_at_a_terminal_reaches_each_rank_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let launcher = env!("CARGO_BIN_EXE_burn-dist");
    let listener = format!("read line < /dev/tty || echo alone; {LISTENER}");
    let listener = shlex::try_quote(&listener).unwrap();
    let mut terminal = Command::new("script");
    terminal
        .args(["--quiet", "--return", "--command"])
        .arg(format!("exec {launcher} launch -n 2 -- sh -c {listener}"))
        .arg("/dev/null")
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(std::fs::File::create(file("screen")).unwrap());
    let mut terminal = Guarded(terminal.spawn().unwrap());
    let screen = || std::fs::read_to_string(file("screen")).unwrap();
    until("both are ready", || screen().matches("ready").count() == 2);
    let mut keyboard = terminal.0.stdin.take().unwrap();
    keyboard.write_all(b"\x03").unwrap();
    until("the launcher has ended", || {
        terminal.0.try_wait().unwrap().is_some()
    });
    assert_eq!(terminal.0.wait().unwrap().code(), Some(130));
    let screen = screen();
    for line in ["[0] INT", "[1] INT", "[0] alone", "[1] alone"] {
        assert_eq!(screen.matches(line).count(), 1, "{screen}");
    }
}

#[test]
fn other_signals_are_passed_on_and_end_nothing() {
    let job = Job::start(&mut script(2, &[], LISTENER));
    job.wait_for("ready", 2);
    job.send(Signal::USR1);
    job.wait_for("USR1", 2);
    job.send(Signal::USR2);
    job.wait_for("USR2", 2);
    job.send(Signal::TERM);
    assert_eq!(job.wait().code, 143);
}

#[test]
fn a_second_request_kills_at_once() {
    let text = "trap '' INT TERM; echo ready; while :; do sleep 0.1; done";
    let job = Job::start(&mut script(2, &["--grace", "1000"], text));
    job.wait_for("ready", 2);
    job.send(Signal::TERM);
    std::thread::sleep(Duration::from_millis(500));
    job.send(Signal::INT);
    let ended = job.wait();
    assert_eq!(ended.code, 143);
    ended.assert_last_line("burn-dist: SIGINT once more: all ranks are killed");
}

/// A shell has what it starts by `&` ignore Ctrl-C, which it would wait for to no end.
#[test]
fn what_ignores_ctrl_c_ends_with_its_rank() {
    let text = "sleep 1000 & echo ready; wait";
    let job = Job::start(&mut script(2, &["--grace", "1000"], text));
    job.wait_for("ready", 2);
    job.send(Signal::INT);
    assert_eq!(job.wait().code, 130);
}

/// The shell ends by SIGINT at once; what it has started saves first, and no SIGTERM comes in between.
#[test]
fn descendants_may_save_on_ctrl_c() {
    let text = "sh -c 'trap \"sleep 1; echo saved > saved; exit\" INT; echo ready
            while :; do sleep 0.1; done'; true";
    let job = Job::start(&mut script(1, &[], text));
    job.wait_for("ready", 1);
    job.send(Signal::INT);
    let ended = job.wait();
    assert_eq!(ended.code, 130);
    assert_eq!(ended.read("saved"), "saved\n");
}

#[test]
fn the_grace_runs_from_the_signal() {
    let text = "trap '' TERM; echo ready; while :; do sleep 0.1; done";
    let job = Job::start(&mut script(1, &["--grace", "0.3"], text));
    job.wait_for("ready", 1);
    job.send(Signal::TERM);
    assert_eq!(job.wait().code, 143);
}

#[test]
fn a_failure_after_the_signal_does_not_count() {
    let text = "trap 'exit 5' TERM; echo ready; while :; do sleep 0.1; done";
    let job = Job::start(&mut script(2, &[], text));
    job.wait_for("ready", 2);
    job.send(Signal::TERM);
    let ended = job.wait();
    assert_eq!(ended.code, 143);
    assert!(!ended.error.contains("fail"), "{}", ended.error);
}

/// `nohup` has it ignored, by the launcher and by its ranks.
#[test]
fn a_terminal_that_closes_does_not_end_what_ignores_it() {
    let mut command = Command::new("nohup");
    let launch = script(
        1,
        &[],
        "echo ready; while [ ! -s go ]; do sleep 0.1; done; echo done",
    );
    command.arg(launch.get_program()).args(launch.get_args());
    let job = Job::start(&mut command);
    job.wait_for("ready", 1);
    job.send(Signal::HUP);
    std::fs::write(job.folder().join("go"), "go").unwrap();
    let ended = job.wait();
    assert_eq!(
        (ended.code, ended.output.as_str()),
        (0, "[0] ready\n[0] done\n")
    );
}

/// Output that nobody reads must not hold up a launcher that was asked to end.
#[test]
fn a_reader_that_waits_does_not_hold_up_the_end() {
    let mut command = script(
        1,
        &[],
        "head -c 1000000 /dev/zero | tr '\\0' '\\n'; echo 1 > written",
    );
    let folder = tempfile::tempdir().unwrap();
    command.current_dir(folder.path());
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = Guarded(command.spawn().unwrap());
    std::thread::sleep(Duration::from_millis(500));
    let id = Pid::from_child(&child.0);
    for _ in 0..2 {
        kill_process(id, Signal::TERM).unwrap();
        std::thread::sleep(Duration::from_millis(500));
    }
    until("the launcher has ended", || {
        child.0.try_wait().unwrap().is_some()
    });
    assert_eq!(child.0.wait().unwrap().code(), Some(143));
}

#[test]
fn afterwards_signals_do_what_they_did_before() {
    let name = "signals::afterwards_signals_do_what_they_did_before";
    if let Some(status) = in_own_process(name) {
        assert_eq!(status.signal(), Some(SIGUSR1), "{status}");
        return;
    }
    let caught = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGUSR2, caught.clone()).unwrap();
    for _ in 0..2 {
        let outcome = Launch::new("true", [""; 0]).ranks(2).run().unwrap();
        assert_eq!(outcome.exit_code(), 0);
    }
    kill_process(getpid(), Signal::USR2).unwrap();
    until("the signal has come", || caught.load(Ordering::SeqCst));
    // It ends a process that does not catch it.
    kill_process(getpid(), Signal::USR1).unwrap();
    until("this process has ended", || false);
}
