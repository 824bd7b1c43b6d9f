//! Waking a process that sleeps.
//!
//! Two numbers in the inbox of the sleeper: how it sleeps, and how often it was woken. Who has written to a ring or
//! read from one looks at the first; so nobody calls the system for a process that is awake.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

use rustix::net::{SendFlags, send};
use rustix::thread::futex;

use super::segment::Segment;

/// Offset of how a process sleeps.
const SLEEP: usize = 64;
/// Offset of how often it was woken, which is what it waits for.
const RUNG: usize = 128;

const AWAKE: u32 = 0;
/// On the number itself.
const ON_NUMBER: u32 = 1;
/// On its sockets: a byte wakes it.
const ON_SOCKETS: u32 = 2;

/// The doorbell of an inbox.
#[derive(Clone, Debug)]
pub(crate) struct Doorbell(Arc<Segment>);

impl Doorbell {
    pub(super) fn of(inbox: &Arc<Segment>) -> Self {
        Self(inbox.clone())
    }

    fn sleep(&self) -> &AtomicU32 {
        self.0.word(SLEEP)
    }

    fn rung(&self) -> &AtomicU32 {
        self.0.word(RUNG)
    }

    /// Wakes the owner, if it sleeps. What it is to find has to be written before.
    pub(super) fn ring(&self, socket: &TcpStream) {
        // Either the owner finds what was written, or this finds it asleep: the fence of `before_sleep`.
        fence(Ordering::SeqCst);
        if self.sleep().load(Ordering::Relaxed) == AWAKE {
            return;
        }
        match self.sleep().swap(AWAKE, Ordering::AcqRel) {
            ON_NUMBER => {
                self.rung().fetch_add(1, Ordering::Release);
                // Fails for no reason that could be mended here; the owner looks again by itself.
                let _ = futex::wake(self.rung(), futex::Flags::empty(), i32::MAX as u32);
            }
            ON_SOCKETS => {
                // A full socket wakes as well.
                let _ = send(socket, &[0], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
            }
            _ => {}
        }
    }

    /// Says that the owner is about to sleep, on its sockets or not; the number for [`sleep_on`](Self::sleep_on). It
    /// has to look once more before it does.
    pub(crate) fn before_sleep(&self, on_sockets: bool) -> u32 {
        let rung = self.rung().load(Ordering::Acquire);
        let how = if on_sockets { ON_SOCKETS } else { ON_NUMBER };
        self.sleep().store(how, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        rung
    }

    /// Sleeps until the doorbell has rung since `before_sleep`, or for a time.
    pub(crate) fn sleep_on(&self, rung: u32, time: Duration) -> io::Result<()> {
        let time = futex::Timespec {
            tv_sec: time.as_secs() as i64,
            tv_nsec: i64::from(time.subsec_nanos()),
        };
        match futex::wait(self.rung(), futex::Flags::empty(), rung, Some(&time)) {
            // Rung already, another signal, or late: all are reasons to look.
            Err(
                rustix::io::Errno::AGAIN | rustix::io::Errno::INTR | rustix::io::Errno::TIMEDOUT,
            )
            | Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Says that the owner is awake.
    pub(crate) fn after_sleep(&self) {
        self.sleep().store(AWAKE, Ordering::Relaxed);
    }
}
