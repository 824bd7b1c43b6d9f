//! `burn-dist node`: what `burn-dist launch` starts on another host.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use burn_dist_core::launch::Node;

/// The ranks of one host, for a launcher at the other end of standard input and output.
#[derive(clap::Args)]
pub struct Options {
    #[arg(long)]
    first_rank: usize,
    #[arg(long)]
    ranks: usize,
    #[arg(long)]
    world_size: usize,
    #[arg(long, value_parser = super::launch::seconds)]
    grace: Duration,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

impl Options {
    /// Runs the ranks of this host.
    pub fn run(self) -> ExitCode {
        let Some((program, arguments)) = self.command.split_first() else {
            return ExitCode::from(2);
        };
        let node = Node {
            program: program.clone(),
            arguments: arguments.to_vec(),
            first_rank: self.first_rank,
            ranks: self.ranks,
            world_size: self.world_size,
            grace: self.grace,
        };
        match node.run() {
            Ok(outcome) => outcome.exit_code().into(),
            Err(error) => {
                super::complain(&error);
                error.exit_code().into()
            }
        }
    }
}
