//! Starts ranks as processes, hears what they say, and leaves none of them behind.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::outcome::Outcome;
use crate::programs::{RELEASE, SCRIPT};

/// Seconds of an operation in these tests.
pub const DEADLINE: Duration = Duration::from_secs(3);
/// What a loaded machine may add to any time.
pub const SLACK: Duration = Duration::from_secs(3);
/// The longest that anything here takes.
const BOUND: Duration = Duration::from_secs(60);

/// Both transports.
pub const TRANSPORTS: [&str; 2] = ["tcp", "shm"];

/// A port that nobody has: below those that the system gives to connections.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        // Test binaries that run at the same time begin at different places.
        let start = std::process::id().wrapping_mul(61) as u16;
        let number = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = 20_000 + number % 12_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// What is to be started.
#[derive(Clone)]
pub struct Job {
    scripts: Vec<String>,
    variables: Vec<(Option<usize>, String, String)>,
    programs: Vec<(usize, PathBuf)>,
    namespaces: Vec<String>,
    port: u16,
}

impl Job {
    /// A rank for each script.
    pub fn new<S: Into<String>>(transport: &str, scripts: impl IntoIterator<Item = S>) -> Self {
        let job = Self {
            scripts: scripts.into_iter().map(Into::into).collect(),
            variables: Vec::new(),
            programs: Vec::new(),
            namespaces: Vec::new(),
            port: free_port(),
        };
        let size = job.scripts.len().to_string();
        let port = job.port;
        job.all("BURN_DIST_TRANSPORT", transport)
            .all("BURN_DIST_WORLD_SIZE", &size)
            .all("BURN_DIST_RDZV", &format!("tcp://127.0.0.1:{port}"))
            .all("BURN_DIST_TOKEN", "secret")
            .all("BURN_DIST_TIMEOUT", "30")
            .all("BURN_DIST_OP_TIMEOUT", &DEADLINE.as_secs().to_string())
            // To read the binary takes a while where there are many of them.
            .all("BURN_DIST_ANY_BUILD", "1")
    }

    /// The same script for all of `ranks`.
    pub fn same(transport: &str, ranks: usize, script: &str) -> Self {
        Self::new(transport, vec![script; ranks])
    }

    /// A variable of all ranks.
    pub fn all(mut self, name: &str, value: &str) -> Self {
        self.variables.push((None, name.into(), value.into()));
        self
    }

    /// A variable of one rank; without a value, none.
    pub fn one(mut self, rank: usize, name: &str, value: &str) -> Self {
        self.variables.push((Some(rank), name.into(), value.into()));
        self
    }

    /// Another binary for a rank.
    pub fn binary(mut self, rank: usize, path: &Path) -> Self {
        self.programs.push((rank, path.into()));
        self
    }

    /// The network namespace of each rank.
    pub fn in_namespaces(mut self, names: &[&str]) -> Self {
        self.namespaces = names.iter().map(ToString::to_string).collect();
        self
    }

    /// The port at which the ranks meet.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Starts all ranks.
    pub fn start(self) -> Running {
        let ranks = 0..self.scripts.len();
        let mut running = self.start_none();
        ranks.for_each(|rank| running.start(rank));
        running
    }

    /// Starts none yet.
    pub fn start_none(self) -> Running {
        Running {
            ranks: self.scripts.iter().map(|_| None).collect(),
            before: shared_memory(),
            folder: tempfile::tempdir().unwrap(),
            bound: BOUND,
            job: self,
        }
    }
}

/// Ranks that have been started.
pub struct Running {
    job: Job,
    ranks: Vec<Option<Rank>>,
    before: BTreeSet<String>,
    /// For the flight recorders.
    folder: tempfile::TempDir,
    /// The longest that a rank may take.
    bound: Duration,
}

