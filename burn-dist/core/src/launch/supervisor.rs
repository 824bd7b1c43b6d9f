//! All processes of a launch, until the last has ended: who has failed first, what becomes of the
//! others, and what signals do.

use std::io::PipeWriter;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use signal_hook::low_level::signal_name;

use super::error::LaunchError;
use super::orphans::Adoption;
use super::outcome::{Cause, Failure, Outcome, list};
use super::output::{Destination, Output, Speaker};
use super::process::Process;
use super::pump::{Pumps, Source};
use super::signals::{Listener, asks_to_end};
use super::watchdog::Watchdog;
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
    /// A member is the node of a host, and says that one of its ranks has ended.
    Announced(usize, Announcement),
    /// Output could not be written to where it should go.
    OutputLost,
    /// A stream of a member was read to its end.
    Drained(usize),
    /// All lines of this process itself are written.
    Told,
}

/// A signal that comes again sooner is the same: `timeout` sends it to a process and then to its group.
const AGAIN: Duration = Duration::from_millis(250);

/// How long the announcements of a node may take behind its end.
const ANNOUNCEMENTS: Duration = Duration::from_secs(1);

/// How long others may go on when a rank has ended with success, before the user is told of it: programs end at about the
/// same time, unless one waits for what does not come.
const OTHERS: Duration = Duration::from_secs(10);

/// How long output may take to be read by others after a request to end that came again.
const OUTPUT: Duration = Duration::from_secs(2);

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
    open_streams: usize,
    /// How it has failed and when, while a node's announcements may still say more.
    failed: Option<(Cause, Instant)>,
}

/// The first failure, while its last lines may still come.
struct FirstFailure {
    speaker: Speaker,
    host: Option<String>,
    cause: Cause,
    ended_before: Vec<usize>,
}

