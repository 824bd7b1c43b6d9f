//! An encrypted TCP connection.

use std::io::{self, BufReader, ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::Duration;

use rustls::Connection;

use super::lane::{Lane, LaneError, Readiness, Transport};
use super::tcp::prepare;
use super::window::Window;

/// Bytes that are read from the system at once.
const ARRIVING: usize = 64 << 10;
/// Bytes that wait encrypted in this process for room in the system's buffers, at most.
const LEAVING: usize = 128 << 10;

/// A lane over a TCP connection that is encrypted.
#[derive(Debug)]
pub(crate) struct TlsLane {
    encrypted: Encrypted,
    arrived: Window,
}

/// A connection that never waits.
#[derive(Debug)]
struct Encrypted {
    socket: BufReader<TcpStream>,
    connection: Connection,
}

impl TlsLane {
    /// Takes over an open connection whose handshake is done. A peer of which nothing is heard for `silence` while
    /// bytes are on their way is given up.
    ///
    /// # Errors
    ///
    /// If the system refuses an option of the socket, or memory.
    pub fn new(
        socket: TcpStream,
        mut connection: Connection,
        silence: Duration,
    ) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        prepare(&socket, silence)?;
        connection.set_buffer_limit(Some(LEAVING));
        Ok(Self {
            encrypted: Encrypted {
                socket: BufReader::with_capacity(ARRIVING, socket),
                connection,
            },
            arrived: Window::new()?,
        })
    }
}

impl Encrypted {
    /// Decrypts into `into` until it is full or no more has come.
    fn read(&mut self, into: &mut [u8]) -> Result<usize, LaneError> {
        let mut count = 0;
        while count < into.len() {
            let outcome = match self.connection.reader().read(&mut into[count..]) {
                // It has said farewell.
                Ok(0) => Err(LaneError::Closed),
                Ok(more) => {
                    count += more;
                    continue;
                }
                // All that is decrypted is read, so that there is room for more.
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.decrypt(),
                // It has not, and may have been cut off.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(LaneError::Closed),
                Err(error) => Err(error.into()),
            };
            match outcome {
                Ok(true) => {}
                Err(error) if count == 0 => return Err(error),
                // What has failed fails again.
                Ok(false) | Err(_) => break,
            }
        }
        Ok(count)
    }

    /// Decrypts something of what has come; whether there was anything, or the end.
    fn decrypt(&mut self) -> Result<bool, LaneError> {
        match self.connection.read_tls(&mut self.socket) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(error.into()),
            Ok(_) => {}
        }
        let processed = self.connection.process_new_packets();
        processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        Ok(true)
    }

    /// Passes on what is encrypted, as much as goes; whether that was all.
    fn flush(&mut self) -> Result<bool, LaneError> {
        while self.connection.wants_write() {
            match self.connection.write_tls(self.socket.get_mut()) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                written => drop(written?),
            }
        }
        Ok(true)
    }
}

impl Drop for Encrypted {
    fn drop(&mut self) {
        self.connection.send_close_notify();
        // As far as it goes: the peer takes a connection without a farewell for one that was cut off, which ends it as well.
        let _ = self.flush();
    }
}

impl Lane for TlsLane {
    fn send(&mut self, parts: &[IoSlice<'_>]) -> Result<usize, LaneError> {
        let mut parts = parts.to_vec();
        let mut rest = parts.as_mut_slice();
        let mut sent = 0;
        loop {
            // In one record, as far as it goes.
            let taken = self.encrypted.connection.writer().write_vectored(rest)?;
            sent += taken;
            IoSlice::advance_slices(&mut rest, taken);
            if !self.flush()? || rest.is_empty() {
                return Ok(sent);
            }
        }
    }

    fn flush(&mut self) -> Result<bool, LaneError> {
        self.encrypted.flush()
    }

    fn fill(&mut self, most: usize) -> Result<usize, LaneError> {
        self.arrived.fill(most, |into| self.encrypted.read(into))
    }

    fn peek(&self) -> &[u8] {
        self.arrived.bytes()
    }

    fn consume(&mut self, count: usize) {
        self.arrived.consume(count);
    }

    fn receive(&mut self, into: &mut [u8]) -> Result<usize, LaneError> {
        self.arrived.receive(into, |into| self.encrypted.read(into))
    }

    fn check(&self) -> Result<(), LaneError> {
        self.arrived.check()
    }

    fn readiness(&self) -> Readiness<'_> {
        Readiness::Descriptor(self.encrypted.socket.get_ref().as_fd())
    }

    fn transport(&self) -> Transport {
        Transport::Tcp
    }
}

