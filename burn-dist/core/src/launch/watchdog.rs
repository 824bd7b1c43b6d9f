//! What outlives a launcher that was killed: a shell that kills the descendants of its ranks.
//!
//! Linux kills the ranks themselves with their launcher; what they have started knows nothing of it. Each
//! launcher has one shell, in a session of its own, that does nothing until the socket to it closes.
//!
//! Knows no ranks.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use rustix::net::{SendFlags, send};
use rustix::process::{Pid, getpid, setsid};

/// Keeps the groups that have started and are not gone. A number that is gone may be another group's soon.
const SCRIPT: &str = r#"groups=' '
while read -r event group; do
    case $event in
        started) groups="$groups$group " ;;
        gone) groups="${groups%% $group *} ${groups#* $group }" ;;
    esac
done
for group in $groups; do kill -s KILL -- "-$group"; done"#;

/// Kills process groups if this process ends without dropping it.
pub(super) struct Watchdog {
    socket: Arc<UnixStream>,
    shell: Child,
}

impl Watchdog {
    /// Starts it; no group yet.
    ///
    /// # Errors
    ///
    /// If there is no `/bin/sh`, as in some containers, or it cannot be started.
    pub(super) fn start() -> io::Result<Self> {
        let (socket, events) = UnixStream::pair()?;
        let mut command = Command::new("/bin/sh");
        // It holds no folder busy, and no variable is in its hands: the token may be one.
        command.args(["-c", SCRIPT]).current_dir("/").env_clear();
        command.stdin(Stdio::from(OwnedFd::from(events)));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: between fork and exec there is one system call, which allocates nothing and takes no lock.
        unsafe { command.pre_exec(|| Ok(setsid().map(|_| ())?)) };
        let shell = command.spawn()?;
        Ok(Self {
            socket: Arc::new(socket),
            shell,
        })
    }

    /// The way to tell of a group.
    pub(super) fn registration(&self) -> Registration {
        Registration(self.socket.clone())
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // Before the socket closes, so that it kills nobody.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

/// Tells a [`Watchdog`] of a group.
#[derive(Clone)]
pub(super) struct Registration(Arc<UnixStream>);

impl Registration {
    /// The calling process is the first of a group. It says so itself, before it executes its program: so
    /// nothing that it starts is unknown, whenever the launcher is killed. Allocates nothing and takes no lock.
    pub(super) fn give(&self) {
        tell(&self.0, "started", getpid());
    }

    /// No process of `group` is left.
    pub(super) fn withdraw(&self, group: Pid) {
        tell(&self.0, "gone", group);
    }
}

/// Neither waits for a shell that was stopped nor fails by a signal if it was killed.
const FLAGS: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);

fn tell(socket: &UnixStream, event: &str, group: Pid) {
    let mut line = [0; 32];
    let mut rest = &mut line[..];
    // The longest is shorter by far.
    let _ = writeln!(rest, "{event} {}", group.as_raw_pid());
    let left = rest.len();
    let length = line.len() - left;
    let _ = send(socket, &line[..length], FLAGS);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::process::ExitStatusExt;
    use std::time::Duration;

    use rustix::process::{Signal, kill_process};

    use super::*;

    /// The first of a group of its own, which `watchdog` knows.
    fn sleeper(watchdog: &Watchdog) -> Child {
        let registration = watchdog.registration();
        let mut command = Command::new("sleep");
        command.arg("1000").process_group(0);
        // SAFETY: between fork and exec there is one system call, which allocates nothing and takes no lock.
        unsafe {
            command.pre_exec(move || {
                registration.give();
                Ok(())
            })
        };
        command.spawn().unwrap()
    }

    /// What happens when its process is killed.
    fn cut(watchdog: &mut Watchdog) {
        watchdog.socket.shutdown(std::net::Shutdown::Both).unwrap();
        watchdog.shell.wait().unwrap();
    }

    #[test]
    fn what_is_left_when_it_is_cut_is_killed_and_nothing_that_is_gone() {
        let mut watchdog = Watchdog::start().unwrap();
        let mut sleepers = [(); 4].map(|()| sleeper(&watchdog));
        for at in [1, 3] {
            watchdog
                .registration()
                .withdraw(Pid::from_child(&sleepers[at]));
        }
        cut(&mut watchdog);
        for at in [0, 2] {
            let status = sleepers[at].wait().unwrap();
            assert_eq!(status.signal(), Some(Signal::KILL.as_raw()));
        }
        for at in [1, 3] {
            assert_eq!(sleepers[at].try_wait().unwrap(), None);
            sleepers[at].kill().unwrap();
            sleepers[at].wait().unwrap();
        }
    }

    #[test]
    fn dropped_it_kills_nobody() {
        let watchdog = Watchdog::start().unwrap();
        let mut sleeper = sleeper(&watchdog);
        drop(watchdog);
        assert_eq!(sleeper.try_wait().unwrap(), None);
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }

    /// Whoever is told that nobody listens must neither wait nor be ended for it.
    #[test]
    fn one_that_was_stopped_or_killed_holds_up_nobody() {
        let mut watchdog = Watchdog::start().unwrap();
        let shell = Pid::from_child(&watchdog.shell);
        kill_process(shell, Signal::STOP).unwrap();
        for _ in 0..100_000 {
            watchdog.registration().withdraw(shell);
        }
        kill_process(shell, Signal::KILL).unwrap();
        watchdog.shell.wait().unwrap();
        let mut sleeper = sleeper(&watchdog);
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(sleeper.try_wait().unwrap(), None);
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }
}
