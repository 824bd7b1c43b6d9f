//! Data-parallel training: several ranks against one with all their data.
#![allow(clippy::unwrap_used, clippy::panic)]

mod agreement;
mod equality;
mod kills;
mod models;
mod sums;
mod trainee;
mod training;
mod weights;
mod worlds;
