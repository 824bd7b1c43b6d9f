//! Where the output of ranks goes, and what it looks like there.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use crate::job::{Job, launch, run, script};

#[test]
fn each_line_stands_behind_its_rank_on_its_stream() {
    let text = "echo out; echo err >&2; echo; printf 'no end'";
    let ended = run(&mut script(2, &[], text));
    assert_eq!(
        ended.lines(),
        [
            "[0] ",
            "[0] no end",
            "[0] out",
            "[1] ",
            "[1] no end",
            "[1] out"
        ]
    );
    let mut error: Vec<&str> = ended.error.lines().collect();
    error.sort_unstable();
    assert_eq!(error, ["[0] err", "[1] err"]);
    assert!(ended.output.ends_with('\n'));
}

#[test]
fn each_state_of_a_progress_bar_is_a_line() {
    let ended = run(&mut script(
        1,
        &[],
        r"printf '\r 10%%\r 50%%\r100%%\nwindows\r\n'",
    ));
    assert_eq!(ended.output, "[0]  10%\n[0]  50%\n[0] 100%\n[0] windows\n");
}

#[test]
fn files_hold_both_streams_of_a_rank_as_they_were() {
    let text = r#"printf 'out %s\r\n' $BURN_DIST_RANK; printf ' 1%%\r' >&2; sleep 0.2; printf end"#;
    let ended = run(&mut script(2, &["--output-dir", "a/b"], text));
    assert_eq!((ended.code, ended.output.as_str()), (0, ""));
    for rank in 0..2 {
        let text = ended.read(&format!("a/b/rank-{rank}.log"));
        let mut lines: Vec<&str> = text.split_inclusive(['\r', '\n']).collect();
        lines.sort_unstable();
        // Which stream is read first is open.
        assert_eq!(text.replace(" 1%\r", ""), format!("out {rank}\r\nend\n"));
        assert!(lines.contains(&" 1%\r"), "{text:?}");
    }
}

/// Longer than a pipe writes at once, of two ranks and on both streams of one file.
#[test]
fn lines_are_not_mixed() {
    let text = r#"line=$(head -c 20000 /dev/zero | tr '\0' $BURN_DIST_RANK)
        i=0; while [ $i -lt 50 ]; do echo $line; echo $line >&2; i=$((i + 1)); done"#;
    let folder = tempfile::tempdir().unwrap();
    let both = folder.path().join("both");
    let file = fs::File::options()
        .create(true)
        .append(true)
        .open(&both)
        .unwrap();
    let mut command = script(2, &[], text);
    command.stdout(file.try_clone().unwrap()).stderr(file);
    assert!(command.status().unwrap().success());
    let found = fs::read_to_string(&both).unwrap();
    let mut counts = [0; 2];
    for line in found.lines() {
        let rank: usize = line[1..2].parse().unwrap();
        assert_eq!(
            line,
            format!("[{rank}] {}", rank.to_string().repeat(20_000))
        );
        counts[rank] += 1;
    }
    assert_eq!(counts, [100; 2]);
}

#[test]
fn lines_of_more_than_64_kib_are_split_and_nothing_is_lost() {
    let text =
        "head -c 150000 /dev/zero | tr '\\0' x; echo; head -c 65536 /dev/zero | tr '\\0' y; echo";
    let ended = run(&mut script(1, &[], text));
    let lengths: Vec<usize> = ended.output.lines().map(|line| line.len() - 4).collect();
    assert_eq!(lengths, [65_536, 65_536, 150_000 - 2 * 65_536, 65_536, 0]);
}

