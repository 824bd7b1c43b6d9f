//! A TCP connection.

use std::io::{self, IoSlice, Read};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::SendFlags;
use socket2::{SockRef, TcpKeepalive};

use super::lane::{Lane, LaneError, Readiness, Transport, now};
use super::window::Window;

/// Bytes that the system may hold on their way, as far as its limits (`net.core.wmem_max`) go.
const SOCKET_BUFFER: usize = 4 << 20;

/// A lane over a TCP connection.
#[derive(Debug)]
pub struct TcpLane {
    stream: TcpStream,
    arrived: Window,
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
            arrived: Window::new()?,
        })
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
            // A program in which SIGPIPE has its first meaning is to be told, not killed.
            match socket.send_vectored_with_flags(parts, SendFlags::NOSIGNAL.bits() as i32) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return now(result),
            }
        }
    }

    fn fill(&mut self, most: usize) -> Result<usize, LaneError> {
        self.arrived
            .fill(most, |into| Self::read(&mut self.stream, into))
    }

    fn peek(&self) -> &[u8] {
        self.arrived.bytes()
    }

    fn consume(&mut self, count: usize) {
        self.arrived.consume(count);
    }

    fn receive(&mut self, into: &mut [u8]) -> Result<usize, LaneError> {
        self.arrived
            .receive(into, |into| Self::read(&mut self.stream, into))
    }

    fn check(&self) -> Result<(), LaneError> {
        self.arrived.check()
    }

    fn readiness(&self) -> Readiness<'_> {
        Readiness::Descriptor(self.stream.as_fd())
    }

    fn transport(&self) -> Transport {
        Transport::Tcp
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_peer_that_has_gone_is_an_error_and_no_signal() {
        let signalled = Arc::new(AtomicBool::new(false));
        let pipe = signal_hook::consts::SIGPIPE;
        let handler = signal_hook::flag::register(pipe, signalled.clone()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        drop(listener.accept().unwrap());
        let mut lane = TcpLane::new(stream, Duration::from_secs(60)).unwrap();
        let began = std::time::Instant::now();
        // The first bytes are answered by the end of the connection.
        while lane.send(&[IoSlice::new(b"bytes")]).is_ok() {
            assert!(began.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(lane.send(&[IoSlice::new(b"more")]).is_err());
        assert!(!signalled.load(Ordering::SeqCst));
        signal_hook::low_level::unregister(handler);
    }
}
