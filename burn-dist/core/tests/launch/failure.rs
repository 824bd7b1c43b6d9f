//! How a launch ends when a rank fails, or cannot start.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use burn_dist_core::launch::Launch;
use rustix::process::{Signal, getpid, set_child_subreaper};

use crate::job::{Job, in_own_process, is_running, launch, run, script, until};

#[test]
fn the_first_failure_is_last_on_the_screen_and_gives_the_exit_code() {
    let text = "trap 'echo ended; echo late >&2; exit 9' TERM
        if [ $BURN_DIST_RANK = 1 ]; then sleep 0.5; seq 20 >&2; echo the cause >&2; exit 3; fi
        while :; do sleep 0.1; done";
    let ended = run(&mut script(3, &[], text));
    assert_eq!(ended.code, 3, "{}", ended.error);
    assert_eq!(ended.lines(), ["[0] ended", "[2] ended"]);
    let lines: Vec<String> = (12..=20).map(|n| format!("    {n}\n")).collect();
    let report = format!(
        "burn-dist: last on standard error of rank 1:\n{}    the cause\n\
         burn-dist: rank 1 was the first to fail: exit code 3\n",
        lines.concat()
    );
    assert!(ended.error.ends_with(&report), "{}", ended.error);
}

#[test]
fn the_message_of_a_panic_is_shown_however_long_its_back_trace() {
    let text = "[ $BURN_DIST_RANK = 1 ] || exec sleep 1000
        echo 'the message' >&2; echo 'stack backtrace:' >&2
        for n in $(seq 0 30); do echo \"  $n: frame\" >&2; echo '      at ./main.rs:3:5' >&2; done; exit 101";
    let ended = run(&mut script(2, &[], text));
    assert_eq!(ended.code, 101);
    let report = "burn-dist: last on standard error of rank 1:\n    the message\n\
         burn-dist: rank 1 was the first to fail: exit code 101\n";
    assert!(ended.error.ends_with(report), "{}", ended.error);
    assert!(ended.error.contains("[1]   30: frame"), "{}", ended.error);
}

#[test]
fn a_rank_that_ends_long_before_the_others_is_named() {
    let text = "[ $BURN_DIST_RANK = 1 ] || sleep 12";
    let ended = run(&mut script(2, &[], text));
    assert_eq!(ended.code, 0, "{}", ended.error);
    assert_eq!(
        ended.error,
        "burn-dist: rank 1 ended with exit code 0 a while ago, and others go on; should they wait for it, Ctrl-C ends them\n"
    );
}

#[test]
fn more_ranks_than_a_job_may_have_are_refused() {
    let error = Launch::new("true", [""; 0])
        .ranks(70_000)
        .run()
        .unwrap_err();
    assert!(
        error.to_string().starts_with("70000 ranks are more than"),
        "{error}"
    );
}

#[test]
fn a_signal_is_named_and_gives_its_exit_code() {
    for (signal, code, name) in [("KILL", 137, "SIGKILL"), ("SEGV", 139, "SIGSEGV")] {
        let text = format!("[ $BURN_DIST_RANK = 0 ] || kill -{signal} $$; exec sleep 1000");
        let ended = run(&mut script(2, &[], &text));
        assert_eq!(ended.code, code);
        ended.assert_last_line(&format!(
            "burn-dist: rank 1 was the first to fail: killed by {name}"
        ));
    }
}

#[test]
fn a_rank_that_succeeds_early_ends_nobody() {
    let text = "[ $BURN_DIST_RANK = 0 ] || { sleep 0.5; echo done; }";
    let ended = run(&mut script(2, &[], text));
    assert_eq!((ended.code, ended.output.as_str()), (0, "[1] done\n"));
    assert_eq!(ended.error, "");
}

