//! All processes of a launch, until the last has ended: who has failed first, what becomes of the
//! others, and what signals do.

use std::io::PipeWriter;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use signal_hook::low_level::signal_name;

use super::error::LaunchError;
use super::outcome::{Cause, Failure, Outcome};
use super::output::{Destination, Output, Speaker};
use super::process::Process;
use super::pump::{Pumps, Source};
use super::signals::{Listener, asks_to_end};
use super::wire::Announcement;

/// What can happen while processes run.
pub(super) enum Event {
    /// This process was sent a signal, or its launcher was.
    Signal(i32),
    /// The launcher has ordered that all be killed.
    Kill,
    /// The launcher, or the connection to it, is gone.
    Cut,
    /// A member's process has ended.
    Ended(usize),
    /// A member is the node of a host, and says that one of its ranks has failed.
    Announced(usize, Announcement),
    /// A stream of a process was read to its end.
    Drained,
}

/// A signal that comes again sooner is the same: `timeout` sends it to a process and then to its group.
const AGAIN: Duration = Duration::from_millis(250);

/// Who supervises.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// It tells the user what happens.
    Launcher,
    /// It tells its launcher.
    Node,
}

struct Member {
    source: Source,
    process: Process,
}

/// The processes of a launch. All are killed when it is dropped.
pub(super) struct Supervisor {
    role: Role,
    grace: Duration,
    members: Vec<Member>,
    events: Receiver<Event>,
    pumps: Pumps,
    /// Open while processes may write.
    over: Option<PipeWriter>,
    open_streams: usize,
    /// When all were first asked to end.
    ending_since: Option<Instant>,
    signal: Option<i32>,
    first_failure: Option<(Speaker, Option<String>, Cause)>,
    _listener: Listener,
}

impl Supervisor {
    /// For the ranks of a world of `world_size`; no process yet.
    pub(super) fn new(
        role: Role,
        output: &Output,
        world_size: usize,
        grace: Duration,
    ) -> Result<Self, LaunchError> {
        let destination = Arc::new(Destination::new(output, world_size)?);
        let (sender, events) = channel();
        let listener = Listener::new(sender.clone());
        let listener = listener.map_err(LaunchError::system("cannot listen to signals"))?;
        let (over, writer) = std::io::pipe().map_err(LaunchError::system("cannot make a pipe"))?;
        let pumps = Pumps {
            destination,
            events: sender,
            over: Arc::new(over),
        };
        Ok(Self {
            role,
            grace,
            members: Vec::new(),
            events,
            pumps,
            over: Some(writer),
            open_streams: 0,
            ending_since: None,
            signal: None,
            first_failure: None,
            _listener: listener,
        })
    }

    /// Where events can be told.
    pub(super) fn events(&self) -> std::sync::mpsc::Sender<Event> {
        self.pumps.events.clone()
    }

    /// Starts a process; `first` as in [`Process::start`]. The calling thread must be the one that then
    /// runs this supervisor.
    pub(super) fn start(
        &mut self,
        mut command: Command,
        first: Option<Vec<u8>>,
        source: Source,
    ) -> Result<(), LaunchError> {
        let member = self.members.len();
        let process = Process::start(&mut command, first, member, &source, &self.pumps);
        let process = process.map_err(|error| LaunchError::start(command.get_program(), error))?;
        self.open_streams += 2;
        self.members.push(Member { source, process });
        Ok(())
    }

