//! The example `train_chexnet` as a user runs it: real processes, small pictures made here.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod bad_folder;
mod bad_input;
mod data_options;
mod disk;
mod fine_tuning;
mod pictures;
mod ranks;
mod resume;
mod runs;

use std::path::PathBuf;
use std::process::{Command, Output};

/// The example's binary, which cargo builds for tests beside them.
fn example() -> Command {
    let test = std::env::current_exe().unwrap();
    let path: PathBuf = test
        .ancestors()
        .nth(2)
        .unwrap()
        .join("examples/train_chexnet");
    assert!(
        path.is_file(),
        "{} is not built: run `cargo build --examples` first",
        path.display()
    );
    Command::new(path)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What a command that fails says last, in one line.
fn fails(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let errors = text(&output.stderr);
    assert!(!output.status.success(), "{errors}");
    assert!(!errors.contains("panicked"), "{errors}");
    errors.lines().last().unwrap().to_string()
}

fn succeeds(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    output
}
