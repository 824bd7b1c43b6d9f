//! Hears who connects: processes of the job are passed on, strangers turned away.
//!
//! Each is heard in a thread of its own and for a few seconds only, so that nobody keeps the others from being
//! heard.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::de::DeserializeOwned;
use socket2::{Domain, Protocol, Socket, Type};

use super::credentials::Credentials;
use super::handshake::{PATIENCE, Side, recognise};
use super::stream::Stream;
use super::wire::{self, Until};
use crate::report::Report;

/// Connections that may wait to be accepted: all ranks of a large job at once.
const BACKLOG: i32 = 4096;
/// Connections that are heard at the same time; more are turned away, and ranks come again.
const HEARD: usize = 1024;

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
        let (credentials, report) = (credentials.clone(), report.clone());
        let hear = move |socket| hear(socket, &credentials, &purpose, &report);
        let thread = std::thread::Builder::new()
            .name("rendezvous".into())
            .spawn({
                let over = over.clone();
                move || accept_until(&over, &listener, &Arc::new(hear), &sender)
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

fn accept_until<T: Send + 'static>(
    over: &AtomicBool,
    listener: &TcpListener,
    hear: &Arc<impl Fn(TcpStream) -> Option<(T, Stream)> + Send + Sync + 'static>,
    sender: &Sender<(T, Stream)>,
) {
    let heard = Arc::new(AtomicUsize::new(0));
    while !over.load(Ordering::Acquire) {
        let Ok((socket, _)) = listener.accept() else {
            let mut polled = [PollFd::new(listener, PollFlags::IN)];
            let time = Timespec {
                tv_sec: 0,
                tv_nsec: 10_000_000,
            };
            // Late, interrupted or not at all: tried again, at worst at once.
            let _ = poll(&mut polled, Some(&time));
            continue;
        };
        if heard.load(Ordering::Acquire) >= HEARD || socket.set_nonblocking(false).is_err() {
            continue;
        }
        heard.fetch_add(1, Ordering::AcqRel);
        let (hear, sender, count) = (hear.clone(), sender.clone(), heard.clone());
        let thread = std::thread::Builder::new().stack_size(256 << 10);
        // Not waited for: who is still heard when all are there is a stranger.
        let started = thread.spawn(move || {
            if let Some(message) = hear(socket) {
                // Nobody waits for it any more if it comes late.
                let _ = sender.send(message);
            }
            count.fetch_sub(1, Ordering::AcqRel);
        });
        if started.is_err() {
            heard.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// What a new connection says, if it is of the job.
fn hear<T: DeserializeOwned>(
    socket: TcpStream,
    credentials: &Credentials,
    purpose: &[u8],
    report: &Report,
) -> Option<(T, Stream)> {
    let from = socket
        .peer_addr()
        .map_or("a stranger".to_owned(), |a| a.to_string());
    let turned_away = |error: &dyn std::fmt::Display| {
        report.note(&format!("turned {from} away: {error}"));
    };
    let stream = recognise(socket, Side::Accepts, credentials, purpose)
        .inspect_err(|error| turned_away(error))
        .ok()?;
    let mut until = Until {
        stream: &stream,
        deadline: Instant::now() + PATIENCE,
    };
    let message = wire::receive(&mut until)
        .inspect_err(|error| turned_away(error))
        .ok()?;
    Some((message, stream))
}
