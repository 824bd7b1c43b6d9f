//! Parsing options and reporting errors as one line. Output that cannot be written (a closed pipe,
//! a full disk) is an error like any other, never a panic.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

/// Runs `program` with the options of the command line; its error becomes one line on standard
/// error and exit code 1. `--help` and `--version` print and succeed; a wrong option gives one line
/// and code 2.
///
/// ```no_run
/// #[derive(clap::Parser)]
/// struct Options {
///     name: String,
/// }
/// chexnet::main(|options: Options| {
///     chexnet::print(&options.name)?;
///     Ok::<_, std::io::Error>(std::process::ExitCode::SUCCESS)
/// });
/// ```
pub fn main<O: Parser, E: Display>(program: impl FnOnce(O) -> Result<ExitCode, E>) -> ExitCode {
    let options = match O::try_parse() {
        Ok(options) => options,
        Err(error) => return wrong_options(&error),
    };
    program(options).unwrap_or_else(|error| {
        complain(&error.to_string());
        ExitCode::FAILURE
    })
}

/// Prints `text` and a line end on standard output.
///
/// # Errors
///
/// If standard output cannot be written.
pub fn print(text: impl Display) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{text}")
        .and_then(|()| output.flush())
        .map_err(|error| io::Error::new(error.kind(), format!("standard output: {error}")))
}

fn wrong_options(error: &clap::Error) -> ExitCode {
    let text = error.to_string();
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        return match print(text.trim_end()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                complain(&error.to_string());
                ExitCode::FAILURE
            }
        };
    }
    // clap lists what is missing on lines of their own, then adds usage and tips behind a blank one.
    let lines = text.lines().take_while(|line| !line.trim().is_empty());
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    complain(&format!(
        "{} (--help shows all options)",
        words.join(" ").trim_start_matches("error: ")
    ));
    ExitCode::from(2)
}

/// One line on standard error; there is nobody left to tell if that fails.
fn complain(error: &str) {
    let line = error.replace(['\r', '\n'], " ");
    // In one piece: a launcher that ends this process may do so between two.
    let _ = io::stderr().write_all(format!("error: {line}\n").as_bytes());
}

/// Ends a program that was asked to stop: `text` on standard error, if it is this process's to say, and the exit code
/// that the signal has; that of Ctrl-C if it was asked in another way, as by a key.
pub fn stopped(text: Option<impl Display>, exit_code: Option<u8>) -> ExitCode {
    if let Some(text) = text {
        let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
    }
    ExitCode::from(exit_code.unwrap_or(130))
}

/// A command line that starts this program with `options`, as one types it.
pub fn command(options: &[&str]) -> String {
    quoted(
        std::env::args()
            .take(1)
            .chain(options.iter().map(|option| (*option).to_string())),
    )
}

/// The command line that started this program, with `options` behind it unless the first of them is
/// there.
pub fn same_command(options: &[&str]) -> String {
    let given: Vec<String> = std::env::args().collect();
    let new = match options.first() {
        Some(first)
            if given
                .iter()
                .any(|option| option.split('=').next() == Some(first)) =>
        {
            &[]
        }
        _ => options,
    };
    quoted(
        given
            .into_iter()
            .chain(new.iter().map(|option| (*option).to_string())),
    )
}

fn quoted(words: impl Iterator<Item = String>) -> String {
    let quoted: Vec<String> = words
        .map(|word| match shlex::try_quote(&word) {
            Ok(quoted) => quoted.into_owned(),
            // A zero byte: no command line can have come with it.
            Err(_) => word.clone(),
        })
        .collect();
    quoted.join(" ")
}

/// Sizes rayon's global pool, on which decoding and computing run: `threads`, or the part of one of `processes` in the
/// limit of the cgroup and the affinity mask when `None`.
///
/// # Errors
///
/// If the pool was already in use, or that many threads cannot be started.
pub fn thread_pool(
    threads: Option<usize>,
    processes: usize,
) -> Result<(), rayon::ThreadPoolBuildError> {
    let threads = threads
        .or_else(|| {
            let all = std::thread::available_parallelism().ok()?;
            Some((usize::from(all) / processes.max(1)).max(1))
        })
        .unwrap_or(1);
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build_global()
}
