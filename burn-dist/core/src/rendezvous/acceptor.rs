//! Hears who connects: processes of the job are passed on, strangers turned away.
//!
//! Who says nothing costs a file and no thread, and for a few seconds only; where files get scarce, who has been silent
//! for longest makes room for who comes. Who speaks is heard in a thread of its own. So nobody keeps the others from
//! being heard, and enough files are left for the job.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::de::DeserializeOwned;
use socket2::{Domain, Protocol, Socket, Type};

use super::credentials::Credentials;
use super::handshake::{PATIENCE, Side, recognise};
use super::refusals::Refusals;
use super::stream::Stream;
use super::wire::{self, Until};
use crate::host;
use crate::report::Report;

/// Connections that may wait to be accepted: all ranks of a large job at once.
const BACKLOG: i32 = 4096;
/// Connections that say nothing, and as many that are heard, at the same time; at most a quarter each of the files that
/// this process may open. More wait, and ranks come again.
const MOST: u64 = 1024;
/// Connections that are accepted before it is looked whether they say something.
const AT_ONCE: usize = 64;
/// The longest wait for anything to happen.
const LOOK: Duration = Duration::from_millis(10);

/// Listens on `address`; port 0 is any.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    // A port of a job that has just ended can be had.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Accepts connections until it is dropped, and closes the port then.
pub(super) struct Acceptor {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Acceptor {
    /// Starts to accept; what processes of the job say first, each with its connection.
    pub fn start<T: DeserializeOwned + Send + 'static>(
        listener: TcpListener,
        credentials: &Credentials,
        purpose: Vec<u8>,
        report: &Report,
    ) -> io::Result<(Self, Receiver<(T, Stream)>)> {
        listener.set_nonblocking(true)?;
        let over = Arc::new(AtomicBool::new(false));
        let (sender, heard) = channel();
        let (credentials, refusals) = (credentials.clone(), Refusals::new(report.clone()));
        let hearing = Arc::new(Hearing {
            credentials,
            purpose,
            refusals,
            heard: AtomicUsize::new(0),
        });
        let thread = std::thread::Builder::new()
            .name("rendezvous".into())
            .spawn({
                let over = over.clone();
                move || accept_until(&over, &listener, &hearing, &sender)
            })?;
        let thread = Some(thread);
        Ok((Self { over, thread }, heard))
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}

/// Who has connected.
struct Caller {
    socket: TcpStream,
    from: SocketAddr,
    /// When its time is over.
    until: Instant,
}

fn accept_until<T: DeserializeOwned + Send + 'static>(
    over: &AtomicBool,
    listener: &TcpListener,
    hearing: &Arc<Hearing>,
    sender: &Sender<(T, Stream)>,
) {
    let room = (host::files_left() / 4).clamp(1, MOST) as usize;
    let mut silent = VecDeque::new();
    while !over.load(Ordering::Acquire) {
        if hearing.heard.load(Ordering::Acquire) >= room {
            // All others wait, most of them where the system lets them.
            std::thread::sleep(LOOK);
        } else {
            let speaks = look(listener, &silent);
            let callers = std::mem::take(&mut silent).into_iter();
            for (caller, speaks) in callers.zip(speaks) {
                if speaks && hearing.heard.load(Ordering::Acquire) < room {
                    hearing.start(caller, sender);
                } else {
                    silent.push_back(caller);
                }
            }
            accept(listener, &mut silent, room.min(AT_ONCE));
        }
        let now = Instant::now();
        while silent.front().is_some_and(|caller| caller.until <= now) || silent.len() > room {
            let reason = if silent.len() > room {
                "it says nothing while many connect"
            } else {
                "it says nothing"
            };
            if let Some(caller) = silent.pop_front() {
                hearing.refusals.add(caller.from, &reason);
            }
        }
    }
}

/// Waits until somebody connects or one of `silent` says something: which of them do.
fn look(listener: &TcpListener, silent: &VecDeque<Caller>) -> Vec<bool> {
    let sockets = silent
        .iter()
        .map(|caller| PollFd::new(&caller.socket, PollFlags::IN));
    let mut polled: Vec<PollFd<'_>> = sockets
        .chain([PollFd::new(listener, PollFlags::IN)])
        .collect();
    let time = Timespec {
        tv_sec: 0,
        tv_nsec: LOOK.as_nanos() as i64,
    };
    // Late, interrupted or not at all: tried again, at worst at once.
    let _ = poll(&mut polled, Some(&time));
    let happened = polled[..silent.len()].iter();
    happened.map(|one| !one.revents().is_empty()).collect()
}

/// Accepts up to `count` connections that wait.
fn accept(listener: &TcpListener, silent: &mut VecDeque<Caller>, count: usize) {
    for _ in 0..count {
        match listener.accept() {
            Ok((socket, from)) if socket.set_nonblocking(false).is_ok() => {
                let until = Instant::now() + PATIENCE;
                silent.push_back(Caller {
                    socket,
                    from,
                    until,
                });
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(_) => {
                // Most likely the program has no file left: not tried again at once.
                std::thread::sleep(LOOK);
                return;
            }
        }
    }
}

/// What is needed to hear who connects.
struct Hearing {
    credentials: Credentials,
    purpose: Vec<u8>,
    refusals: Refusals,
    /// How many are heard now.
    heard: AtomicUsize,
}

impl Hearing {
    /// Hears `caller` in a thread of its own.
    fn start<T: DeserializeOwned + Send + 'static>(
        self: &Arc<Self>,
        caller: Caller,
        sender: &Sender<(T, Stream)>,
    ) {
        self.heard.fetch_add(1, Ordering::AcqRel);
        let (hearing, sender) = (self.clone(), sender.clone());
        let thread = std::thread::Builder::new().stack_size(256 << 10);
        // Not waited for: who is still heard when all are there is a stranger.
        let started = thread.spawn(move || {
            if let Some(message) = hearing.hear(caller) {
                // Nobody waits for it any more if it comes late.
                let _ = sender.send(message);
            }
            hearing.heard.fetch_sub(1, Ordering::AcqRel);
        });
        if started.is_err() {
            self.heard.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// What a new connection says, if it is of the job.
    fn hear<T: DeserializeOwned>(&self, caller: Caller) -> Option<(T, Stream)> {
        let Caller {
            socket,
            from,
            until,
        } = caller;
        let (credentials, purpose) = (&self.credentials, &self.purpose);
        let stream = recognise(socket, Side::Accepts, credentials, purpose, until)
            .inspect_err(|error| self.refusals.add(from, error))
            .ok()?;
        let mut until = Until {
            stream: &stream,
            deadline: Instant::now() + PATIENCE,
        };
        let message = wire::receive(&mut until)
            .inspect_err(|error| self.refusals.add(from, error))
            .ok()?;
        Some((message, stream))
    }
}