/// The processes of a launch. All are killed when it is dropped.
pub(super) struct Supervisor {
    role: Role,
    grace: Duration,
    members: Vec<Member>,
    /// Outlives the members. None where there is no shell: then descendants of ranks may outlive a launcher
    /// that is killed.
    watchdog: Option<Watchdog>,
    events: Receiver<Event>,
    pumps: Pumps,
    /// Open while processes may write.
    over: Option<PipeWriter>,
    /// Lines of this process itself; closed with it.
    voice: Option<Sender<String>>,
    voice_is_open: bool,
    /// When all were first asked to end.
    ending_since: Option<Instant>,
    signal: Option<i32>,
    /// Ranks that have ended with success, in this order.
    succeeded: Vec<usize>,
    /// When the user is to be told that others go on.
    tell_of_others: Option<Instant>,
    first_failure: Option<FirstFailure>,
    output_lost: bool,
    /// When it was asked once more.
    impatient_since: Option<Instant>,
    _listener: Listener,
    _adoption: Adoption,
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
        let voice = pumps.voice();
        let voice = voice.map_err(LaunchError::system("cannot start a thread"))?;
        Ok(Self {
            role,
            grace,
            members: Vec::new(),
            watchdog: Watchdog::start().ok(),
            events,
            pumps,
            over: Some(writer),
            voice: Some(voice),
            voice_is_open: true,
            ending_since: None,
            signal: None,
            succeeded: Vec::new(),
            tell_of_others: None,
            first_failure: None,
            output_lost: false,
            impatient_since: None,
            _listener: listener,
            _adoption: Adoption::new(),
        })
    }

    /// Where events can be told.
    pub(super) fn events(&self) -> Sender<Event> {
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
        let registration = self.watchdog.as_ref().map(Watchdog::registration);
        let (source_of, pumps) = (&source, &self.pumps);
        let process = Process::start(&mut command, first, member, source_of, pumps, registration);
        let process = process.map_err(|error| {
            let program = command.get_program();
            match source {
                Source::Rank(_) => LaunchError::start(program, error),
                Source::Node { .. } => LaunchError::start_ssh(program, error),
            }
        })?;
        self.members.push(Member {
            source,
            process,
            open_streams: 2,
            failed: None,
        });
        Ok(())
    }

    /// Whether no more processes are to be started: sees to what has happened since the last one was, as signals and ends.
    pub(super) fn is_ending(&mut self) -> Result<bool, LaunchError> {
        while let Ok(event) = self.events.try_recv() {
            self.handle(event)?;
        }
        self.look();
        Ok(self.ending_since.is_some())
    }

    /// Waits until all processes are gone and their output is written.
    pub(super) fn run(mut self) -> Result<Outcome, LaunchError> {
        loop {
            let gone = self.all_are_gone();
            if gone {
                (self.over, self.voice) = (None, None);
                // Output may be held up by who should read it.
                let enough = self.impatient_since.map(|since| since.elapsed() >= OUTPUT);
                let drained = self.members.iter().all(|member| member.open_streams == 0);
                if drained && !self.voice_is_open || enough == Some(true) {
                    return Ok(self.outcome());
                }
            }
            if let Some(event) = self.next(gone) {
                self.handle(event)?;
            }
            self.look();
        }
    }

    /// Looks after each member: what it has left is to be killed, or how it has failed is known now.
    fn look(&mut self) {
        for member in 0..self.members.len() {
            let Member {
                source,
                process,
                open_streams,
                failed,
            } = &mut self.members[member];
            let (speaker, host) = (source.speaker(), source.host());
            let killed = process.look();
            let known = |(_, since): &mut (Cause, Instant)| {
                host.is_none() || *open_streams == 0 || since.elapsed() >= ANNOUNCEMENTS
            };
            let failed = failed.take_if(known);
            if killed {
                let who = match &speaker {
                    Speaker::Rank(rank) => format!("rank {rank} has"),
                    Speaker::Host(host) => format!("the ranks on {host} have"),
                };
                self.say(|| format!("{who} not ended in time: killing what is left"));
            }
            if let Some((cause, _)) = failed {
                self.failed(speaker, host, cause);
            }
        }
        if self
            .tell_of_others
            .take_if(|due| *due <= Instant::now())
            .is_some()
            && self.ending_since.is_none()
            && !self.all_are_gone()
        {
            let ended = list(&self.succeeded);
            self.say(|| {
                format!("{ended} ended with exit code 0 a while ago, and others go on; should they wait for it, Ctrl-C ends them")
            });
        }
    }

    fn all_are_gone(&self) -> bool {
        self.members.iter().all(|member| member.process.is_gone())
    }

    /// What happens next; `None` if it is time to look after the processes before.
    fn next(&self, gone: bool) -> Option<Event> {
        let members = self.members.iter();
        let looks = members.filter_map(|member| member.process.look_at());
        let failed = self.members.iter().filter_map(|member| member.failed);
        let failed = failed.map(|(_, since)| since + ANNOUNCEMENTS);
        let enough = self.impatient_since.filter(|_| gone);
        let enough = enough.map(|since| since + OUTPUT);
        let others = self.tell_of_others.filter(|_| !gone);
        match looks.chain(failed).chain(enough).chain(others).min() {
            Some(due) => {
                let left = due.saturating_duration_since(Instant::now());
                self.events.recv_timeout(left).ok()
            }
            None => self.events.recv().ok(),
        }
    }

    fn outcome(&self) -> Outcome {
        let failure = self.first_failure.as_ref();
        let first_failure = failure.map(|failure| Failure {
            last_lines: self.pumps.destination.last_lines(&failure.speaker),
            rank: match failure.speaker {
                Speaker::Rank(rank) => Some(rank),
                Speaker::Host(_) => None,
            },
            host: failure.host.clone(),
            cause: failure.cause,
            ended_before: failure.ended_before.clone(),
        });
        Outcome {
            first_failure,
            signal: self.signal,
            output_lost: self.output_lost,
        }
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
                let process = &mut self.members[member].process;
                let status = process.ended(self.grace);
                let status = status.map_err(LaunchError::system("cannot wait for a process"))?;
                let failed = Cause::of(status).map(|cause| (cause, Instant::now()));
                self.members[member].failed = failed;
                if let (None, Source::Rank(rank)) = (failed, &self.members[member].source) {
                    self.succeeded(*rank);
                }
            }
            Event::Announced(member, Announcement { rank, failure }) => match failure {
                None => self.succeeded(rank),
                Some(cause) => {
                    let host = self.members[member].source.host();
                    self.failed(Speaker::Rank(rank), host, cause);
                }
            },
            Event::OutputLost => self.output_lost = true,
            Event::Drained(member) => self.members[member].open_streams -= 1,
            Event::Told => self.voice_is_open = false,
        }
        Ok(())
    }

    /// A signal asks to end, for the first time or once more.
    fn asked(&mut self, signal: i32) {
        let name = signal_name(signal).unwrap_or("a signal");
        if self.all_are_gone() {
            self.impatient_since.get_or_insert_with(Instant::now);
        }
        match self.ending_since {
            None => {
                self.signal = Some(signal);
                self.say(|| format!("{name} is passed on to all ranks; once more kills them"));
                self.end(signal);
            }
            Some(since) if since.elapsed() >= AGAIN && signal != Signal::HUP.as_raw() => {
                self.say(|| format!("{name} once more: all ranks are killed"));
                self.impatient_since.get_or_insert_with(Instant::now);
                self.kill();
            }
            Some(_) => {}
        }
    }

    fn succeeded(&mut self, rank: usize) {
        self.succeeded.push(rank);
        if self.succeeded.len() == 1 {
            self.tell_of_others = Some(Instant::now() + OTHERS);
        }
        self.announce(rank, None);
    }

    fn failed(&mut self, speaker: Speaker, host: Option<String>, cause: Cause) {
        if let Speaker::Rank(rank) = &speaker {
            self.announce(*rank, Some(cause));
        }
        if self.ending_since.is_none() {
            self.say(|| format!("{speaker} has failed ({cause}); all others are ended"));
            self.first_failure = Some(FirstFailure {
                speaker,
                host,
                cause,
                ended_before: self.succeeded.clone(),
            });
            self.end(Signal::TERM.as_raw());
        }
    }

    /// Tells the launcher, if there is one.
    fn announce(&self, rank: usize, failure: Option<Cause>) {
        if self.role == Role::Node {
            self.tell(Announcement { rank, failure }.write());
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
            self.tell(format!("burn-dist: {}", text()));
        }
    }

    fn tell(&self, line: String) {
        if let Some(voice) = &self.voice {
            // It listens until it is closed.
            let _ = voice.send(line);
        }
    }
}
