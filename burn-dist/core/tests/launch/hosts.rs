//! Ranks on several hosts, with a script in place of ssh that runs all on this one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::job::{Job, is_running, launch, until};

/// As ssh, but for the host; with its arguments in a file.
const SSH: &str = r#"printf '%s\n' "$@" >> arguments; shift; exec sh -c "$*""#;

/// As ssh to a host: what runs there outlives it.
const FAR: &str = r#"shift; exec 3<&0; setsid sh -c "$*" <&3 3<&- & exec 3<&-; wait $!"#;

/// `options` for hosts with `ssh`, which is called as a script.
fn on_hosts(ssh: &str, options: &[&str], text: &str) -> (Command, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("my ssh");
    fs::write(&path, format!("#!/bin/sh\n{ssh}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = launch(options);
    command.env("BURN_DIST_SSH", format!("'{}'", path.display()));
    command.args(["--", "sh", "-c", text]);
    (command, folder)
}

fn start(ssh: &str, options: &[&str], text: &str) -> Job {
    let (mut command, folder) = on_hosts(ssh, options, text);
    Job::start_in(&mut command, folder)
}

#[test]
fn ranks_on_two_hosts_find_out_who_they_are() {
    let text = "echo $BURN_DIST_RANK of $BURN_DIST_WORLD_SIZE, $BURN_DIST_LOCAL_RANK of \
        $BURN_DIST_LOCAL_WORLD_SIZE, ${BURN_DIST_RDZV%:*}, $GIVEN, $BURN_DIST_IFNAME, $RANK; pwd";
    let options = ["--hosts", "me@a:2,b:1", "--env", "GIVEN=x 'y'\nz"];
    let (mut command, folder) = on_hosts(SSH, &options, text);
    command.env("BURN_DIST_IFNAME", "^lo").env("RANK", "9");
    let here = folder.path().to_str().unwrap().to_string();
    let ended = Job::start_in(&mut command, folder).wait();
    assert_eq!((ended.code, ended.error.as_str()), (0, ""));
    let mut expected = Vec::new();
    for (rank, local) in ["0 of 2", "1 of 2", "0 of 1"].iter().enumerate() {
        let line = format!("[{rank}] {rank} of 3, {local}, tcp://a, x 'y' z, ^lo,");
        expected.extend([line, format!("[{rank}] {here}")]);
    }
    expected.sort_unstable();
    assert_eq!(ended.lines(), expected);
}

#[test]
fn the_token_is_on_no_command_line() {
    let text =
        r#"echo "$BURN_DIST_TOKEN" > token-$BURN_DIST_RANK; while [ ! -e go ]; do sleep 0.1; done"#;
    let job = start(SSH, &["--hosts", "a,b"], text);
    let tokens = [job.file("token-0"), job.file("token-1")];
    assert_eq!(tokens[0], tokens[1]);
    assert_eq!(tokens[0].len(), 64);
    let arguments = job.file("arguments");
    assert!(arguments.contains("burn-dist") && !arguments.contains(&tokens[0]));
    for process in fs::read_dir("/proc").unwrap() {
        // It may have ended.
        let line = fs::read(process.unwrap().path().join("cmdline")).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&line).contains(&tokens[0]));
    }
    fs::write(job.folder().join("go"), "").unwrap();
    assert_eq!(job.wait().code, 0);
}

#[test]
fn arguments_arrive_as_they_are() {
    let (mut command, folder) = on_hosts(SSH, &["--hosts", "a"], "printf '<%s>' \"$@\"; echo");
    command.args(["it's", "a b", "$HOME", "*", "", "x\ny", "\\", "-n"]);
    let ended = Job::start_in(&mut command, folder).wait();
    // The first is the name of the script.
    let expected = "[0] <a b><$HOME><*><><x\n[0] y><\\><-n>\n";
    assert_eq!((ended.code, ended.output.as_str()), (0, expected));
}

#[test]
fn files_and_hosts_of_a_file() {
    let text = "echo out $BURN_DIST_RANK; echo err >&2";
    let (mut command, folder) =
        on_hosts(SSH, &["--hostfile", "hosts", "--output-dir", "logs"], text);
    fs::write(folder.path().join("hosts"), "a slots=1\nb:2\n").unwrap();
    let ended = Job::start_in(&mut command, folder).wait();
    assert_eq!(
        (ended.code, ended.output.as_str()),
        (0, ""),
        "{}",
        ended.error
    );
    for rank in 0..3 {
        let text = ended.read(&format!("logs/rank-{rank}.log"));
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["err", format!("out {rank}").as_str()]);
    }
}

/// The rank beside it does not end before the grace, the others fail in consequence: none of them is blamed.
#[test]
fn the_first_failure_is_named_though_its_host_ends_last() {
    let text = "trap 'exit 9' TERM; [ $BURN_DIST_RANK != 2 ] || trap '' TERM
        if [ $BURN_DIST_RANK = 3 ]
        then while [ ! -e ready ]; do sleep 0.1; done; echo the cause >&2; exit 3; fi
        [ $BURN_DIST_RANK != 2 ] || echo > ready
        while :; do sleep 0.1; done";
    let ended = start(SSH, &["--hosts", "a:2,b:2", "--grace", "1"], text).wait();
    assert_eq!(ended.code, 3, "{}", ended.error);
    let report = "burn-dist: last on standard error of rank 3 on b:\n    the cause\n\
        burn-dist: rank 3 on b was the first to fail: exit code 3\n";
    assert!(ended.error.ends_with(report), "{}", ended.error);
    assert!(!ended.error.contains("the connection"), "{}", ended.error);
}

