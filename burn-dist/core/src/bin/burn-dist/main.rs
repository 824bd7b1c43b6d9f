//! The command `burn-dist`: each subcommand is a module.

mod doctor;
mod launch;
mod node;
mod options;
mod tune;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

/// Starts the processes of distributed training.
#[derive(Parser)]
#[command(name = "burn-dist", version)]
enum Command {
    Launch(launch::Options),
    Doctor(doctor::Options),
    Tune(tune::Options),
    #[command(hide = true)]
    Node(node::Options),
}

fn main() -> ExitCode {
    let command = match options::parse(launch::hint) {
        Ok(command) => command,
        Err(code) => return code,
    };
    match command {
        Command::Launch(options) => options.run(),
        Command::Doctor(options) => options.run(),
        Command::Tune(options) => options.run(),
        Command::Node(options) => options.run(),
    }
}

/// One line on standard output, which nobody may read any more.
fn say(line: impl std::fmt::Display) -> std::io::Result<()> {
    writeln!(std::io::stdout(), "{line}")
}

/// One line on standard error, in one piece, since other ranks may write too; there is nobody left to tell if that
/// fails.
fn complain(error: impl std::fmt::Display) {
    let line = format!("burn-dist: {error}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