#[test]
fn files_of_ranks_that_are_no_more_are_removed() {
    let logs = ["--output-dir", "logs"];
    let ended = run(&mut script(3, &logs, "echo first; seq 100"));
    assert_eq!(ended.code, 0, "{}", ended.error);
    for name in ["rank-2.txt", "rank-02.log", "rank-x.log"] {
        fs::write(ended.path(&format!("logs/{name}")), "another's").unwrap();
    }
    let mut command = script(2, &logs, "echo second");
    let ended = Job::start_in(&mut command, ended.folder).wait();
    assert_eq!(ended.code, 0, "{}", ended.error);
    let entries = fs::read_dir(ended.path("logs")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    let expected = [
        "rank-0.log",
        "rank-02.log",
        "rank-1.log",
        "rank-2.txt",
        "rank-x.log",
    ];
    assert_eq!(names, expected);
    assert_eq!(ended.read("logs/rank-0.log"), "second\n");
}

/// A full disk behind the launcher's own output.
#[test]
fn output_that_is_lost_is_no_success() {
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = script(2, &[], "echo x; exit 0");
    command.stdout(full());
    let ended = command.output().unwrap();
    let error = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{error}");
    let expected = "burn-dist: cannot write the output of rank 0: No space left on device";
    assert!(error.contains(expected), "{error}");
    let mut command = launch(["--help"]);
    command.stdout(full());
    assert_eq!(command.status().unwrap().code(), Some(1));
}

/// Every byte, with ends of lines where they happen to be.
#[test]
fn binary_output_arrives_as_it_is() {
    let bytes: Vec<u8> = (0..1u32 << 20)
        .map(|at| (at.wrapping_mul(at) / 7 + at) as u8)
        .chain(*b"\n")
        .collect();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("bytes"), &bytes).unwrap();
    let mut command = launch(["-n", "2", "--output-dir", "logs", "--", "cat", "bytes"]);
    let ended = Job::start_in(&mut command, folder).wait();
    for rank in 0..2 {
        assert!(fs::read(ended.path(&format!("logs/rank-{rank}.log"))).unwrap() == bytes);
    }
    let ended = run(&mut script(1, &[], r"printf '\377\000\033[1mx\n'"));
    assert_eq!(ended.output, "[0] \u{fffd}\0\u{1b}[1mx\n");
}

/// A launcher whose reader goes away, as `head` does, ends: ranks find a broken pipe.
#[test]
fn a_closed_output_ends_who_writes_to_it() {
    let mut command = launch(["-n", "1", "--", "yes"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut start = [0; 6];
    child.stdout.take().unwrap().read_exact(&mut start).unwrap();
    assert_eq!(&start, b"[0] y\n");
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(128 + 13));
}

/// It has left the group of its rank, and holds its output open.
#[test]
fn a_process_that_has_escaped_does_not_hold_up_the_launcher() {
    let text = "setsid sh -c 'echo $$ > escaped; echo said; exec sleep 1000' & 
        while [ ! -s escaped ]; do sleep 0.1; done; sleep 0.2";
    let ended = run(&mut script(1, &[], text));
    let escaped = ended.read("escaped");
    let killed = Command::new("kill").arg(escaped.trim()).status().unwrap();
    assert_eq!((ended.code, ended.output.as_str()), (0, "[0] said\n"));
    assert!(killed.success());
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let ended = run(&mut script(1, &["--output-dir", "/proc/x"], "echo never"));
    assert_eq!(ended.code, 1);
    let expected = "burn-dist: cannot write the output of ranks to /proc/x: ";
    assert!(ended.error.starts_with(expected) && ended.error.lines().count() == 1);
    let ended = run(&mut script(
        1,
        &["--output-dir", "logs"],
        "ln -sf /dev/full logs/rank-0.log",
    ));
    assert_eq!(ended.code, 0);
    // Now it is a link to a full disk.
    let mut command = script(
        1,
        &["--output-dir", "logs"],
        "while echo x; do :; done; exit 3",
    );
    let ended = Job::start_in(&mut command, ended.folder).wait();
    let expected = "burn-dist: cannot write the output of rank 0: No space left on device";
    assert!(ended.error.contains(expected), "{}", ended.error);
    assert_eq!(ended.code, 128 + 13);
}
