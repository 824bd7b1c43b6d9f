//! Memory that two processes of a host share.
//!
//! Each rank has an *inbox*, one file of memory with a ring of bytes for each rank of its host and a doorbell by which
//! they wake it. The file has no name, and others open it by the number of its owner: a job that is killed leaves
//! nothing behind, and what a container allows in `/dev/shm` does not matter. Between containers that share an IPC
//! namespace and not the numbers of processes, it has a name in `/dev/shm`, which is gone as soon as all have opened
//! it. Where it is to be found is told over the authenticated sockets of the pairs.
//!
//! Nothing in it is encrypted, with `BURN_DIST_TLS=1` neither: it never leaves the host, the file is open to its user alone, and
//! whoever is that user or root can read the memory of the processes anyway. What two ranks say to agree on it is
//! encrypted; the wake-up bytes that their socket carries afterwards are zeros.
//!
//! | module | what it is for |
//! |---|---|
//! | `segment` | the file, its mapping, and the numbers in it that both sides read and write |
//! | `ring` | bytes from one writer to one reader |
//! | `doorbell` | waking a process that sleeps |
//! | `heap` | memory that others read in place |
//! | `inbox` | the file of a rank, made and opened |
//! | `lane` | two rings and two doorbells as a lane |

mod doorbell;
mod heap;
mod inbox;
mod lane;
mod ring;
mod segment;

pub(crate) use doorbell::Doorbell;
pub(crate) use heap::{Heap, Range};
pub use inbox::SharedMemoryError;
pub(crate) use inbox::{Inbox, InboxOffer};
pub(crate) use lane::SharedMemoryLane;
