//! Messages of the rendezvous and of supervision: a length in four bytes, and JSON.
//!
//! Lengths are bounded before anything is allocated, and reading has a deadline, so that a stranger can neither fill the
//! memory nor hold a thread.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::stream::Stream;

/// Bytes of a message, at most: a roster of ten thousand ranks.
const LONGEST: usize = 4 << 20;

/// Why there is no message.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WireError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("a message of {0} bytes, more than {LONGEST}")]
    Long(usize),
    #[error("no message of this protocol: {0}")]
    Content(#[from] serde_json::Error),
}

/// Sends a message.
pub(crate) fn send<T: Serialize>(stream: &mut impl Write, message: &T) -> Result<(), WireError> {
    let content = serde_json::to_vec(message)?;
    if content.len() > LONGEST {
        return Err(WireError::Long(content.len()));
    }
    let mut bytes = (content.len() as u32).to_le_bytes().to_vec();
    bytes.extend(content);
    Ok(stream.write_all(&bytes)?)
}

/// Receives a message.
pub(crate) fn receive<T: DeserializeOwned>(stream: &mut impl Read) -> Result<T, WireError> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST {
        return Err(WireError::Long(length));
    }
    let mut content = Vec::new();
    // As much as comes, and not as much as is said.
    stream.take(length as u64).read_to_end(&mut content)?;
    if content.len() < length {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    Ok(serde_json::from_slice(&content)?)
}

/// A stream whose reads and writes end at a time.
#[derive(Debug)]
pub(crate) struct Until<'a> {
    pub stream: &'a Stream,
    pub deadline: Instant,
}

impl Until<'_> {
    /// The next byte, which stays to be read; `None` at the end.
    #[cfg(feature = "tls")]
    pub fn peek(&self) -> io::Result<Option<u8>> {
        let mut byte = [0];
        let socket = self.stream.socket();
        loop {
            socket.set_read_timeout(Some(self.rest()?))?;
            match socket.peek(&mut byte) {
                // With a time limit a signal ends the call, whatever its handler says.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => {
                    let count = outcome.map_err(timed_out)?;
                    return Ok((count > 0).then_some(byte[0]));
                }
            }
        }
    }

    fn rest(&self) -> io::Result<Duration> {
        let rest = self.deadline.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(rest)
    }
}

impl Read for Until<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.socket().set_read_timeout(Some(self.rest()?))?;
        (&mut &*self.stream).read(into).map_err(timed_out)
    }
}

impl Write for Until<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.socket().set_write_timeout(Some(self.rest()?))?;
        (&mut &*self.stream).write(bytes).map_err(timed_out)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The system calls a time limit "try again".
fn timed_out(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => error,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_come_back() {
        let mut bytes = Vec::new();
        send(&mut bytes, &("rank", 3)).unwrap();
        let back: (String, usize) = receive(&mut bytes.as_slice()).unwrap();
        assert_eq!(back, ("rank".to_owned(), 3));
    }

    #[test]
    fn a_length_from_outside_is_bounded() {
        let long = u32::MAX.to_le_bytes();
        let refused = receive::<String>(&mut long.as_slice()).unwrap_err();
        assert!(matches!(refused, WireError::Long(_)), "{refused}");
        let cut = [3, 0, 0, 0, b'"'];
        assert!(matches!(
            receive::<String>(&mut cut.as_slice()),
            Err(WireError::Io(_))
        ));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_none(bytes: Vec<u8>) {
            let _ = receive::<Vec<String>>(&mut bytes.as_slice());
        }
    }
}
