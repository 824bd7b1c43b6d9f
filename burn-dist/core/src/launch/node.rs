//! The launcher, seen from a host: what `burn-dist launch` starts there by ssh.

use std::ffi::OsString;
use std::io::BufRead;
use std::process::Command;
use std::sync::mpsc::Sender;
use std::time::Duration;

use super::error::LaunchError;
use super::outcome::Outcome;
use super::output::Output;
use super::pump::Source;
use super::supervisor::{Event, Role, Supervisor};
use super::variables::{self, Place, Variable};
use super::wire::{self, Order};

/// The ranks of one host, for a launcher at the other end of standard input and output.
///
/// The binary `burn-dist` runs it as `burn-dist node`; nothing else has a use for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What the ranks run.
    pub program: OsString,
    /// With these arguments.
    pub arguments: Vec<OsString>,
    /// The first rank of this host.
    pub first_rank: usize,
    /// How many ranks it has.
    pub ranks: usize,
    /// Ranks of the job.
    pub world_size: usize,
    /// How long ranks may take to end before they are killed.
    pub grace: Duration,
}

impl Node {
    /// Starts the ranks and waits until all are gone. They are ended when one fails, when the launcher
    /// says so, and when standard input ends: then the launcher or the connection is gone.
    ///
    /// # Errors
    ///
    /// If standard input does not begin with the variables of a job, or a rank cannot be started.
    pub fn run(&self) -> Result<Outcome, LaunchError> {
        let mut input = std::io::stdin().lock();
        let variables = wire::read_variables(&mut input);
        let variables = variables.map_err(LaunchError::system("cannot read standard input"))?;
        let variables = variables.ok_or(LaunchError::NoJob)?;
        drop(input);
        let (role, output) = (Role::Node, &Output::Prefixed);
        let mut supervisor = Supervisor::new(role, output, self.world_size, self.grace)?;
        let events = supervisor.events();
        let thread = std::thread::Builder::new().name("orders".to_string());
        thread
            .spawn(move || listen(&events))
            .map_err(LaunchError::system("cannot start a thread"))?;
        start(&mut supervisor, self, &variables)?;
        supervisor.run()
    }
}

/// Starts the ranks of `node` with `variables`.
pub(super) fn start(
    supervisor: &mut Supervisor,
    node: &Node,
    variables: &[Variable],
) -> Result<(), LaunchError> {
    for local_rank in 0..node.ranks {
        if supervisor.is_ending()? {
            break;
        }
        let place = Place {
            rank: node.first_rank + local_rank,
            world_size: node.world_size,
            local_rank,
            local_world_size: node.ranks,
        };
        let mut command = Command::new(&node.program);
        command.args(&node.arguments);
        variables::give(&mut command, variables, place);
        supervisor.start(command, None, Source::Rank(place.rank))?;
    }
    Ok(())
}

/// Makes events of the launcher's orders, until they end.
fn listen(events: &Sender<Event>) {
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let event = match Order::read(&line) {
            Some(Order::Signal(signal)) => Event::Signal(signal),
            Some(Order::Kill) => Event::Kill,
            None => continue,
        };
        // Without a receiver all ranks are gone.
        let _ = events.send(event);
    }
    let _ = events.send(Event::Cut);
}
