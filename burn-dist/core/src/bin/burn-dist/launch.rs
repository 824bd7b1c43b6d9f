//! `burn-dist launch`: the options, for [`Launch`].

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use burn_dist_core::launch::{Host, HostError, Launch, LaunchError, Output};
use clap::error::ErrorKind;

use crate::complain;

/// Start a program as the ranks of a job, on this host or on several.
///
/// The exit code is 0 if all ranks succeed, else that of the first rank that fails: its own, or 128 and the number of
/// the signal that has ended it. It is 128 and the number of the signal if the launcher was asked to stop, 127 if the
/// program is not found, 126 if it cannot be executed, 2 for wrong options, 1 if output could not be written.
#[derive(clap::Args)]
pub struct Options {
    /// Ranks on this host.
    #[arg(short = 'n', long = "ranks", value_name = "N", value_parser = clap::value_parser!(u16).range(1..), required_unless_present_any = ["hosts", "hostfile"], conflicts_with_all = ["hosts", "hostfile"])]
    ranks: Option<u16>,
    /// Hosts and how many ranks each gets, as a:2,b:2. The ranks meet on the first.
    #[arg(long, value_name = "HOST:N,...", value_parser = Host::list, conflicts_with = "hostfile")]
    hosts: Option<Hosts>,
    /// A file with a host on each line: HOST:N, or HOST slots=N.
    #[arg(long, value_name = "FILE", value_parser = hosts_of_file)]
    hostfile: Option<Hosts>,
    /// What to call in place of ssh [default: $BURN_DIST_SSH, or ssh].
    #[arg(long, value_name = "COMMAND")]
    ssh: Option<String>,
    /// Where the hosts have burn-dist [default: where it is here].
    #[arg(long, value_name = "PATH")]
    node: Option<PathBuf>,
    /// The port at which the ranks meet [default: a free one].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Write the output of each rank to DIR/rank-N.log, in place of those of an earlier launch.
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// How long ranks may take to end before they are killed.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    grace: Duration,
    /// A variable for the environment of all ranks; not BURN_DIST_RANK and others that the launcher sets.
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// The program and its arguments, behind --.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// Under another name, since clap takes a `Vec` for an option that is given several times.
type Hosts = Vec<Host>;

impl Options {
    /// Runs all ranks.
    pub fn run(self) -> ExitCode {
        let mut command = self.command.into_iter();
        let program = command.next().unwrap_or_default();
        let mut launch = Launch::new(program, command).grace(self.grace);
        if let Some(ranks) = self.ranks {
            launch = launch.ranks(ranks.into());
        }
        if let Some(hosts) = self.hosts.or(self.hostfile) {
            launch = launch.hosts(hosts);
        }
        if let Some(command) = self.ssh {
            launch = launch.ssh(command);
        }
        if let Some(path) = self.node.or_else(|| std::env::current_exe().ok()) {
            launch = launch.node(path);
        }
        if let Some(port) = self.port {
            launch = launch.port(port);
        }
        if let Some(folder) = self.output_dir {
            launch = launch.output(Output::Files(folder));
        }
        for (name, value) in self.env {
            launch = launch.variable(name, value);
        }
        match launch.run() {
            Ok(outcome) => {
                outcome.print_failure();
                outcome.exit_code().into()
            }
            Err(error) => failed(&error),
        }
    }
}

/// What is likely where an option of `burn-dist launch` is unknown: it is the program, or one of its options.
pub fn hint(error: &clap::Error) -> Option<&'static str> {
    let mut words = std::env::args_os().skip(1);
    let of_launch = words.next().is_some_and(|word| word == "launch");
    let forgotten = of_launch && error.kind() == ErrorKind::UnknownArgument;
    (forgotten && words.all(|word| word != "--")).then_some("put -- before the program")
}

/// Says why nothing was launched.
pub fn failed(error: &LaunchError) -> ExitCode {
    complain(error);
    error.exit_code().into()
}

/// Seconds, with a fraction or without.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| *seconds <= 1e6);
    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    duration.ok_or_else(|| "expected seconds from 0 to 1000000".to_string())
}

fn hosts_of_file(path: &str) -> Result<Hosts, HostError> {
    Host::file(path)
}

fn variable(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = pair.ok_or("expected NAME=VALUE")?;
    Ok((name.to_string(), value.to_string()))
}