struct Rank {
    child: Child,
    heard: Arc<(Mutex<Heard>, Condvar)>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Heard {
    said: Vec<String>,
    log: String,
    ended: Option<Instant>,
}

impl Running {
    /// Starts `rank`.
    pub fn start(&mut self, rank: usize) {
        let job = &self.job;
        let other = job.programs.iter().find(|(other, _)| *other == rank);
        let program = match other {
            Some((_, path)) => path.clone(),
            None => std::env::current_exe().unwrap(),
        };
        let mut command = match job.namespaces.get(rank) {
            Some(name) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", name]).arg(program);
                command
            }
            None => Command::new(program),
        };
        command
            .args(["--ignored", "--exact", "rank_process", "--nocapture"])
            .arg("--test-threads=1")
            .env("BURN_DIST_RANK", rank.to_string())
            .env("BURN_DIST_FLIGHT_RECORDER", self.folder.path())
            .env("RUST_BACKTRACE", "0")
            .env(SCRIPT, &job.scripts[rank])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for (of, name, value) in &job.variables {
            if of.is_none_or(|of| of == rank) {
                command.env(name, value);
            }
        }
        let mut child = command.spawn().unwrap();
        let heard = Arc::new((Mutex::new(Heard::default()), Condvar::new()));
        let (output, mut errors) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let says = std::thread::spawn({
            let heard = heard.clone();
            move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    if let Some(line) = line.strip_prefix("> ") {
                        heard.0.lock().unwrap().said.push(line.to_owned());
                        heard.1.notify_all();
                    }
                }
                heard.0.lock().unwrap().ended = Some(Instant::now());
                heard.1.notify_all();
            }
        });
        let logs = std::thread::spawn({
            let heard = heard.clone();
            move || {
                let mut bytes = [0; 4096];
                while let Ok(count @ 1..) = errors.read(&mut bytes) {
                    let text = String::from_utf8_lossy(&bytes[..count]);
                    heard.0.lock().unwrap().log.push_str(&text);
                }
            }
        });
        self.ranks[rank] = Some(Rank {
            child,
            heard,
            threads: vec![says, logs],
        });
    }

    fn rank(&self, rank: usize) -> &Rank {
        self.ranks[rank].as_ref().unwrap()
    }

    /// The number of a rank's process.
    fn process(&self, rank: usize) -> u32 {
        self.rank(rank).child.id()
    }

    /// Waits until `rank` has said `word`.
    #[track_caller]
    pub fn wait_for(&self, rank: usize, word: &str) {
        let (heard, change) = &*self.rank(rank).heard;
        let over = |heard: &mut Heard| {
            heard.ended.is_none() && !heard.said.iter().any(|line| line == word)
        };
        let heard = heard.lock().unwrap();
        let (heard, _) = change.wait_timeout_while(heard, BOUND, over).unwrap();
        let said = heard.said.iter().any(|line| line == word);
        assert!(
            said,
            "rank {rank} has not said {word}: {:?}, {}",
            heard.said, heard.log
        );
    }

    /// Waits until all have said `word`.
    #[track_caller]
    pub fn wait_for_all(&self, word: &str) {
        (0..self.ranks.len()).for_each(|rank| self.wait_for(rank, word));
    }

    /// Lets ranks go on that `hold`.
    pub fn release(&self) {
        std::fs::write(self.folder.path().join(RELEASE), []).unwrap();
    }

    /// Ports at which `rank` listens.
    pub fn ports(&self, rank: usize) -> Vec<u16> {
        let process = self.process(rank);
        let files = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
        let links = files.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
        let links: Vec<String> = links.map(|link| link.display().to_string()).collect();
        let sockets = std::fs::read_to_string(format!("/proc/{process}/net/tcp")).unwrap();
        let listens = sockets.lines().skip(1).filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let own = links.contains(&format!("socket:[{}]", words[9]));
            let port = words[1].split_once(':').unwrap().1;
            (own && words[3] == "0A").then(|| u16::from_str_radix(port, 16).unwrap())
        });
        listens.collect()
    }

    /// Waits until each of `ranks` listens for others: it is about to join, or rank 0 waits for those that do.
    #[track_caller]
    pub fn wait_until_listening(&self, ranks: &[usize]) {
        let until = Instant::now() + BOUND;
        // Rank 0 listens at the meeting port as well.
        while ranks
            .iter()
            .any(|rank| self.ports(*rank).len() < if *rank == 0 { 2 } else { 1 })
        {
            assert!(Instant::now() < until, "ranks {ranks:?} do not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The threads of `rank` that have this name.
    pub fn threads(&self, rank: usize, name: &str) -> usize {
        let process = self.process(rank);
        let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
        let names = threads.filter_map(|thread| {
            // It may have ended meanwhile.
            std::fs::read_to_string(thread.unwrap().path().join("comm")).ok()
        });
        names.filter(|found| found.trim() == name).count()
    }

    fn signal(&self, rank: usize, signal: Signal) -> Instant {
        let process = Pid::from_raw(self.process(rank) as i32).unwrap();
        kill_process(process, signal).unwrap();
        Instant::now()
    }

    /// Kills `rank`; when.
    pub fn kill(&self, rank: usize) -> Instant {
        self.signal(rank, Signal::KILL)
    }

    /// Stops `rank`; when.
    pub fn stop(&self, rank: usize) -> Instant {
        self.signal(rank, Signal::STOP)
    }

    /// Lets a stopped rank go on.
    pub fn go_on(&self, rank: usize) {
        self.signal(rank, Signal::CONT);
    }

    /// Waits until `rank` has ended.
    #[track_caller]
    pub fn outcome(&mut self, rank: usize) -> Outcome {
        let ended = {
            let (heard, change) = &*self.rank(rank).heard;
            let heard = heard.lock().unwrap();
            let ended = |heard: &mut Heard| heard.ended.is_none();
            let (heard, _) = change.wait_timeout_while(heard, self.bound, ended).unwrap();
            let Some(ended) = heard.ended else {
                panic!("rank {rank} hangs: {:?}, {}", heard.said, heard.log);
            };
            ended
        };
        let one = self.ranks[rank].as_mut().unwrap();
        let code = one.child.wait().unwrap().code();
        for thread in one.threads.drain(..) {
            thread.join().unwrap();
        }
        let heard = one.heard.0.lock().unwrap();
        let error = heard
            .said
            .iter()
            .find_map(|line| line.strip_prefix("error "));
        Outcome {
            rank,
            code,
            error: error.map(ToOwned::to_owned),
            said: heard.said.clone(),
            log: heard.log.clone(),
            ended,
        }
    }

    /// Waits until all ranks have ended but `except`.
    #[track_caller]
    pub fn outcomes_but(&mut self, except: &[usize]) -> Vec<Outcome> {
        let ranks = (0..self.ranks.len()).filter(|rank| !except.contains(rank));
        let ranks: Vec<usize> = ranks.collect();
        ranks.into_iter().map(|rank| self.outcome(rank)).collect()
    }

    /// Waits until all have ended, and looks that nothing is left of them.
    #[track_caller]
    pub fn finish(mut self) -> Vec<Outcome> {
        let outcomes = self.outcomes_but(&[]);
        self.leaves_nothing();
        outcomes
    }

    /// Waits until all have ended well.
    #[track_caller]
    pub fn succeeds(self) -> Vec<Outcome> {
        let outcomes = self.finish();
        outcomes.iter().for_each(Outcome::succeeds);
        outcomes
    }

    /// The same for what takes longer.
    #[track_caller]
    pub fn succeeds_within(mut self, bound: Duration) -> Vec<Outcome> {
        self.bound = bound;
        self.succeeds()
    }

    /// The record that `rank` has written of its failure.
    pub fn flight(&self, rank: usize) -> serde_json::Value {
        let path = self.folder.path().join(format!("rank-{rank}.json"));
        let text = std::fs::read_to_string(&path);
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_str(&text).unwrap()
    }

    /// No process, no file of shared memory and no port is left of ranks that have ended.
    #[track_caller]
    fn leaves_nothing(&self) {
        for rank in self.ranks.iter().flatten() {
            let process = PathBuf::from(format!("/proc/{}", rank.child.id()));
            assert!(!process.exists(), "{} is left", process.display());
        }
        if self.job.namespaces.is_empty() {
            let bound = TcpListener::bind(("127.0.0.1", self.job.port));
            assert!(bound.is_ok(), "port {} is left: {bound:?}", self.job.port);
        }
        // Other jobs have files for a moment: what stays is left.
        let mut left: BTreeSet<String> = &shared_memory() - &self.before;
        let until = Instant::now() + BOUND;
        while !left.is_empty() {
            assert!(Instant::now() < until, "{left:?} are left in /dev/shm");
            std::thread::sleep(Duration::from_millis(20));
            left = &left & &shared_memory();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for rank in self.ranks.iter_mut().flatten() {
            // Most have ended, which is as well.
            let _ = rank.child.kill();
            let _ = rank.child.wait();
        }
    }
}

fn shared_memory() -> BTreeSet<String> {
    let files = std::fs::read_dir("/dev/shm").unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names
        .filter(|name| name.starts_with("burn-dist-"))
        .collect()
}

/// Runs scenarios at the same time: what they mostly do is wait.
pub fn together<T: Send>(scenarios: Vec<T>, run: impl Fn(T) + Sync) {
    std::thread::scope(|scope| {
        let run = &run;
        let started = scenarios
            .into_iter()
            .map(|one| scope.spawn(move || run(one)));
        let started: Vec<_> = started.collect();
        for one in started {
            if let Err(panic) = one.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
}
