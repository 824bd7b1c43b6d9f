//! A child that has all connections of its parent, and outlives it.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, getsockname};

/// More files than a rank has open.
const FILES: i32 = 256;

/// Leaves a child behind for `time`.
pub fn leave(time: Duration) -> io::Result<()> {
    let mut command = Command::new("sleep");
    command.arg(time.as_secs_f64().to_string());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let keep_open = || {
        for file in 3..FILES {
            // SAFETY: borrowed for this call alone; what is not open is an error of the call.
            let file = unsafe { BorrowedFd::borrow_raw(file) };
            let is_connection = getsockname(file)
                .is_ok_and(|address| address.address_family() == AddressFamily::INET);
            // Not that by which who has spawned it learns that it has begun.
            if is_connection {
                fcntl_setfd(file, FdFlags::empty())?;
            }
        }
        Ok(())
    };
    // SAFETY: between fork and exec it makes system calls only.
    unsafe { command.pre_exec(keep_open) };
    command.spawn().map(drop)
}
