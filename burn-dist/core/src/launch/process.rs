//! A process and its descendants, until they are gone.
//!
//! Each process is the first of a session: what a terminal sends, as on Ctrl-C, reaches the launcher
//! alone, which passes it on once; and no program can be stopped for reading from the terminal. Its
//! descendants are in one group with it unless they leave it.
//!
//! Knows no ranks.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::io::retry_on_intr;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, kill_process_group, setsid,
    test_kill_process_group, waitid, waitpgid,
};

use super::output::Stream;
use super::pump::{Pumps, Source};
use super::remote::Orders;
use super::signals::{asks_to_end, who_ignores};
use super::supervisor::Event;
use super::watchdog::Registration;
use super::wire::Order;

/// How long a connection may stand when its node was told to kill.
const CONNECTION: Duration = Duration::from_secs(5);

/// How long what was killed may take to be gone, so that what no signal ends holds up nobody.
const KILLED: Duration = Duration::from_secs(1);

/// A process that was started, with its descendants. They are killed when it is dropped.
pub(super) struct Process {
    child: Child,
    group: Pid,
    /// Where it is a connection to a node, which passes signals on.
    orders: Option<Orders>,
    state: State,
    /// By which signal.
    asked_to_end: Option<i32>,
    kill_at: Option<Instant>,
    killed_at: Option<Instant>,
    registration: Option<Registration>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    /// It has ended, its descendants perhaps not.
    Ended,
    Gone,
}

impl Process {
    /// Starts `command`, with its output to `pumps`; `Event::Ended(member)` says when it has ended.
    /// `first`, if any, is written to its standard input, and orders behind it. `registration` is for its
    /// group.
    ///
    /// The calling thread must live as long as the process: where it ends, be it with all of the
    /// launcher, Linux kills the process.
    pub(super) fn start(
        command: &mut Command,
        first: Option<Vec<u8>>,
        member: usize,
        source: &Source,
        pumps: &Pumps,
        registration: Option<Registration>,
    ) -> io::Result<Self> {
        command.stdin(match first {
            Some(_) => Stdio::piped(),
            None => Stdio::null(),
        });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        #[cfg(target_os = "linux")]
        let launcher = rustix::process::getpid();
        let own = registration.clone();
        let prepare = move || {
            setsid()?;
            if let Some(registration) = &own {
                registration.give();
            }
            #[cfg(target_os = "linux")]
            {
                use rustix::process::{getppid, set_parent_process_death_signal};

                set_parent_process_death_signal(Some(Signal::KILL))?;
                // It may have ended before.
                if getppid() != Some(launcher) {
                    return Err(rustix::io::Errno::SRCH.into());
                }
            }
            Ok(())
        };
        // SAFETY: between fork and exec `prepare` makes some system calls; it allocates nothing, takes no
        // lock, and touches no memory but its own copies of a number and of a socket.
        unsafe { command.pre_exec(prepare) };
        let child = command.spawn()?;
        let group = Pid::from_child(&child);
        let mut process = Self {
            child,
            group,
            orders: None,
            state: State::Running,
            asked_to_end: None,
            kill_at: None,
            killed_at: None,
            registration,
        };
        if let (Some(first), Some(input)) = (first, process.child.stdin.take()) {
            process.orders = Some(Orders::new(input, first)?);
        }
        let streams = (process.child.stdout.take(), process.child.stderr.take());
        if let (Some(output), Some(error)) = streams {
            pumps.start(member, source.clone(), Stream::Output, output)?;
            pumps.start(member, source.clone(), Stream::Error, error)?;
        }
        let events = pumps.events.clone();
        let thread = std::thread::Builder::new().name("wait".to_string());
        thread.spawn(move || {
            // Left as it is, so that its number is no other process's before the supervisor has seen it.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            let _ = retry_on_intr(|| waitid(WaitId::Pid(group), options));
            // Without a receiver the launch is over.
            let _ = events.send(Event::Ended(member));
        })?;
        Ok(process)
    }

    /// How the process has ended, when it has. What is left of its descendants is asked to end too,
    /// unless it has been by a signal that it does not ignore, and killed after `grace`.
    pub(super) fn ended(&mut self, grace: Duration) -> io::Result<ExitStatus> {
        let status = self.child.wait()?;
        self.state = State::Ended;
        self.orders = None;
        self.look();
        if let Some(signal) = self.asked_to_end.filter(|_| self.state != State::Gone) {
            for process in who_ignores(signal, self.group) {
                let _ = kill_process(process, Signal::TERM);
            }
        }
        self.ask_to_end(Signal::TERM.as_raw(), grace);
        Ok(status)
    }

    /// Whether neither the process nor one of its descendants is left.
    pub(super) fn is_gone(&self) -> bool {
        self.state == State::Gone
    }

    /// Passes `signal` on: to all descendants too where it asks to end, as a terminal does.
    pub(super) fn signal(&self, signal: i32) {
        if let Some(orders) = &self.orders {
            orders.send(Order::Signal(signal));
        } else if let Some(named) = Signal::from_named_raw(signal) {
            // It may be gone by now.
            let _ = match (asks_to_end(signal), self.state) {
                (_, State::Gone) | (false, State::Ended) => Ok(()),
                (true, _) => kill_process_group(self.group, named),
                (false, State::Running) => kill_process(self.group, named),
            };
        }
    }

    /// Asks it to end by `signal`, once, and has it killed after `grace`.
    pub(super) fn ask_to_end(&mut self, signal: i32, grace: Duration) {
        if self.asked_to_end.is_none() && !self.is_gone() {
            self.asked_to_end = Some(signal);
            self.signal(signal);
            self.kill_at = Some(Instant::now() + grace);
        }
    }

    /// Kills it and its descendants, here or on its host.
    pub(super) fn kill(&mut self) {
        if self.is_gone() || self.killed_at.is_some() {
            return;
        }
        self.asked_to_end = Some(Signal::KILL.as_raw());
        if let Some(orders) = self.orders.take() {
            orders.send(Order::Kill);
            self.kill_at = Some(Instant::now() + CONNECTION);
        } else {
            let _ = kill_process_group(self.group, Signal::KILL);
            self.kill_at = None;
            self.killed_at = Some(Instant::now());
        }
    }

    /// When [`Process::look`] is due.
    pub(super) fn look_at(&self) -> Option<Instant> {
        match self.state {
            State::Running => self.kill_at,
            // Nobody says when descendants end.
            State::Ended => Some(Instant::now() + Duration::from_millis(20)),
            State::Gone => None,
        }
    }

    /// Looks whether what is left is gone, or is to be killed; `true` if it was killed just now.
    pub(super) fn look(&mut self) -> bool {
        if self.state == State::Ended {
            // They are this process's children where it has adopted them.
            while let Ok(Some(_)) = waitpgid(self.group, WaitOptions::NOHANG) {}
            let killed = self.killed_at.is_some_and(|at| at.elapsed() > KILLED);
            if killed || test_kill_process_group(self.group).is_err() {
                self.state = State::Gone;
                if let Some(registration) = &self.registration {
                    registration.withdraw(self.group);
                }
            }
        }
        let due = self.kill_at.is_some_and(|at| at <= Instant::now());
        if due && !self.is_gone() {
            self.kill();
        }
        due && !self.is_gone()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.is_gone() {
            self.orders = None;
            let _ = kill_process_group(self.group, Signal::KILL);
            let _ = self.child.wait();
        }
    }
}
