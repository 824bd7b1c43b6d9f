//! A TCP connection.

use std::io::{self, IoSlice, Read};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

use super::lane::{Lane, LaneError, Readiness, Transport, WINDOW, now};
use super::mirror::Mirror;

/// Bytes that the system may hold on their way, as far as its limits (`net.core.wmem_max`) go.
const SOCKET_BUFFER: usize = 4 << 20;

/// A lane over a TCP connection.
#[derive(Debug)]
pub struct TcpLane {
    stream: TcpStream,
    /// What has arrived and was not consumed: from `consumed` to `filled` of the stream.
    arrived: Mirror,
    consumed: u64,
    filled: u64,
    /// Nothing comes behind what is at hand.
    ended: bool,
}

impl TcpLane {
    /// Takes over an open connection. A peer of which nothing is heard for `silence` while bytes are on their
    /// way is given up.
    ///
    /// # Errors
    ///
    /// If the system refuses an option of the socket, or memory.
    pub fn new(stream: TcpStream, silence: Duration) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        prepare(&stream, silence)?;
        Ok(Self {
            stream,
            arrived: Mirror::private(WINDOW)?,
            consumed: 0,
            filled: 0,
            ended: false,
        })
    }

    fn at_hand(&self) -> usize {
        (self.filled - self.consumed) as usize
    }

    /// Reads into `into` once.
    fn read(stream: &mut TcpStream, into: &mut [u8]) -> Result<usize, LaneError> {
        loop {
            match stream.read(into) {
                Ok(0) if !into.is_empty() => return Err(LaneError::Closed),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return now(result),
            }
        }
    }
}

/// Small messages at once, room for large ones, and an end to waiting for a host that is gone.
pub(crate) fn prepare(stream: &TcpStream, silence: Duration) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    socket.set_send_buffer_size(SOCKET_BUFFER)?;
    socket.set_tcp_user_timeout(Some(silence))?;
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(10))
        .with_interval(Duration::from_secs(5))
        .with_retries(3);
    socket.set_tcp_keepalive(&keepalive)
}

impl Lane for TcpLane {
    fn send(&mut self, parts: &[IoSlice<'_>]) -> Result<usize, LaneError> {
        let socket = SockRef::from(&self.stream);
        loop {
            match socket.send_vectored(parts) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return now(result),
            }
        }
    }

    fn fill(&mut self, most: usize) -> Result<usize, LaneError> {
        let at_hand = self.at_hand();
        let Some(missing) = most.min(WINDOW).checked_sub(at_hand).filter(|m| *m > 0) else {
            return Ok(at_hand);
        };
        // SAFETY: behind what is at hand, and so of no borrow of `peek`; the memory is private to this lane.
        let free = unsafe { self.arrived.bytes_mut(self.filled, missing) };
        match Self::read(&mut self.stream, free) {
            Ok(count) => self.filled += count as u64,
            // It may be enough; if it is not, `check` says that no more comes.
            Err(_) if at_hand > 0 => self.ended = true,
            Err(error) => return Err(error),
        }
        Ok(self.at_hand())
    }

    fn peek(&self) -> &[u8] {
        // SAFETY: only `fill` writes, which borrows the lane for itself.
        unsafe { self.arrived.bytes(self.consumed, self.at_hand()) }
    }

    fn consume(&mut self, count: usize) {
        assert!(count <= self.at_hand(), "more than is at hand");
        self.consumed += count as u64;
    }

    fn receive(&mut self, into: &mut [u8]) -> Result<usize, LaneError> {
        let count = self.at_hand().min(into.len());
        let (first, rest) = into.split_at_mut(count);
        first.copy_from_slice(&self.peek()[..count]);
        self.consume(count);
        if rest.is_empty() {
            return Ok(count);
        }
        match Self::read(&mut self.stream, rest) {
            Ok(more) => {
                // As if it had been at hand, so that what follows is aligned as it was in the stream.
                self.filled += more as u64;
                self.consumed = self.filled;
                Ok(count + more)
            }
            Err(_) if count > 0 => Ok(count),
            Err(error) => Err(error),
        }
    }

    fn check(&self) -> Result<(), LaneError> {
        if self.ended {
            Err(LaneError::Closed)
        } else {
            Ok(())
        }
    }

    fn readiness(&self) -> Readiness<'_> {
        Readiness::Descriptor(self.stream.as_fd())
    }

    fn transport(&self) -> Transport {
        Transport::Tcp
    }
}
