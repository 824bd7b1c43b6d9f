//! Two rings and two doorbells as a lane.

use std::io::IoSlice;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::doorbell::Doorbell;
use super::heap::{Heap, LentHeap};
use super::inbox::{Inbox, InboxOffer, SharedMemoryError};
use super::ring::{Reader, Writer};
use crate::transport::lane::{Lane, LaneError, Readiness, Transport};

/// A lane to another rank of this host.
#[derive(Debug)]
pub(crate) struct SharedMemoryLane {
    arriving: Reader,
    leaving: Writer,
    /// Of the peer.
    doorbell: Doorbell,
    /// What this rank lends from.
    heap: Option<Arc<Heap>>,
    /// What it borrows from.
    theirs: Option<LentHeap>,
    /// The peer borrows.
    lends: bool,
    /// Loans since the start.
    lent: u64,
    /// Of the pair: a byte wakes who waits for sockets, its end says that the peer is gone.
    socket: TcpStream,
}

impl SharedMemoryLane {
    /// A lane from the ring `own_ring` of `inbox` and the ring `ring` of what the peer has offered.
    pub fn new(
        inbox: &Inbox,
        own_ring: usize,
        offer: &InboxOffer,
        ring: usize,
        socket: TcpStream,
    ) -> Result<Self, SharedMemoryError> {
        let opened = offer.open(ring)?;
        let arriving = inbox.reader(own_ring)?;
        Ok(Self {
            arriving,
            leaving: opened.writer,
            doorbell: opened.doorbell,
            heap: inbox.heap().cloned(),
            theirs: opened.heap,
            lends: false,
            lent: 0,
            socket,
        })
    }
}

impl SharedMemoryLane {
    /// Whether this side can read what the other lends.
    pub fn borrows(&self) -> bool {
        self.theirs.is_some()
    }

    /// The other side can.
    pub fn allow_loans(&mut self) {
        self.lends = true;
    }
}

impl Lane for SharedMemoryLane {
    fn send(&mut self, parts: &[IoSlice<'_>]) -> Result<usize, LaneError> {
        let mut sent = 0;
        for part in parts {
            let taken = self.leaving.write(part)?;
            sent += taken;
            if taken < part.len() {
                break;
            }
        }
        if sent > 0 {
            self.leaving.publish();
            self.doorbell.ring(&self.socket);
        }
        Ok(sent)
    }

    fn fill(&mut self, _most: usize) -> Result<usize, LaneError> {
        self.arriving.look()
    }

    fn peek(&self) -> &[u8] {
        self.arriving.bytes()
    }

    fn consume(&mut self, count: usize) {
        self.arriving.consume(count);
        self.doorbell.ring(&self.socket);
    }

    fn receive(&mut self, into: &mut [u8]) -> Result<usize, LaneError> {
        let count = self.arriving.look()?.min(into.len());
        if count > 0 {
            into[..count].copy_from_slice(&self.arriving.bytes()[..count]);
            self.consume(count);
        }
        Ok(count)
    }

    fn lend(&mut self, bytes: &[u8]) -> Option<u64> {
        let place = self.heap.as_ref().filter(|_| self.lends)?.place(bytes)?;
        self.lent += 1;
        Some(place)
    }

    fn is_paid_back(&self) -> bool {
        self.lent == self.leaving.returned()
    }

    fn borrow(&self, place: u64, count: usize) -> Result<&[u8], LaneError> {
        let heap = self.theirs.as_ref();
        // SAFETY: the peer has told the place, and has it back only by `give_back`, which borrows the lane for itself, or
        // after it has revoked its loans: `check_loans`.
        let bytes = heap.and_then(|heap| unsafe { heap.bytes(place, count) });
        bytes.ok_or(LaneError::Broken("that it lends what it has not"))
    }

    fn check_loans(&self) -> Result<(), LaneError> {
        if self.arriving.is_revoked() {
            return Err(LaneError::Revoked);
        }
        Ok(())
    }

    fn revoke_loans(&mut self) {
        self.leaving.revoke();
    }

    fn give_back(&mut self) {
        self.arriving.give_back();
        self.doorbell.ring(&self.socket);
    }

    fn check(&self) -> Result<(), LaneError> {
        // What wakes hides the end behind it, and has done its work.
        let mut bytes = [0; 64];
        loop {
            match recv(&self.socket, &mut bytes, RecvFlags::DONTWAIT) {
                Ok((1.., _)) | Err(Errno::INTR) => {}
                // It may have left after its last message, which then is at hand.
                Ok((0, _)) if !self.arriving.has_unread() => return Err(LaneError::Closed),
                Ok((0, _)) | Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(std::io::Error::from(error).into()),
            }
        }
    }

    fn readiness(&self) -> Readiness<'_> {
        Readiness::Doorbell {
            socket: self.socket.as_fd(),
            arrived: self.arriving.has_more_since(),
            freed: self.leaving.has_room_since(),
            paid_back: self.is_paid_back(),
        }
    }

    fn transport(&self) -> Transport {
        Transport::Shm
    }
}