/// Both ends of lanes for a test.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod testing {
    use std::net::TcpListener;

    use super::*;
    use crate::tls::Tls;

    pub const SILENCE: Duration = Duration::from_secs(60);

    /// The two ends of a connection that is encrypted already.
    pub fn ends() -> [(TcpStream, Connection); 2] {
        let tls = Tls::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let other = listener.accept().unwrap().0;
        let ends = [(one, tls.connects()), (other, tls.accepts())];
        let threads = ends.map(|(mut socket, connection)| {
            std::thread::spawn(move || {
                let mut connection = connection.unwrap();
                while connection.is_handshaking() {
                    connection.complete_io(&mut socket).unwrap();
                }
                (socket, connection)
            })
        });
        threads.map(|thread| thread.join().unwrap())
    }

    pub fn lanes() -> [TlsLane; 2] {
        ends().map(|(socket, connection)| TlsLane::new(socket, connection, SILENCE).unwrap())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Instant;

    use proptest::prelude::*;

    use super::super::WINDOW;
    use super::testing::{SILENCE, ends, lanes};
    use super::*;

    fn numbers(count: usize) -> Vec<u8> {
        (0..count).map(|i| (i * 31 + i / 251) as u8).collect()
    }

    /// A way to take bytes.
    #[derive(Clone, Copy, Debug)]
    enum Take {
        Window { most: usize, consume: usize },
        Copy(usize),
    }

    fn takes() -> impl Strategy<Value = Take> {
        let sizes = || prop_oneof![0usize..20, 0usize..5_000, 0usize..WINDOW];
        prop_oneof![
            (sizes(), sizes()).prop_map(|(most, consume)| Take::Window { most, consume }),
            sizes().prop_map(Take::Copy),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
        #[test]
        fn bytes_of_any_size_arrive_in_order_and_aligned(
            messages in proptest::collection::vec(
                proptest::collection::vec(prop_oneof![0usize..3, 0usize..200, 0usize..60_000], 1..4),
                1..8,
            ),
            takes in proptest::collection::vec(takes(), 1..20),
        ) {
            let [mut one, mut other] = lanes();
            let all = numbers(messages.iter().flatten().sum());
            let (mut begun, mut sent, mut received) = (0, 0, Vec::<u8>::new());
            let mut messages = messages.iter();
            // The rest in pieces of an odd size.
            let mut takes = takes.into_iter().chain(std::iter::repeat(Take::Copy(4_099)));
            let began = Instant::now();
            while received.len() < all.len() {
                prop_assert!(began.elapsed() < SILENCE, "{} of {}", received.len(), all.len());
                if sent == begun {
                    begun += messages.next().map_or(0, |parts| parts.iter().sum());
                }
                let (first, second) = all[sent..begun].split_at((begun - sent) / 3);
                sent += one.send(&[IoSlice::new(first), IoSlice::new(second)]).unwrap();
                one.flush().unwrap();
                match takes.next() {
                    Some(Take::Window { most, consume }) => {
                        let at_hand = other.fill(most).unwrap();
                        let bytes = other.peek();
                        prop_assert_eq!(bytes.len(), at_hand);
                        prop_assert_eq!(bytes.as_ptr() as usize % 8, received.len() % 8);
                        let count = consume.min(at_hand);
                        received.extend(&bytes[..count]);
                        other.consume(count);
                    }
                    Some(Take::Copy(count)) => {
                        let mut into = vec![0; count];
                        let count = other.receive(&mut into).unwrap();
                        received.extend(&into[..count]);
                    }
                    None => unreachable!("they are repeated"),
                }
            }
            prop_assert!(received == all);
        }
    }

    #[test]
    fn what_does_not_fit_is_kept_until_it_is_flushed() {
        let [mut one, mut other] = lanes();
        let all = numbers(64 << 20);
        let mut sent = 0;
        // More than the buffers of both sides hold.
        loop {
            match one.send(&[IoSlice::new(&all[sent..])]).unwrap() {
                0 => break,
                taken => sent += taken,
            }
        }
        assert!(sent < all.len() && !one.flush().unwrap());
        let (mut received, mut into) = (0, vec![0; 1 << 20]);
        while received < sent {
            let count = other.receive(&mut into).unwrap();
            assert!(into[..count] == all[received..received + count]);
            received += count;
            one.flush().unwrap();
        }
        assert!(one.flush().unwrap());
    }

    #[test]
    fn an_end_comes_after_all_that_was_sent() {
        let [mut one, mut other] = lanes();
        one.send(&[IoSlice::new(b"farewell")]).unwrap();
        drop(one);
        let began = Instant::now();
        while other.fill(8).unwrap() < 8 {
            assert!(began.elapsed() < SILENCE);
        }
        assert_eq!(other.peek(), b"farewell");
        other.check().unwrap();
        // More than there is will not come.
        while other.check().is_ok() {
            assert_eq!(other.fill(9).unwrap(), 8);
            assert!(began.elapsed() < SILENCE);
        }
        other.consume(8);
        assert!(matches!(other.fill(1), Err(LaneError::Closed)));
    }

    #[test]
    fn what_is_cut_off_or_damaged_is_an_error() {
        let [(socket, connection), (cut, _)] = ends();
        let mut lane = TlsLane::new(socket, connection, SILENCE).unwrap();
        // Nothing has come, and its end is no farewell.
        assert_eq!(lane.receive(&mut [0]).unwrap(), 0);
        drop(cut);
        let began = Instant::now();
        let error = loop {
            assert!(began.elapsed() < SILENCE);
            match lane.receive(&mut [0]) {
                Ok(count) => assert_eq!(count, 0),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, LaneError::Closed), "{error}");

        let [(socket, connection), (mut other, mut theirs)] = ends();
        let mut lane = TlsLane::new(socket, connection, SILENCE).unwrap();
        let mut record = Vec::new();
        theirs.writer().write_all(b"as it was").unwrap();
        theirs.write_tls(&mut record).unwrap();
        record[9] ^= 1;
        other.write_all(&record).unwrap();
        let error = loop {
            assert!(began.elapsed() < SILENCE);
            match lane.receive(&mut [0]) {
                Ok(count) => assert_eq!(count, 0),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, LaneError::Io(_)), "{error}");
    }
}
