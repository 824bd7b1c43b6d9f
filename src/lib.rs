//! The command line that the examples of this workspace share: options in, one line out when
//! something is wrong. What they do is in `burn-chexnet`, `burn-dist` and `chest-datasets`.

mod cli;

pub use cli::{command, main, print, same_command, stopped, thread_pool};

/// The program in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
