//! Lines from the streams of a process to where they go, each stream in a thread of its own.

use std::io::{self, PipeReader, Read};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{ioctl_fionread, retry_on_intr};

use super::lines::{LONGEST, Lines};
use super::output::{Destination, Speaker, Stream, Writer};
use super::supervisor::Event;
use super::wire::{Announcement, line_of_rank};

/// What all pumps of a launch share.
#[derive(Clone)]
pub(super) struct Pumps {
    pub(super) destination: Arc<Destination>,
    pub(super) events: Sender<Event>,
    /// Closed on its other side when no process is left that should still write.
    pub(super) over: Arc<PipeReader>,
}

/// Who writes to a stream.
#[derive(Clone)]
pub(super) enum Source {
    Rank(usize),
    /// The node of a host and its ranks.
    Node {
        host: String,
        ranks: std::ops::Range<usize>,
    },
}

impl Pumps {
    /// Reads `from`, a stream of `member`, until its end in a new thread, which then says so.
    pub(super) fn start(
        &self,
        member: usize,
        source: Source,
        stream: Stream,
        from: impl Read + AsFd + Send + 'static,
    ) -> io::Result<()> {
        let pumps = self.clone();
        let name = "output".to_string();
        let thread = std::thread::Builder::new().name(name);
        thread.spawn(move || {
            // Closed when it cannot be written: who goes on writing then finds a broken pipe, as it
            // would without a launcher.
            if let Err(error) = pumps.run(member, &source, stream, from)
                && error.kind() != io::ErrorKind::BrokenPipe
            {
                let of = source.speaker().to_string();
                let text = format!("burn-dist: cannot write the output of {of}: {error}");
                pumps.destination.say(text);
                let _ = pumps.events.send(Event::OutputLost);
            }
            // Without a receiver the launch is over.
            let _ = pumps.events.send(Event::Drained(member));
        })?;
        Ok(())
    }

    /// Writes what is sent to it, each a line of this process's own on standard error, in a thread of
    /// its own: the supervisor must not wait for who reads the screen.
    pub(super) fn voice(&self) -> io::Result<Sender<String>> {
        let (sender, lines) = channel();
        let pumps = self.clone();
        let thread = std::thread::Builder::new().name("voice".to_string());
        thread.spawn(move || {
            for line in lines {
                pumps.destination.say(line);
            }
            let _ = pumps.events.send(Event::Told);
        })?;
        Ok(sender)
    }

    fn run(
        &self,
        member: usize,
        source: &Source,
        stream: Stream,
        from: impl Read + AsFd,
    ) -> io::Result<()> {
        let mut writer = Writer::new(self.destination.clone(), stream);
        let mut lines = Lines::new(source.longest());
        self.read(from, |bytes| {
            let mut result = Ok(());
            lines.push(bytes, |line| {
                if result.is_ok() {
                    result = self.line(member, source, stream, line, |speaker, text| {
                        writer.line(speaker, text)
                    });
                }
            });
            result?;
            writer.flush()
        })?;
        let mut result = Ok(());
        lines.finish(|line| {
            result = self.line(member, source, stream, line, |speaker, text| {
                writer.last_line(speaker, text)
            });
        });
        result?;
        writer.flush()
    }

    /// Hands a line to `write` as its speaker's, unless it is a node's announcement.
    fn line(
        &self,
        member: usize,
        source: &Source,
        stream: Stream,
        line: &[u8],
        write: impl FnOnce(&Speaker, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let Source::Node { ranks, .. } = source else {
            return write(&source.speaker(), line);
        };
        if stream == Stream::Error
            && let Some(announcement) = Announcement::read(line)
            && ranks.contains(&announcement.rank)
        {
            let _ = self.events.send(Event::Announced(member, announcement));
            return Ok(());
        }
        match line_of_rank(line).filter(|(rank, _)| ranks.contains(rank)) {
            Some((rank, text)) => write(&Speaker::Rank(rank), text),
            None => write(&source.speaker(), line),
        }
    }

    /// Calls `each` with what comes from `from`, until its end; or, once no process should still
    /// write, until what is in it was read: one that has escaped must not hold up the launcher.
    fn read(
        &self,
        mut from: impl Read + AsFd,
        mut each: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut buffer = vec![0; LONGEST];
        loop {
            let mut ready = [
                PollFd::new(&from, PollFlags::IN),
                PollFd::new(&*self.over, PollFlags::IN),
            ];
            retry_on_intr(|| poll(&mut ready, None))?;
            if !ready[1].revents().is_empty() {
                let left = ioctl_fionread(&from)?;
                let mut rest = from.take(left);
                loop {
                    match rest.read(&mut buffer)? {
                        0 => return Ok(()),
                        count => each(&buffer[..count])?,
                    }
                }
            }
            match from.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => each(&buffer[..count])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Source {
    /// Who it is where nothing else is said.
    pub(super) fn speaker(&self) -> Speaker {
        match self {
            Self::Rank(rank) => Speaker::Rank(*rank),
            Self::Node { host, .. } => Speaker::Host(host.clone()),
        }
    }

    /// The host where it is, if not this one.
    pub(super) fn host(&self) -> Option<String> {
        match self {
            Self::Rank(_) => None,
            Self::Node { host, .. } => Some(host.clone()),
        }
    }

    /// A node has put the rank before lines that are as long as they may be.
    fn longest(&self) -> usize {
        match self {
            Self::Rank(_) => LONGEST,
            Self::Node { .. } => LONGEST + 32,
        }
    }
}
