//! How a launch has ended.

use std::fmt::{Display, Formatter};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use signal_hook::low_level::signal_name;

use crate::report::Numbers;

/// How a process has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It has exited with a code that is not 0.
    ExitCode(u8),
    /// A signal has ended it.
    Signal(i32),
}

impl Cause {
    /// That of a process that has ended so; `None` if it has succeeded.
    pub(super) fn of(status: ExitStatus) -> Option<Self> {
        match (status.code(), status.signal()) {
            (Some(0), _) => None,
            (Some(code), _) => Some(Self::ExitCode(u8::try_from(code).unwrap_or(1))),
            (None, signal) => signal.map(Self::Signal),
        }
    }

    /// The code with which a shell would hand it on: 128 and the number of a signal.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::ExitCode(code) => code,
            Self::Signal(signal) => exit_code_of_signal(signal),
        }
    }
}

pub(super) fn exit_code_of_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

impl Display for Cause {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::ExitCode(code) => {
                write!(f, "exit code {code}")?;
                // The program may be a script whose own program was killed.
                match signal_name(i32::from(code) - 128) {
                    Some(name) => write!(f, " (128 and the number of {name})"),
                    None => Ok(()),
                }
            }
            Self::Signal(signal) => match signal_name(signal) {
                Some(name) => write!(f, "killed by {name}"),
                None => write!(f, "killed by signal {signal}"),
            },
        }
    }
}

/// `rank 1`, `ranks 1, 2 and 7 others`.
pub(super) fn list(ranks: &[usize]) -> String {
    let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
    format!("{noun} {}", Numbers(ranks))
}

/// The failure that came before all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The rank; `None` if it is the connection to a host that has failed, or what runs ranks there.
    pub rank: Option<usize>,
    /// The host as it was named; `None` if the rank ran on this host.
    pub host: Option<String>,
    /// How it has failed.
    pub cause: Cause,
    /// The last lines on its standard error, at most ten.
    pub last_lines: Vec<String>,
    /// Ranks that had ended with success before it, in the order of their ends. Others may have waited for
    /// them.
    pub ended_before: Vec<usize>,
}

impl Failure {
    fn place(&self) -> String {
        match (self.rank, &self.host) {
            (Some(rank), None) => format!("rank {rank}"),
            (Some(rank), Some(host)) => format!("rank {rank} on {host}"),
            (None, Some(host)) => format!("the connection to {host}"),
            (None, None) => "a process".to_string(),
        }
    }

    /// Why it may have failed, if ranks had left that it waited for.
    fn hint(&self) -> Option<String> {
        if self.ended_before.is_empty() || !matches!(self.cause, Cause::ExitCode(_)) {
            return None;
        }
        let names = list(&self.ended_before);
        Some(format!(
            "{names} had ended before, with exit code 0: if others still waited there, that is the cause"
        ))
    }
}

/// One line, without the last lines.
impl Display for Failure {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} was the first to fail: {}", self.place(), self.cause)?;
        match (self.rank, &self.host, self.cause) {
            // What ssh exits with if it is ssh that has failed.
            (None, Some(host), Cause::ExitCode(255)) => write!(
                f,
                " (of ssh: look whether `ssh {host} true` works, and at the host in --hosts or --hostfile)"
            ),
            _ => Ok(()),
        }
    }
}

/// How a launch has ended: all of its processes are gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The failure that came before all others and before any request to stop.
    pub first_failure: Option<Failure>,
    /// The signal by which the launcher was asked to stop.
    pub signal: Option<i32>,
    /// Whether output of ranks could not be written to where it should go; standard error says why. It is no
    /// loss if whoever reads it goes away.
    pub output_lost: bool,
}

impl Outcome {
    /// 0 if all ranks have succeeded and no output is lost; else that of the first failure, or 128 and the
    /// number of the signal by which the launcher was asked to stop, or 1.
    pub fn exit_code(&self) -> u8 {
        match (&self.first_failure, self.signal) {
            (Some(failure), _) => failure.cause.exit_code(),
            (None, Some(signal)) => exit_code_of_signal(signal),
            (None, None) => self.output_lost.into(),
        }
    }

    /// Prints the first failure on standard error, if there is one: its last lines, who had left before, and
    /// last its cause.
    pub fn print_failure(&self) {
        let Some(failure) = &self.first_failure else {
            return;
        };
        let mut text = String::new();
        if !failure.last_lines.is_empty() {
            text = format!(
                "burn-dist: last on standard error of {}:\n",
                failure.place()
            );
            for line in &failure.last_lines {
                text += &format!("    {line}\n");
            }
        }
        if let Some(hint) = failure.hint() {
            text += &format!("burn-dist: {hint}\n");
        }
        text += &format!("burn-dist: {failure}\n");
        // There is nobody left to tell if that fails.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(rank: Option<usize>, host: Option<&str>, cause: Cause) -> Failure {
        Failure {
            rank,
            host: host.map(str::to_string),
            cause,
            last_lines: Vec::new(),
            ended_before: Vec::new(),
        }
    }

    #[test]
    fn a_failure_names_rank_host_and_cause() {
        for (failure, expected) in [
            (
                failure(Some(3), None, Cause::ExitCode(2)),
                "rank 3 was the first to fail: exit code 2",
            ),
            (
                failure(Some(0), Some("b"), Cause::Signal(9)),
                "rank 0 on b was the first to fail: killed by SIGKILL",
            ),
            (
                failure(None, Some("b"), Cause::ExitCode(255)),
                "the connection to b was the first to fail: exit code 255 (of ssh: look whether `ssh b true` works, and at the host in --hosts or --hostfile)",
            ),
            (
                failure(None, Some("b"), Cause::ExitCode(127)),
                "the connection to b was the first to fail: exit code 127",
            ),
            (
                failure(Some(1), None, Cause::ExitCode(137)),
                "rank 1 was the first to fail: exit code 137 (128 and the number of SIGKILL)",
            ),
            (
                failure(Some(1), None, Cause::Signal(40)),
                "rank 1 was the first to fail: killed by signal 40",
            ),
        ] {
            assert_eq!(failure.to_string(), expected);
        }
    }

    #[test]
    fn ranks_that_had_left_are_named() {
        let mut failure = failure(Some(1), None, Cause::ExitCode(1));
        assert_eq!(failure.hint(), None);
        failure.ended_before = vec![0];
        let hint = failure.hint().unwrap_or_default();
        assert!(hint.starts_with("rank 0 had ended before, "), "{hint}");
        failure.ended_before = (2..12).rev().collect();
        let hint = failure.hint().unwrap_or_default();
        let expected = "ranks 11, 10, 9, 8, 7, 6, 5, 4 and 2 others had ended before, ";
        assert!(hint.starts_with(expected), "{hint}");
        // It was not by waiting for others.
        failure.cause = Cause::Signal(9);
        assert_eq!(failure.hint(), None);
    }

    #[test]
    fn a_failure_stands_above_a_request_to_stop() {
        let mut outcome = Outcome::default();
        assert_eq!(outcome.exit_code(), 0);
        outcome.output_lost = true;
        assert_eq!(outcome.exit_code(), 1);
        outcome.signal = Some(15);
        assert_eq!(outcome.exit_code(), 143);
        outcome.first_failure = Some(failure(Some(1), None, Cause::Signal(11)));
        assert_eq!(outcome.exit_code(), 139);
    }
}
