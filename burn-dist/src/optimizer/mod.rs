//! Optimisers that compute what PyTorch's do.
//!
//! Burn's own hold β and the momentum in 32 bit, and damp the momentum by 0.1 unless told
//! otherwise; a recipe that was tuned in PyTorch then takes other steps. These hold every constant in
//! 64 bit. They may not know the training loop.

mod adam;
mod gradients;
mod sgd;

pub use adam::{Adam, AdamState, WeightDecay};
pub use gradients::{clip_norm, scale};
pub use sgd::{Sgd, SgdState};
