//! Ranks as processes, each watched to its end.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::programs::PROGRAM;

/// What no scenario takes.
const LONG: Duration = Duration::from_secs(60);
/// The time that an operation has, in seconds.
pub const DEADLINE: u64 = 3;
/// Both transports of one host.
pub const TRANSPORTS: [&str; 2] = ["tcp", "shm"];

/// The ranks of a job. What is left of them is killed when it is dropped.
pub struct Job {
    pub port: u16,
    /// How long its ranks may take.
    pub patience: Duration,
    ranks: Vec<Rank>,
    flights: tempfile::TempDir,
}

struct Rank {
    child: Child,
    lines: Receiver<String>,
    heard: Vec<String>,
    has_ended: bool,
}

/// How a rank has ended.
pub struct End {
    pub status: ExitStatus,
    /// Milliseconds from the beginning of its last operation.
    pub after: u64,
    /// What it says of it.
    pub text: String,
    /// All that it has said.
    pub lines: Vec<String>,
}

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// A rank that runs `program`, before it is started.
pub fn command(program: &str, rank: usize, ranks: usize, point: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    // Its line of the progress of tests would stand before what the rank says.
    command.args([
        "--ignored",
        "--exact",
        "programs::rank_process",
        "--nocapture",
        "-q",
    ]);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("BURN_DIST_")) {
        command.env_remove(name);
    }
    command.env(PROGRAM, program);
    command.env("RUST_BACKTRACE", "0");
    command.env("BURN_DIST_RANK", rank.to_string());
    command.env("BURN_DIST_WORLD_SIZE", ranks.to_string());
    command.env("BURN_DIST_RDZV", point);
    command.env("BURN_DIST_TOKEN", "of the test");
    command.env("BURN_DIST_TIMEOUT", "30");
    command.env("BURN_DIST_OP_TIMEOUT", DEADLINE.to_string());
    command
}

impl Job {
    /// Starts `ranks` ranks; `prepare` says what is different about each.
    pub fn start(
        ranks: usize,
        transport: &str,
        program: &str,
        prepare: impl Fn(usize, &mut Command),
    ) -> Self {
        let port = free_port();
        let point = format!("tcp://127.0.0.1:{port}");
        let mut job = Self::empty(port);
        for rank in 0..ranks {
            let mut command = command(program, rank, ranks, &point);
            command.env("BURN_DIST_TRANSPORT", transport);
            prepare(rank, &mut command);
            job.add(command);
        }
        job
    }

    /// No ranks yet.
    pub fn empty(port: u16) -> Self {
        Self {
            port,
            patience: LONG,
            ranks: Vec::new(),
            flights: tempfile::tempdir().unwrap(),
        }
    }

    /// Starts one more.
    pub fn add(&mut self, mut command: Command) {
        command.env("BURN_DIST_FLIGHT_RECORDER", self.flights.path());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        self.ranks.push(Rank {
            child,
            lines,
            heard: Vec::new(),
            has_ended: false,
        });
    }

    /// The file of records of a rank that has failed.
    pub fn flight(&self, rank: usize) -> PathBuf {
        self.flights.path().join(format!("rank-{rank}.json"))
    }

    /// Waits until a rank has said something that begins so.
    pub fn hear(&mut self, rank: usize, beginning: &str) -> String {
        let rank_state = &mut self.ranks[rank];
        let until = Instant::now() + LONG;
        let mut seen = 0;
        loop {
            if let Some(line) = rank_state.heard[seen..]
                .iter()
                .find(|l| l.starts_with(beginning))
            {
                return line.clone();
            }
            seen = rank_state.heard.len();
            let rest = until.saturating_duration_since(Instant::now());
            match rank_state.lines.recv_timeout(rest) {
                Ok(line) => rank_state.heard.push(line),
                Err(_) => panic!(
                    "rank {rank} did not say {beginning:?}: {:?}",
                    rank_state.heard
                ),
            }
        }
    }

    /// Waits until all ranks have done some operations.
    pub fn run(&mut self) {
        for rank in 0..self.ranks.len() {
            self.hear(rank, "at work");
        }
    }

    pub fn signal(&self, rank: usize, signal: Signal) {
        kill_process(Pid::from_child(&self.ranks[rank].child), signal).unwrap();
    }

    /// Waits until a rank has ended.
    pub fn end(&mut self, rank: usize) -> End {
        let state = &mut self.ranks[rank];
        let until = Instant::now() + self.patience;
        // Its output ends with it, and with all that it has started.
        loop {
            let rest = until.saturating_duration_since(Instant::now());
            match state.lines.recv_timeout(rest) {
                Ok(line) => state.heard.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("rank {rank} hangs: {:?}", state.heard),
            }
        }
        let status = state.child.wait().unwrap();
        state.has_ended = true;
        let lines = state.heard.clone();
        let outcome = lines.iter().find_map(|line| line.strip_prefix("outcome "));
        let (after, text) = outcome.and_then(|o| o.split_once(' ')).unwrap_or(("0", ""));
        End {
            status,
            after: after.parse().unwrap(),
            text: text.to_owned(),
            lines,
        }
    }

    /// Waits until all ranks but `victim` have failed: each within `within` milliseconds, and with all of `parts` in
    /// what it says.
    pub fn assert_failed(&mut self, victim: Option<usize>, within: u64, parts: &[&str]) {
        for rank in (0..self.ranks.len()).filter(|rank| Some(*rank) != victim) {
            let End {
                status,
                after,
                text,
                lines,
            } = self.end(rank);
            assert_eq!(status.code(), Some(1), "rank {rank}: {lines:?}");
            for part in parts {
                assert!(text.contains(part), "rank {rank}: no {part:?} in {text:?}");
            }
            assert!(after <= within, "rank {rank}: {after} ms: {text}");
        }
    }

    /// Waits until all have ended well.
    pub fn assert_done(&mut self) {
        for rank in 0..self.ranks.len() {
            let End { status, lines, .. } = self.end(rank);
            assert!(status.success(), "rank {rank}: {status} {lines:?}");
        }
    }

    /// Waits until all have ended well, and `rank` has said something that begins so.
    pub fn assert_done_with(&mut self, rank: usize, beginning: &str) {
        self.assert_done();
        let heard = &self.ranks[rank].heard;
        assert!(
            heard.iter().any(|line| line.starts_with(beginning)),
            "{heard:?}"
        );
    }

    /// Nothing is left: no process, no memory, no port.
    pub fn assert_gone(mut self) {
        for rank in &mut self.ranks {
            if !rank.has_ended {
                let _ = rank.child.kill();
                let status = rank.child.wait().unwrap();
                assert!(status.signal().is_some(), "{status}");
            }
        }
        self.ranks.clear();
        let refused = TcpStream::connect(("127.0.0.1", self.port));
        assert!(refused.is_err(), "port {} is left", self.port);
        // Other tests have files for moments only.
        let began = Instant::now();
        while !shared_memory().is_empty() {
            assert!(
                began.elapsed() < LONG,
                "left in /dev/shm: {:?}",
                shared_memory()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn shared_memory() -> Vec<String> {
    let files = std::fs::read_dir("/dev/shm").unwrap();
    let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
    names
        .filter(|name| name.starts_with("burn-dist-"))
        .collect()
}

impl Drop for Job {
    fn drop(&mut self) {
        for rank in &mut self.ranks {
            let _ = rank.child.kill();
            let _ = rank.child.wait();
        }
    }
}
