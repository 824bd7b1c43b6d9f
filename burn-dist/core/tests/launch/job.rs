//! The binary, running; whatever a test does, nothing is left of it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Longer than anything here takes on a loaded machine.
const LONG: Duration = Duration::from_secs(60);

/// A launch with its standard streams in files, and a folder in which its ranks run.
pub struct Job {
    child: Guarded,
    folder: TempDir,
}

/// Killed when it is dropped.
pub struct Guarded(pub Child);

/// What is left of it.
pub struct Ended {
    /// The exit code; that of a shell if a signal has ended it.
    pub code: i32,
    pub output: String,
    pub error: String,
    pub folder: TempDir,
}

/// `burn-dist launch` with `options`, without a launcher's variables.
pub fn launch<O: AsRef<OsStr>>(options: impl IntoIterator<Item = O>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_burn-dist"));
    command.arg("launch").args(options);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("BURN_DIST_") {
            command.env_remove(name);
        }
    }
    command
}

/// `burn-dist launch` of `script` as `ranks` ranks.
pub fn script(ranks: usize, options: &[&str], script: &str) -> Command {
    let mut command = launch(["-n", &ranks.to_string()]);
    command.args(options).args(["--", "sh", "-c", script]);
    command
}

impl Job {
    pub fn start(command: &mut Command) -> Self {
        Self::start_in(command, tempfile::tempdir().unwrap())
    }

    pub fn start_in(command: &mut Command, folder: TempDir) -> Self {
        let file = |name| File::create(folder.path().join(name)).unwrap();
        command.current_dir(folder.path()).stdin(Stdio::null());
        command.stdout(file("stdout")).stderr(file("stderr"));
        let child = Guarded(command.spawn().unwrap());
        Self { child, folder }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child.0), signal).unwrap();
    }

    /// Waits until `part` stands `times` times on standard output.
    pub fn wait_for(&self, part: &str, times: usize) {
        let path = self.folder.path().join("stdout");
        until(&format!("{part:?} {times} times"), || {
            fs::read_to_string(&path).unwrap().matches(part).count() >= times
        });
    }

    /// Waits until ranks have written the file `name`, and returns it.
    pub fn file(&self, name: &str) -> String {
        let path = self.folder.path().join(name);
        let read = || fs::read_to_string(&path).unwrap_or_default();
        until(name, || read().ends_with('\n'));
        read().trim().to_string()
    }

    pub fn wait(mut self) -> Ended {
        let child = &mut self.child.0;
        until("the launcher has ended", || {
            child.try_wait().unwrap().is_some()
        });
        let status = self.child.0.wait().unwrap();
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap());
        let read = |name| {
            let bytes = fs::read(folder.path().join(name)).unwrap();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        Ended {
            code: status
                .code()
                .unwrap_or_else(|| 128 + status.signal().unwrap()),
            output: read("stdout"),
            error: read("stderr"),
            folder,
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Ended {
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The lines of standard output, sorted: ranks write when they like.
    pub fn lines(&self) -> Vec<&str> {
        let mut lines: Vec<&str> = self.output.lines().collect();
        lines.sort_unstable();
        lines
    }

    #[track_caller]
    pub fn assert_last_line(&self, expected: &str) {
        assert_eq!(self.error.lines().last(), Some(expected), "{}", self.error);
    }
}

/// Runs it to its end.
pub fn run(command: &mut Command) -> Ended {
    Job::start(command).wait()
}

/// How the test `name` has ended in a process of its own; `None` in that process.
pub fn in_own_process(name: &str) -> Option<ExitStatus> {
    const INSIDE: &str = "LAUNCH_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_some() {
        return None;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", name, "--nocapture"])
        .stdout(Stdio::null());
    Some(command.env(INSIDE, "1").status().unwrap())
}

#[track_caller]
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LONG, "not within {LONG:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process runs. One that has ended is none, though nobody may have taken note of it.
pub fn is_running(id: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| &rest[..1]);
    !matches!(state, None | Some("Z" | "X"))
}
