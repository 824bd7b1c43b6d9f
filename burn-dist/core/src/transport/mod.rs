//! Bytes between two ranks.
//!
//! | module | what it is for |
//! |---|---|
//! | `lane` | what a transport offers |
//! | `tcp` | a TCP connection |
//! | `tls` | an encrypted one |
//! | `shm` | memory that two processes of a host share |
//! | `throttle` | a slower and later version of any of them |
//! | `waiting` | how a rank waits for several of them at once |
//! | `window` | what has arrived on a connection and was not consumed |
//! | `mirror` | memory that is mapped twice in a row |
//! | `file_size` | files of memory of a given size |
//!
//! # What a further transport has to offer
//!
//! 1. A [`Lane`] for each pair of ranks: an ordered, reliable stream of bytes in both directions that never waits.
//!    The rendezvous hands over an authenticated socket of the pair, over which the two sides exchange what
//!    they need (names of memory, numbers of queue pairs), and which stays open: its end is how a death is noticed
//!    first. Lanes of one pair may be several; the executor spreads messages over them.
//! 2. Of what arrives, a window of at least [`WINDOW`] bytes in its own memory, which the executor reduces from
//!    ([`Lane::peek`]) without a copy: a ring of shared memory, a receive buffer, staging slots of a network card.
//!    What it copies to its place ([`Lane::receive`]) a transport may write there by itself.
//! 3. A [`Readiness`]: a file descriptor that becomes readable or writable when a lane may go on.
//! 4. If the other side can read or write memory by itself, loans: [`Lane::lend`] and what belongs to it. A message is
//!    lent where the transport knows its memory, and the operation is over when all loans are back; so what is lent
//!    does not change meanwhile. The plans see to it that it does not change within the operation either. An
//!    operation that fails revokes its loans, and nothing that was read of them counts if that shows afterwards.
//! 5. Registration, for that: [`Buffer`](crate::Buffer)s are page-aligned and never move. A transport that has
//!    memory of its own, as shared memory has, gives it to [`World::alloc`](crate::World::alloc); one that registers
//!    memory does so there, and undoes it when a buffer is dropped.
//!
//! Knows no collective and no rendezvous.

mod file_size;
mod lane;
mod mirror;
mod shm;
mod tcp;
mod throttle;
#[cfg(feature = "tls")]
mod tls;
mod waiting;
mod window;

pub use lane::{Lane, LaneError, Readiness, Transport, WINDOW};
pub use shm::SharedMemoryError;
pub(crate) use shm::{Doorbell, Heap, Inbox, InboxOffer, Range, SharedMemoryLane};
pub use tcp::TcpLane;
pub use throttle::{Throttle, Throttled};
#[cfg(feature = "tls")]
pub(crate) use tls::TlsLane;
#[cfg(all(test, feature = "tls"))]
pub(crate) use tls::testing as tls_testing;
pub use waiting::Poll;
pub(crate) use waiting::{Interest, Waiting};