    /// Waits until all processes are gone and their output is written.
    pub(super) fn run(mut self) -> Result<Outcome, LaunchError> {
        loop {
            let gone = self.members.iter().all(|member| member.process.is_gone());
            if gone {
                self.over = None;
            }
            if gone && self.open_streams == 0 {
                break;
            }
            let due = self
                .members
                .iter()
                .filter_map(|member| member.process.look_at());
            let event = match due.min() {
                Some(due) => self
                    .events
                    .recv_timeout(due.saturating_duration_since(Instant::now()))
                    .ok(),
                None => self.events.recv().ok(),
            };
            match event {
                // Output may be held up by who should read it.
                Some(Event::Signal(signal)) if gone && asks_to_end(signal) => {
                    self.signal = self.signal.or(Some(signal));
                    break;
                }
                Some(event) => self.handle(event)?,
                None => {}
            }
            for member in 0..self.members.len() {
                if self.members[member].process.look() {
                    let who = self.members[member].source.speaker();
                    self.say(|| format!("{who} has not ended in time and is killed"));
                }
            }
        }
        let first_failure = self
            .first_failure
            .take()
            .map(|(speaker, host, cause)| Failure {
                last_lines: self.pumps.destination.last_lines(&speaker),
                rank: match speaker {
                    Speaker::Rank(rank) => Some(rank),
                    Speaker::Host(_) => None,
                },
                host,
                cause,
            });
        Ok(Outcome {
            first_failure,
            signal: self.signal,
        })
    }

    fn handle(&mut self, event: Event) -> Result<(), LaunchError> {
        match event {
            Event::Signal(signal) if asks_to_end(signal) => self.asked(signal),
            Event::Signal(signal) => {
                for member in &self.members {
                    member.process.signal(signal);
                }
            }
            Event::Kill => self.kill(),
            Event::Cut if self.ending_since.is_none() => self.asked(Signal::TERM.as_raw()),
            Event::Cut => {}
            Event::Ended(member) => {
                let Member { source, process } = &mut self.members[member];
                let (speaker, host) = (source.speaker(), source.host());
                let status = process.ended(self.grace);
                let status = status.map_err(LaunchError::system("cannot wait for a process"))?;
                if let Some(cause) = Cause::of(status) {
                    self.failed(speaker, host, cause);
                }
            }
            Event::Announced(member, Announcement { rank, cause }) => {
                let host = self.members[member].source.host();
                // It may come behind the end of its node, which was then only a consequence.
                match &mut self.first_failure {
                    Some((speaker @ Speaker::Host(_), of, first)) if *of == host => {
                        (*speaker, *first) = (Speaker::Rank(rank), cause);
                    }
                    _ => self.failed(Speaker::Rank(rank), host, cause),
                }
            }
            Event::Drained => self.open_streams -= 1,
        }
        Ok(())
    }

    /// A signal asks to end, for the first time or once more.
    fn asked(&mut self, signal: i32) {
        let name = signal_name(signal).unwrap_or("a signal");
        match self.ending_since {
            None => {
                self.signal = Some(signal);
                self.say(|| format!("{name} is passed on to all ranks; once more kills them"));
                self.end(signal);
            }
            Some(since) if since.elapsed() >= AGAIN && signal != Signal::HUP.as_raw() => {
                self.say(|| format!("{name} once more: all ranks are killed"));
                self.kill();
            }
            Some(_) => {}
        }
    }

    fn failed(&mut self, speaker: Speaker, host: Option<String>, cause: Cause) {
        if let (Role::Node, Speaker::Rank(rank)) = (self.role, &speaker) {
            let rank = *rank;
            self.pumps
                .destination
                .say(&Announcement { rank, cause }.write());
        }
        if self.ending_since.is_none() {
            self.say(|| format!("{speaker} has failed ({cause}); all others are ended"));
            self.first_failure = Some((speaker, host, cause));
            self.end(Signal::TERM.as_raw());
        }
    }

    fn end(&mut self, signal: i32) {
        self.ending_since = Some(Instant::now());
        for member in &mut self.members {
            member.process.ask_to_end(signal, self.grace);
        }
    }

    fn kill(&mut self) {
        for member in &mut self.members {
            member.process.kill();
        }
    }

    /// Tells the user, if nobody else does.
    fn say(&self, text: impl FnOnce() -> String) {
        if self.role == Role::Launcher {
            self.pumps
                .destination
                .say(&format!("burn-dist: {}", text()));
        }
    }
}
