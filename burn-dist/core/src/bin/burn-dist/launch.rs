//! `burn-dist launch`: the options, for [`Launch`].

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use burn_dist_core::launch::{Host, HostError, Launch, Output};
use clap::builder::NonEmptyStringValueParser;

/// Start a program as the ranks of a job, on this host or on several.
///
/// The exit code is 0 if all ranks succeed, else that of the first rank that fails: its own, or 128 and the number of
/// the signal that has ended it. It is 128 and the number of the signal if the launcher was asked to stop, 127 if the
/// program is not found, 126 if it cannot be executed, 2 for wrong options.
#[derive(clap::Args)]
pub struct Options {
    /// Ranks on this host.
    #[arg(short = 'n', long = "ranks", value_name = "N", value_parser = clap::value_parser!(u16).range(1..), required_unless_present_any = ["hosts", "hostfile"])]
    ranks: Option<u16>,
    /// Hosts and how many ranks each gets, as a:2,b:2. The ranks meet on the first.
    #[arg(long, value_name = "HOST:N,...", value_parser = Host::list, conflicts_with_all = ["ranks", "hostfile"])]
    hosts: Option<Hosts>,
    /// A file with a host on each line: HOST:N, or HOST slots=N.
    #[arg(long, value_name = "FILE", value_parser = hosts_of_file, conflicts_with = "ranks")]
    hostfile: Option<Hosts>,
    /// What to call in place of ssh [default: $BURN_DIST_SSH, or ssh].
    #[arg(long, value_name = "COMMAND", value_parser = NonEmptyStringValueParser::new())]
    ssh: Option<String>,
    /// Where the hosts have burn-dist [default: where it is here].
    #[arg(long, value_name = "PATH")]
    node: Option<PathBuf>,
    /// The port at which the ranks meet [default: a free one].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Write the output of each rank to DIR/rank-N.log.
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// How long ranks may take to end before they are killed.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    grace: Duration,
    /// A variable for the environment of all ranks.
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// The program and its arguments.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

// clap would take a `Vec` for an option that may be given several times.
type Hosts = Vec<Host>;

impl Options {
    /// Runs all ranks.
    pub fn run(self) -> ExitCode {
        let (program, arguments) = match self.command.split_first() {
            Some((program, arguments)) => (program.clone(), arguments.to_vec()),
            None => return ExitCode::from(2),
        };
        let mut launch = Launch::new(program, arguments).grace(self.grace);
        if let Some(ranks) = self.ranks {
            launch = launch.ranks(ranks.into());
        }
        if let Some(hosts) = self.hosts.or(self.hostfile) {
            // By default where this program is here: hosts of a job mostly have the same folders.
            let here = || std::env::current_exe().unwrap_or_else(|_| PathBuf::from("burn-dist"));
            launch = launch.hosts(hosts).node(self.node.unwrap_or_else(here));
        }
        if let Some(ssh) = self.ssh {
            launch = launch.ssh(ssh);
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
            Err(error) => {
                super::complain(&error);
                error.exit_code().into()
            }
        }
    }
}

fn hosts_of_file(path: &str) -> Result<Hosts, HostError> {
    Host::file(path)
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().map(Duration::try_from_secs_f64);
    seconds
        .and_then(Result::ok)
        .ok_or_else(|| "expected seconds, as 10 or 0.5".to_owned())
}

fn variable(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = parts.ok_or_else(|| "expected NAME=VALUE".to_owned())?;
    Ok((name.to_owned(), value.to_owned()))
}
