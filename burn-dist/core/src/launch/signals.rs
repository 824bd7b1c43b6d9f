//! The signals that this process is sent while ranks run.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::process::Pid;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::{Handle, Signals};

use super::supervisor::Event;

/// Those that are passed on.
pub(super) const PASSED_ON: [i32; 5] = [SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2];

/// Whether `signal` asks a program to end. The others mean what the program makes of them.
pub(super) fn asks_to_end(signal: i32) -> bool {
    matches!(signal, SIGHUP | SIGINT | SIGTERM)
}

/// Launches that listen, and whether there is none: then signals do again what they did before.
static LISTENING: Mutex<usize> = Mutex::new(0);
static IDLE: AtomicBool = AtomicBool::new(true);

/// While it lives, signals become events.
pub(super) struct Listener {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    pub(super) fn new(events: Sender<Event>) -> io::Result<Self> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let [ignored, caught] = ["SigIgn:", "SigCgt:"].map(|field| signals(&status, field));
        // `nohup` has it ignored so that the job outlives the terminal.
        let heard = PASSED_ON
            .into_iter()
            .filter(|signal| *signal != SIGHUP || !is_in(signal, ignored));
        let heard: Vec<i32> = heard.collect();
        let mut listening = LISTENING.lock().unwrap_or_else(PoisonError::into_inner);
        for signal in heard.iter().filter(|signal| !is_in(signal, caught)) {
            signal_hook::flag::register_conditional_default(*signal, &IDLE)?;
        }
        // Where SIGCHLD is ignored, how processes have ended is lost; a handler is enough against it.
        let mut signals = Signals::new(heard.into_iter().chain([SIGCHLD]))?;
        let handle = signals.handle();
        let thread = std::thread::Builder::new().name("signals".to_string());
        let thread = thread.spawn(move || {
            for signal in signals.forever().filter(|signal| *signal != SIGCHLD) {
                // Without a receiver the launch is over.
                let _ = events.send(Event::Signal(signal));
            }
        })?;
        *listening += 1;
        IDLE.store(false, Ordering::SeqCst);
        Ok(Self {
            handle,
            thread: Some(thread),
        })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let mut listening = LISTENING.lock().unwrap_or_else(PoisonError::into_inner);
        *listening -= 1;
        IDLE.store(*listening == 0, Ordering::SeqCst);
    }
}

/// The processes of a group that ignore `signal`, as a shell has what it starts by `&` ignore SIGINT. None
/// where the system is not Linux.
pub(super) fn who_ignores(signal: i32, group: Pid) -> Vec<Pid> {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let ignores = |status: &str| {
        let of_group = field(status, "NSpgid:").and_then(|text| text.split_whitespace().next());
        let of_group = of_group.is_some_and(|text| text.parse() == Ok(group.as_raw_pid()));
        of_group && is_in(&signal, signals(status, "SigIgn:"))
    };
    let found = processes.flatten().filter_map(|process| {
        let id = process.file_name().to_str()?.parse().ok()?;
        let status = std::fs::read_to_string(process.path().join("status")).ok()?;
        Pid::from_raw(id).filter(|_| ignores(&status))
    });
    found.collect()
}

/// A set of signals in the status of a process, as Linux tells it: signal 1 is the lowest bit.
fn signals(status: &str, name: &str) -> u64 {
    let set = field(status, name);
    set.and_then(|set| u64::from_str_radix(set, 16).ok())
        .unwrap_or(0)
}

fn is_in(signal: &i32, set: u64) -> bool {
    set >> (signal - 1) & 1 == 1
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let value = status.lines().find_map(|line| line.strip_prefix(name));
    value.map(str::trim)
}
