//! Parsing options and reporting errors as one line.

use std::fmt::Display;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

/// The options of the program, or the exit code when there is nothing to run: `--help` and
/// `--version` print and succeed; a wrong option gives one line and code 2.
///
/// # Errors
///
/// The exit code of a program that is not to run.
pub fn parse<O: Parser>() -> Result<O, ExitCode> {
    O::try_parse().map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            print!("{error}");
            ExitCode::SUCCESS
        }
        _ => {
            // clap adds usage and tips on further lines.
            let text = error.to_string();
            eprintln!(
                "{} (--help shows all options)",
                text.lines().next().unwrap_or_default()
            );
            ExitCode::from(2)
        }
    })
}

/// Runs `program` with the options of the command line; its error becomes one line on standard
/// error and exit code 1.
///
/// ```no_run
/// #[derive(clap::Parser)]
/// struct Options {
///     name: String,
/// }
/// chexnet::main(|options: Options| {
///     println!("{}", options.name);
///     Ok::<_, std::io::Error>(std::process::ExitCode::SUCCESS)
/// });
/// ```
pub fn main<O: Parser, E: Display>(program: impl FnOnce(O) -> Result<ExitCode, E>) -> ExitCode {
    let options = match parse() {
        Ok(options) => options,
        Err(code) => return code,
    };
    program(options).unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

/// Sizes rayon's global pool, on which decoding and computing run: `threads`, or the limit of
/// the cgroup and the affinity mask when `None`.
///
/// # Errors
///
/// If the pool was already in use.
pub fn thread_pool(threads: Option<usize>) -> Result<usize, rayon::ThreadPoolBuildError> {
    let threads = threads
        .or_else(|| std::thread::available_parallelism().ok().map(usize::from))
        .unwrap_or(1);
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build_global()?;
    Ok(threads)
}
