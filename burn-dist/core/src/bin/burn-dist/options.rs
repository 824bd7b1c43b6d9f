//! Options of the command line, whose errors are one line. The example `allreduce` has it too.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

/// The options of this process, or the code with which it ends.
pub fn parse<O: Parser>() -> Result<O, ExitCode> {
    O::try_parse().map_err(|error| wrong(&error))
}

/// Help as it is; of an error one line, without the usage that clap adds behind a blank one.
fn wrong(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.to_string();
    let lines = text.lines().take_while(|line| !line.trim().is_empty());
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    let text = words.join(" ");
    let text = text.trim_start_matches("error: ");
    // There is nobody left to tell if that fails.
    let _ = writeln!(io::stderr(), "error: {text} (--help shows all options)");
    ExitCode::from(2)
}
