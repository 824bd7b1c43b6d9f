//! What a transport offers.

use std::fmt::{Display, Formatter};
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::str::FromStr;
use std::time::Instant;

use serde::{Deserialize, Serialize};

/// Bytes that a lane can hold for [`Lane::peek`], at least.
pub const WINDOW: usize = 128 << 10;

/// An ordered, reliable stream of bytes from and to a peer. No method waits.
pub trait Lane: Send {
    /// Takes the first bytes of `parts`, one after the other, as many as go now; 0 if none do.
    ///
    /// # Errors
    ///
    /// If the peer is gone.
    fn send(&mut self, parts: &[IoSlice<'_>]) -> Result<usize, LaneError>;

    /// Passes on what was taken and still waits in this process; whether that is all gone. Called again while it is not,
    /// with [`Readiness`] to write in between.
    ///
    /// # Errors
    ///
    /// If the peer is gone.
    fn flush(&mut self) -> Result<bool, LaneError> {
        Ok(true)
    }

    /// Looks for bytes that have arrived until `most` are at hand, and says how many are. `most` is at most
    /// [`WINDOW`].
    ///
    /// # Errors
    ///
    /// If the peer is gone and all that it has sent is at hand.
    fn fill(&mut self, most: usize) -> Result<usize, LaneError>;

    /// The bytes at hand, aligned as they were in the stream: at least to 8.
    fn peek(&self) -> &[u8];

    /// Gives up the first `count` bytes at hand.
    fn consume(&mut self, count: usize);

    /// Writes what has arrived to `into`, beginning with the bytes at hand; how many.
    ///
    /// # Errors
    ///
    /// If the peer is gone and all that it has sent is received.
    fn receive(&mut self, into: &mut [u8]) -> Result<usize, LaneError>;

    /// Lends `bytes` to the peer, which reads them where they are: the place that it has to be told. `None` if it cannot,
    /// and they have to be sent.
    fn lend(&mut self, bytes: &[u8]) -> Option<u64> {
        let _ = bytes;
        None
    }

    /// Whether the peer has given back all that was lent to it.
    fn is_paid_back(&self) -> bool {
        true
    }

    /// `count` bytes that the peer has lent.
    ///
    /// # Errors
    ///
    /// If it has no such bytes to lend.
    fn borrow(&self, place: u64, count: usize) -> Result<&[u8], LaneError> {
        let _ = (place, count);
        Err(LaneError::Broken("that it lends, which it cannot"))
    }

    /// Whether the peer still lends: asked when what was borrowed has been read and before it counts, as a peer whose
    /// operation has failed may have written to it meanwhile.
    ///
    /// # Errors
    ///
    /// If it does not.
    fn check_loans(&self) -> Result<(), LaneError> {
        Ok(())
    }

    /// Gives back what was borrowed.
    fn give_back(&mut self) {}

    /// Tells the peer that nothing is lent any more, as the operation has failed and its memory goes back to the program.
    fn revoke_loans(&mut self) {}

    /// Looks whether the peer still lives, where that shows nowhere else: asked while nothing moves.
    ///
    /// # Errors
    ///
    /// If it does not.
    fn check(&self) -> Result<(), LaneError> {
        Ok(())
    }

    /// How to wait until more arrives or goes.
    fn readiness(&self) -> Readiness<'_>;

    /// What carries the bytes.
    fn transport(&self) -> Transport;
}

/// How to wait for a lane.
#[derive(Debug)]
pub enum Readiness<'a> {
    /// Until the descriptor can be read or written.
    Descriptor(BorrowedFd<'a>),
    /// Until this process is woken by the peer, which does so for whom it finds asleep; the descriptor is
    /// readable if it has done so by a byte.
    Doorbell {
        /// The socket of the pair.
        socket: BorrowedFd<'a>,
        /// Something has arrived since the last look.
        arrived: bool,
        /// Space has become free since the last look.
        freed: bool,
        /// All loans are back.
        paid_back: bool,
    },
    /// Until a time, or as another lane.
    Until(Instant, Box<Readiness<'a>>),
}

/// What carries the bytes between two ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// A TCP connection.
    Tcp,
    /// Shared memory.
    Shm,
}

impl Display for Transport {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Shm => "shm",
        })
    }
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "tcp" => Ok(Self::Tcp),
            "shm" => Ok(Self::Shm),
            _ => Err("expected tcp or shm".to_owned()),
        }
    }
}

/// Why a lane has ended.
#[derive(Debug, thiserror::Error)]
pub enum LaneError {
    /// The peer has closed its end, or does not live any more.
    #[error("its connection was closed")]
    Closed,
    /// The system says so.
    #[error("its connection has failed: {0}")]
    Io(#[from] io::Error),
    /// The peer has taken back what it had lent.
    #[error("it has given the operation up")]
    Revoked,
    /// The peer breaks the rules of shared memory.
    #[error("the memory that it shares says {0}")]
    Broken(&'static str),
}

/// `result`, where "not now" is no bytes.
pub(super) fn now(result: io::Result<usize>) -> Result<usize, LaneError> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        result => Ok(result?),
    }
}
