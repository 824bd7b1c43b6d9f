//! `burn-dist node`: what `burn-dist launch` starts on each host.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use burn_dist_core::launch::Node;

use crate::launch::{failed, seconds};

/// Start the ranks of one host, for `burn-dist launch` at the other end of standard input and output.
#[derive(clap::Args)]
pub struct Options {
    #[arg(long)]
    first_rank: usize,
    #[arg(long)]
    ranks: usize,
    #[arg(long)]
    world_size: usize,
    #[arg(long, value_parser = seconds)]
    grace: Duration,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

impl Options {
    /// Runs the ranks of this host.
    pub fn run(self) -> ExitCode {
        let mut command = self.command.into_iter();
        let node = Node {
            program: command.next().unwrap_or_default(),
            arguments: command.collect(),
            first_rank: self.first_rank,
            ranks: self.ranks,
            world_size: self.world_size,
            grace: self.grace,
        };
        match node.run() {
            // The launcher says which rank has failed.
            Ok(outcome) => outcome.exit_code().into(),
            Err(error) => failed(&error),
        }
    }
}
