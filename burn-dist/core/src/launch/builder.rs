//! What to launch, and how.

use std::ffi::{OsStr, OsString};
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Duration;

use super::error::LaunchError;
use super::host::{Host, MOST_RANKS};
use super::node::{self, Node};
use super::outcome::Outcome;
use super::output::Output;
use super::pump::Source;
use super::remote::{self, Share};
use super::supervisor::{Role, Supervisor};
use super::variables::{self, RENDEZVOUS, Variable};
use crate::rendezvous::MeetingPoint;

/// A program to be started as the ranks of a job, which find in their environment who they are.
///
/// Each rank gets `BURN_DIST_RANK`, `BURN_DIST_WORLD_SIZE`, `BURN_DIST_LOCAL_RANK`,
/// `BURN_DIST_LOCAL_WORLD_SIZE`, `BURN_DIST_RDZV`, a random `BURN_DIST_RUN` and, unless the environment has one or names its file
/// in `BURN_DIST_TOKEN_FILE`, a random `BURN_DIST_TOKEN`. What other launchers have left is taken away.
/// Standard input is empty.
///
/// ```
/// use burn_dist_core::launch::Launch;
///
/// let outcome = Launch::new("sh", ["-c", "exit $BURN_DIST_RANK"]).ranks(2).run()?;
/// let failure = outcome.first_failure.as_ref().map(|failure| failure.to_string());
/// assert_eq!(failure.as_deref(), Some("rank 1 was the first to fail: exit code 1"));
/// assert_eq!(outcome.exit_code(), 1);
/// # Ok::<(), burn_dist_core::launch::LaunchError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Launch {
    program: OsString,
    arguments: Vec<OsString>,
    ranks: usize,
    hosts: Vec<Host>,
    ssh: Option<String>,
    node: PathBuf,
    port: Option<u16>,
    output: Output,
    grace: Duration,
    variables: Vec<Variable>,
}

impl Launch {
    /// `program` with `arguments`, as one rank on this host.
    pub fn new<A: Into<OsString>>(
        program: impl Into<OsString>,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        Self {
            program: program.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            ranks: 1,
            hosts: Vec::new(),
            ssh: None,
            node: PathBuf::from("burn-dist"),
            port: None,
            output: Output::default(),
            grace: Duration::from_secs(10),
            variables: Vec::new(),
        }
    }

    /// As many ranks on this host.
    pub fn ranks(mut self, ranks: usize) -> Self {
        self.ranks = ranks;
        self
    }

    /// Ranks on other hosts in place of this one, by ssh. The first host is where the ranks meet. On each
    /// there must be the program and the binary `burn-dist`, and the folder from which this is called.
    ///
    /// Of this process's environment ranks get the variables `BURN_DIST_*` and no others.
    pub fn hosts(mut self, hosts: Vec<Host>) -> Self {
        self.hosts = hosts;
        self
    }

    /// What to call in place of ssh, with its options as in a shell: the name of a host and a command
    /// for its shell are added. By default `BURN_DIST_SSH`, or ssh itself.
    pub fn ssh(mut self, command: impl Into<String>) -> Self {
        self.ssh = Some(command.into());
        self
    }

    /// Where hosts have the binary `burn-dist`; by default where their `PATH` leads.
    pub fn node(mut self, path: impl Into<PathBuf>) -> Self {
        self.node = path.into();
        self
    }

    /// The port at which ranks meet; by default one that is free, and on other hosts a random one from
    /// 20000 to 31999.
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Where output goes.
    pub fn output(mut self, output: Output) -> Self {
        self.output = output;
        self
    }

    /// How long ranks may take to end after they were asked to, before they are killed; 10 s by default.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// A variable for the environment of all ranks; none of those that the launcher itself sets, but for
    /// `BURN_DIST_TOKEN` and `BURN_DIST_TOKEN_FILE`.
    pub fn variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Starts all ranks and waits until they, and what they have started, are gone.
    ///
    /// When one fails the others are sent SIGTERM, and SIGKILL after the grace. SIGINT, SIGTERM and
    /// SIGHUP to this process are passed on and do the same; SIGINT or SIGTERM once more kills at once.
    /// SIGUSR1 and SIGUSR2 are passed on. Afterwards they do what they did before. If this process is
    /// killed, Linux kills the ranks with it, and a shell that waits for that kills what they have started.
    ///
    /// # Errors
    ///
    /// If a variable is one that the launcher sets, a rank cannot be started, or its output has no place to
    /// go to. No rank is left then.
    pub fn run(&self) -> Result<Outcome, LaunchError> {
        if self.ranks == 0 {
            return Err(LaunchError::NoRanks);
        }
        if self.ranks > MOST_RANKS {
            return Err(LaunchError::TooManyRanks { ranks: self.ranks });
        }
        variables::check(&self.variables)?;
        let mut variables = self.variables.clone();
        variables.extend(variables::token(&self.variables)?);
        variables.push(variables::run()?);
        match self.hosts.is_empty() {
            true => self.run_here(variables),
            false => self.run_on_hosts(variables),
        }
    }

    fn run_here(&self, mut variables: Vec<Variable>) -> Result<Outcome, LaunchError> {
        let port = match self.port {
            Some(port) => port,
            None => free_port().map_err(LaunchError::system("no port of 127.0.0.1 is free"))?,
        };
        variables.push(meeting_point("127.0.0.1", port));
        let node = Node {
            program: self.program.clone(),
            arguments: self.arguments.clone(),
            first_rank: 0,
            ranks: self.ranks,
            world_size: self.ranks,
            grace: self.grace,
        };
        let mut supervisor = Supervisor::new(Role::Launcher, &self.output, self.ranks, self.grace)?;
        node::start(&mut supervisor, &node, &variables)?;
        supervisor.run()
    }

    fn run_on_hosts(&self, variables: Vec<Variable>) -> Result<Outcome, LaunchError> {
        let hosts = Host::checked(self.hosts.clone())?;
        let ssh = remote::ssh(self.ssh.as_deref())?;
        let folder = std::env::current_dir();
        let folder = folder.map_err(LaunchError::system("cannot find the current folder"))?;
        let port = match self.port {
            Some(port) => port,
            None => 20_000 + (getrandom::u32().map_err(LaunchError::random)? % 12_000) as u16,
        };
        // What comes later stands.
        let mut all = variables::for_hosts();
        all.extend(variables);
        all.push(meeting_point(hosts[0].address(), port));
        let world_size = hosts.iter().map(|host| host.ranks).sum();
        let mut supervisor = Supervisor::new(Role::Launcher, &self.output, world_size, self.grace)?;
        let mut first_rank = 0;
        for host in &hosts {
            if supervisor.is_ending()? {
                break;
            }
            let share = Share {
                program: &self.program,
                arguments: &self.arguments,
                first_rank,
                world_size,
                grace: self.grace,
            };
            let command = remote::command(&ssh, host, &self.node, &folder, &share)
                .map_err(|error| LaunchError::start(&self.program, error))?;
            let ranks = first_rank..first_rank + host.ranks;
            first_rank = ranks.end;
            let source = Source::Node {
                host: host.name.clone(),
                ranks,
            };
            supervisor.start(command, Some(super::wire::write_variables(&all)), source)?;
        }
        supervisor.run()
    }
}

fn meeting_point(host: &str, port: u16) -> Variable {
    let point = MeetingPoint::Tcp {
        host: host.to_string(),
        port,
    };
    (OsStr::new(RENDEZVOUS).into(), point.to_string().into())
}

/// A port at which nobody listens now. It is rank 0 that will.
fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
