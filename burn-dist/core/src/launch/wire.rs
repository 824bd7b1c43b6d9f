//! What the launcher and the node of a host say to each other.
//!
//! The launcher writes to the node's standard input: first the variables of the job, the token among
//! them, since a command line can be read by everyone on the host; then orders, one a line. Its end
//! means that the launcher or the connection is gone. The node's standard output and standard error
//! are those of its ranks, each line behind `[RANK] `, and announcements, which have no rank before them.

use std::ffi::OsString;
use std::io::{self, BufRead, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use signal_hook::low_level::signal_name;

use super::lines;
use super::outcome::Cause;
use super::signals::PASSED_ON;
use super::variables::Variable;

/// The most bytes that the variables of a job may have.
const MOST_BYTES: u64 = 1 << 20;

/// `variables`, to be read by [`read_variables`]: each behind its name, ended by a zero byte, and one
/// more at the end of all.
pub(super) fn write_variables(variables: &[Variable]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in variables {
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(b'=');
        bytes.extend_from_slice(value.as_bytes());
        bytes.push(0);
    }
    bytes.push(0);
    bytes
}

/// What [`write_variables`] has written; `None` if that is not what comes.
pub(super) fn read_variables(from: &mut impl BufRead) -> io::Result<Option<Vec<Variable>>> {
    let (mut from, mut variables) = (from.take(MOST_BYTES), Vec::new());
    loop {
        let mut bytes = Vec::new();
        from.read_until(0, &mut bytes)?;
        if bytes.pop() != Some(0) {
            return Ok(None);
        }
        if bytes.is_empty() {
            return Ok(Some(variables));
        }
        let Some(end) = bytes.iter().position(|byte| *byte == b'=') else {
            return Ok(None);
        };
        let value = OsString::from_vec(bytes.split_off(end + 1));
        bytes.pop();
        variables.push((OsString::from_vec(bytes), value));
    }
}

/// What a node is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Pass a signal on to its ranks.
    Signal(i32),
    /// Kill them.
    Kill,
}

impl Order {
    pub(super) fn write(self) -> Vec<u8> {
        let name = match self {
            Self::Signal(signal) => signal_name(signal).unwrap_or_default(),
            Self::Kill => "kill",
        };
        format!("{name}\n").into_bytes()
    }

    pub(super) fn read(line: &str) -> Option<Self> {
        if line == "kill" {
            return Some(Self::Kill);
        }
        let mut signals = PASSED_ON.into_iter();
        signals
            .find(|signal| signal_name(*signal) == Some(line))
            .map(Self::Signal)
    }
}

/// A rank has ended; said at once, since the node itself ends only when all of its ranks have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Announcement {
    pub(super) rank: usize,
    /// How it has failed; `None` if it has succeeded.
    pub(super) failure: Option<Cause>,
}

const ANNOUNCEMENT: &str = "burn-dist: rank ";

impl Announcement {
    pub(super) fn write(self) -> String {
        let cause = match self.failure {
            None => "exit code 0".to_string(),
            Some(Cause::ExitCode(code)) => format!("exit code {code}"),
            Some(Cause::Signal(signal)) => format!("signal {signal}"),
        };
        format!("{ANNOUNCEMENT}{}: {cause}", self.rank)
    }

    pub(super) fn read(line: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(lines::text(line)).ok()?;
        let (rank, cause) = line.strip_prefix(ANNOUNCEMENT)?.split_once(": ")?;
        let failure = match cause.strip_prefix("exit code ") {
            Some("0") => None,
            Some(code) => Some(Cause::ExitCode(code.parse().ok()?)),
            None => Some(Cause::Signal(cause.strip_prefix("signal ")?.parse().ok()?)),
        };
        let rank = rank.parse().ok()?;
        Some(Self { rank, failure })
    }
}

/// The rank and the text of a line behind `[RANK] `.
pub(super) fn line_of_rank(line: &[u8]) -> Option<(usize, &[u8])> {
    let line = line.strip_prefix(b"[")?;
    let end = line.iter().take(8).position(|byte| *byte == b']')?;
    let rank = std::str::from_utf8(&line[..end]).ok()?.parse().ok()?;
    Some((rank, line[end + 1..].strip_prefix(b" ")?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn variables_arrive_as_they_are() {
        let variables: Vec<Variable> = [("A", ""), ("B", "x=y\n'z'"), ("C", "ü")]
            .map(|(name, value)| (name.into(), value.into()))
            .into();
        let mut bytes = write_variables(&variables);
        bytes.extend_from_slice(b"SIGTERM\n");
        let mut rest = &bytes[..];
        assert_eq!(read_variables(&mut rest).unwrap(), Some(variables));
        assert_eq!(rest, b"SIGTERM\n");
    }

    #[test]
    fn what_are_no_variables_is_none() {
        for bytes in [&b""[..], b"A=1", b"A=1\0", b"A\0\0", &[b'x'; 2 << 20]] {
            assert_eq!(read_variables(&mut &bytes[..]).unwrap(), None);
        }
    }

    #[test]
    fn orders_and_announcements_arrive_as_they_are() {
        let signals = PASSED_ON.map(Order::Signal);
        for order in signals.into_iter().chain([Order::Kill]) {
            let line = String::from_utf8(order.write()).unwrap();
            assert_eq!(Order::read(line.trim_end()), Some(order));
        }
        assert_eq!(Order::read("SIGSEGV"), None);
        for failure in [None, Some(Cause::ExitCode(3)), Some(Cause::Signal(40))] {
            let announcement = Announcement { rank: 12, failure };
            let line = announcement.write();
            assert_eq!(Announcement::read(line.as_bytes()), Some(announcement));
        }
        assert_eq!(Announcement::read(b"burn-dist: rank x: exit code 3"), None);
    }

    #[test]
    fn lines_of_ranks_are_told_from_others() {
        assert_eq!(line_of_rank(b"[12] a\n"), Some((12, &b"a\n"[..])));
        assert_eq!(line_of_rank(b"[3] \n"), Some((3, &b"\n"[..])));
        for line in ["[x] a", "[1]a", "1] a", "[1 a", "", "[12345678] a"] {
            assert_eq!(line_of_rank(line.as_bytes()), None, "{line}");
        }
    }
}
