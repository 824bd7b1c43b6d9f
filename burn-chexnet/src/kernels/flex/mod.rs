//! The operations on Burn's CPU backend: tensors to slices and back.

mod backward;
mod forward;
mod geometry;
mod memory;
mod packed;

pub use packed::release as release_packed;