#[test]
fn who_ignores_sigterm_is_killed_after_the_grace() {
    let text = "[ $BURN_DIST_RANK = 0 ] || { while [ ! -s ready ]; do sleep 0.1; done; exit 4; }
        trap '' TERM; echo $$ > ready; while :; do sleep 0.1; done";
    let start = Instant::now();
    let ended = run(&mut script(2, &["--grace", "0.5"], text));
    assert!(start.elapsed() >= Duration::from_millis(500));
    assert_eq!(ended.code, 4);
    assert!(!is_running(ended.read("ready").trim()));
    let expected = "burn-dist: rank 0 has not ended in time: killing what is left\n";
    assert!(ended.error.contains(expected), "{}", ended.error);
}

/// In each rank a shell that starts another which ignores SIGTERM, or has closed its output.
#[test]
fn nothing_that_ranks_have_started_is_left() {
    for code in [0, 5] {
        let text = format!(
            "(trap '' TERM; sh -c 'echo $$ > stubborn-'$BURN_DIST_RANK'; while :; do sleep 0.1; done') &
            sh -c 'echo $$ > silent-'$BURN_DIST_RANK'; exec sleep 1000' > /dev/null 2>&1 &
            while [ ! -s stubborn-1 ] || [ ! -s silent-1 ] || [ ! -s stubborn-0 ] || [ ! -s silent-0 ]
            do sleep 0.1; done; exit {code}"
        );
        let ended = run(&mut script(2, &["--grace", "0.5"], &text));
        assert_eq!(ended.code, code, "{}", ended.error);
        for name in ["stubborn-0", "stubborn-1", "silent-0", "silent-1"] {
            assert!(!is_running(ended.read(name).trim()), "{name}");
        }
    }
}

/// The shell ends by SIGTERM at once; what it has started saves first, and is let do so.
#[test]
fn descendants_have_the_grace_too() {
    let text = "[ $BURN_DIST_RANK = 0 ] || { while [ ! -s ready ]; do sleep 0.1; done; exit 6; }
        sh -c 'trap \"sleep 1; echo saved > saved; exit\" TERM; echo 1 > ready
            while :; do sleep 0.1; done' > /dev/null 2>&1; true";
    let ended = run(&mut script(2, &[], text));
    assert_eq!(ended.code, 6);
    assert_eq!(ended.read("saved"), "saved\n");
}

/// Their parent is one that never takes note of their end, as in many containers.
#[test]
fn orphans_that_have_ended_do_not_hold_up_the_end() {
    let name = "failure::orphans_that_have_ended_do_not_hold_up_the_end";
    if let Some(status) = in_own_process(name) {
        assert!(status.success());
        return;
    }
    set_child_subreaper(Some(getpid())).unwrap();
    let ended = run(&mut script(1, &["--grace", "1000"], "sleep 1000 & exit 3"));
    assert_eq!(ended.code, 3);
}

#[test]
fn a_program_that_cannot_be_started_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    fs::write(&data, "no program").unwrap();
    fs::set_permissions(&data, fs::Permissions::from_mode(0o644)).unwrap();
    let data = data.to_str().unwrap();
    for (program, code, part) in [
        (
            "no-such-program",
            127,
            "cannot start no-such-program: No such file",
        ),
        ("./none", 127, "cannot start ./none: No such file"),
        (
            data,
            126,
            "Permission denied (os error 13): it must be a file",
        ),
        ("/", 126, "cannot start /: Permission denied"),
    ] {
        let ended = run(&mut launch(["-n", "2", "--", program]));
        assert_eq!(ended.code, code);
        let one = ended.error.lines().count() == 1;
        assert!(one && ended.error.contains(part), "{}", ended.error);
    }
}

