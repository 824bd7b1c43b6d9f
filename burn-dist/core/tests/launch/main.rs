//! `burn-dist launch` with real processes: shell scripts as ranks, and a script in place of ssh.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod environment;
mod failure;
mod hosts;
mod job;
mod output;
mod signals;