#[test]
fn a_connection_that_fails_is_named_with_what_ssh_says() {
    let ssh = r#"[ "$1" != b ] || { echo 'Permission denied (publickey).' >&2; exit 255; }
        shift; exec sh -c "$*""#;
    let ended = start(ssh, &["--hosts", "a,b"], "exec sleep 1000").wait();
    assert_eq!(ended.code, 255, "{}", ended.error);
    assert!(ended.error.contains("[b] Permission denied (publickey).\n"));
    let report = "burn-dist: last on standard error of the connection to b:\n    \
        Permission denied (publickey).\n\
        burn-dist: the connection to b was the first to fail: exit code 255 (of ssh: look whether `ssh b true` works, \
        and at the host in --hosts or --hostfile)\n";
    assert!(ended.error.ends_with(report), "{}", ended.error);
}

#[test]
fn a_rank_that_had_left_on_another_host_is_named() {
    let text = "[ $BURN_DIST_RANK = 1 ] || exit 0; sleep 0.5; exit 3";
    let ended = start(SSH, &["--hosts", "a,b"], text).wait();
    assert_eq!(ended.code, 3, "{}", ended.error);
    let expected = "burn-dist: rank 0 had ended before, with exit code 0: ";
    assert!(ended.error.contains(expected), "{}", ended.error);
    let ended = start(SSH, &["--hosts", "a,b"], "exit 0").wait();
    assert_eq!((ended.code, ended.error.as_str()), (0, ""));
}

#[test]
fn a_missing_ssh_is_named_with_the_option_that_needs_it() {
    let mut command = launch(["--hosts", "a", "--ssh", "/none/ssh -x", "--", "true"]);
    let ended = Job::start(&mut command).wait();
    assert_eq!(ended.code, 1);
    let expected = "burn-dist: cannot start /none/ssh for --hosts: No such file";
    let one = ended.error.lines().count() == 1;
    assert!(one && ended.error.starts_with(expected), "{}", ended.error);
}

#[test]
fn a_program_that_a_host_does_not_have_is_named() {
    let (mut command, folder) = on_hosts(SSH, &["--hosts", "a", "--node", "/none"], "true");
    let ended = Job::start_in(&mut command, folder).wait();
    assert_eq!(ended.code, 127);
    assert!(ended.error.contains("/none"), "{}", ended.error);
    let (command, folder) = on_hosts(SSH, &["--hosts", "a", "--", "no-such-program"], "true");
    let mut command = command;
    let ended = Job::start_in(&mut command, folder).wait();
    assert_eq!(ended.code, 127);
    assert!(
        ended
            .error
            .contains("cannot start no-such-program: No such file")
    );
}

#[test]
fn signals_reach_each_rank_of_each_host_once() {
    let text = r#"trap 'echo USR1' USR1; trap 'echo INT; end=1' INT; echo ready; i=0
        while [ $i -lt 10 ]; do sleep 0.1; [ -z "$end" ] || i=$((i + 1)); done"#;
    let job = start(FAR, &["--hosts", "a:1,b:2"], text);
    job.wait_for("ready", 3);
    job.send(Signal::USR1);
    job.wait_for("USR1", 3);
    job.send(Signal::INT);
    let ended = job.wait();
    assert_eq!(ended.code, 130, "{}", ended.error);
    for rank in 0..3 {
        for signal in ["USR1", "INT"] {
            let line = format!("[{rank}] {signal}");
            assert_eq!(ended.output.matches(&line).count(), 1, "{}", ended.output);
        }
    }
}

#[test]
fn who_ignores_sigterm_on_a_host_is_killed() {
    let text = "trap '' TERM; echo $$ > rank-$BURN_DIST_RANK; while :; do sleep 0.1; done";
    let job = start(FAR, &["--hosts", "a,b", "--grace", "0.5"], text);
    let ranks = [job.file("rank-0"), job.file("rank-1")];
    job.send(Signal::TERM);
    assert_eq!(job.wait().code, 143);
    assert!(!ranks.iter().any(|id| is_running(id)));
}

/// As the launcher here; what a rank has started does not know of it.
#[test]
fn a_node_that_is_killed_takes_what_ranks_have_started_with_it() {
    let text = "sleep 1000 & echo $! > child; wait";
    let ssh = r#"shift; echo $$ > node; exec sh -c "$*""#;
    let job = start(ssh, &["--hosts", "a"], text);
    let [child, node] = ["child", "node"].map(|name| job.file(name));
    assert!(is_running(&child) && is_running(&node));
    let node = Pid::from_raw(node.parse().unwrap()).unwrap();
    kill_process(node, Signal::KILL).unwrap();
    until("the child is gone", || !is_running(&child));
    assert_eq!(job.wait().code, 128 + 9);
}

/// Nothing is left on a host when the launcher is killed, be it that ranks ignore SIGTERM.
#[test]
fn a_connection_that_is_cut_ends_the_ranks() {
    let text = "trap '' TERM; echo $$ > rank-$BURN_DIST_RANK; while :; do sleep 0.1; done";
    let job = start(FAR, &["--hosts", "a,b", "--grace", "0.5"], text);
    let ranks = [job.file("rank-0"), job.file("rank-1")];
    assert!(ranks.iter().all(|id| is_running(id)));
    job.send(Signal::KILL);
    until("the ranks are gone", || {
        !ranks.iter().any(|id| is_running(id))
    });
    assert_eq!(job.wait().code, 128 + 9);
}

#[test]
fn a_node_without_a_launcher_says_so() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_burn-dist"));
    command.args("node --first-rank=0 --ranks=1 --world-size=1 --grace=1 -- true".split(' '));
    let ended = Job::start(&mut command).wait();
    assert_eq!(ended.code, 1);
    let expected = "burn-dist: standard input says nothing of a job";
    assert!(ended.error.starts_with(expected), "{}", ended.error);
}
