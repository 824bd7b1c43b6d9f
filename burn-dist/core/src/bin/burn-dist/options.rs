//! Options of the command line, whose errors are one line. Examples have it too.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

/// The options of this process, or the code with which it ends. `hint` says what an error may come from.
pub fn parse<O: Parser>(hint: fn(&clap::Error) -> Option<&'static str>) -> Result<O, ExitCode> {
    O::try_parse().map_err(|error| wrong(&error, hint(&error)))
}

/// Help as it is; of an error one line, without the usage that clap adds behind a blank one.
fn wrong(error: &clap::Error, hint: Option<&str>) -> ExitCode {
    if !error.use_stderr() {
        return match error.print() {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // There is nobody left to tell if that fails.
        let _ = error.print();
        return ExitCode::from(2);
    }
    let text = error.to_string();
    let lines = text.lines().take_while(|line| !line.trim().is_empty());
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    let text = words.join(" ");
    let text = text.trim_start_matches("error: ");
    let hint = hint.map_or(String::new(), |hint| format!(": {hint}"));
    // In one piece, since other ranks may write too.
    let line = format!("error: {text}{hint} (--help shows all options)\n");
    let _ = io::stderr().write_all(line.as_bytes());
    ExitCode::from(2)
}