#[test]
fn wrong_options_are_named_in_one_line() {
    for (options, part) in [
        ("-n 0 -- true", "invalid value '0' for '--ranks <N>'"),
        ("-n x -- true", "invalid value 'x' for '--ranks <N>'"),
        ("-n 2", "<PROGRAM>"),
        ("-- true", "--ranks <N>"),
        ("-n 1 --port 0 -- true", "'--port <PORT>'"),
        (
            "-n 1 --grace=-1 -- true",
            "'--grace <SECONDS>': expected seconds",
        ),
        (
            "-n 1 --grace=nan -- true",
            "'--grace <SECONDS>': expected seconds",
        ),
        (
            "-n 1 --env X -- true",
            "'--env <NAME=VALUE>': expected NAME=VALUE",
        ),
        (
            "-n 1 --env BURN_DIST_RANK=7 -- true",
            "BURN_DIST_RANK cannot be given by --env, since it is the launcher",
        ),
        (
            "-n 1 --env BURN_DIST_RDZV=file:///x -- true",
            "BURN_DIST_RDZV cannot be given by --env",
        ),
        (
            "-n 2 ./train --epochs 4",
            "'./train' found: put -- before the program",
        ),
        (
            "-n 2 --epochs 4 ./train",
            "'--epochs' found: put -- before the program",
        ),
        ("-n 2 --epochs 4 -- ./train", "'--epochs' found (--help"),
        (
            "--hosts a:0 -- true",
            "'--hosts <HOST:N,...>': \"a:0\" is no host",
        ),
        ("--hosts a -n 1 -- true", "cannot be used with"),
        ("--hostfile /none -- true", "cannot read /none"),
    ] {
        let ended = run(&mut launch(options.split(' ')));
        assert_eq!(ended.code, 2, "{options}");
        let one = ended.error.lines().count() == 1;
        assert!(
            one && ended.error.contains(part),
            "{options}: {}",
            ended.error
        );
    }
}

/// The first of them has failed already, and must not be taken for one that runs.
#[test]
fn many_ranks_that_fail_at_once_are_one_failure() {
    let ended = run(&mut script(16, &[], "exit 7"));
    assert_eq!(ended.code, 7);
    assert_eq!(ended.error.matches("was the first to fail").count(), 1);
}

#[test]
fn a_rank_that_had_left_is_named_when_another_fails() {
    let text = "[ $BURN_DIST_RANK = 1 ] || exit 0; sleep 0.5; exit 3";
    let ended = run(&mut script(2, &[], text));
    assert_eq!(ended.code, 3);
    let expected = "burn-dist: rank 0 had ended before, with exit code 0: if others still waited there, that is the \
        cause\nburn-dist: rank 1 was the first to fail: exit code 3\n";
    assert!(ended.error.ends_with(expected), "{}", ended.error);
}

/// They are no children of the launcher, and Linux does not end them with it.
#[test]
fn the_launcher_killed_takes_what_ranks_have_started_with_it() {
    let text = "sleep 1000 & echo $! > child-$BURN_DIST_RANK
        sh -c 'trap \"\" TERM HUP; echo $$ > stubborn-'$BURN_DIST_RANK'; while :; do sleep 0.1; done'";
    let job = Job::start(&mut script(2, &[], text));
    let names = ["child-0", "child-1", "stubborn-0", "stubborn-1"];
    let children = names.map(|name| job.file(name));
    assert!(children.iter().all(|id| is_running(id)));
    job.send(Signal::KILL);
    until("what ranks have started is gone", || {
        !children.iter().any(|id| is_running(id))
    });
    assert_eq!(job.wait().code, 128 + 9);
}

#[test]
fn the_launcher_killed_takes_the_ranks_with_it() {
    let text = "echo $$ > rank-$BURN_DIST_RANK; exec sleep 1000";
    let job = Job::start(&mut script(2, &[], text));
    let ranks = [job.file("rank-0"), job.file("rank-1")];
    assert!(ranks.iter().all(|id| is_running(id)));
    job.send(Signal::KILL);
    until("the ranks are gone", || {
        !ranks.iter().any(|id| is_running(id))
    });
    assert_eq!(job.wait().code, 128 + 9);
}
