//! Gradients of parameters as soon as they are complete, while the backward pass goes on.
//!
//! Burn has no hook for that. A [`Gates`] copy of a model has an operation of its own behind each parameter, which
//! does nothing on the way forward and hands the gradient over on the way back.
//!
//! | module | what it is for |
//! |---|---|
//! | `gate` | the operation |
//! | `ruler` | its place on autodiff's tape, without which it would come at the very end |
//! | `gates` | a model with a gate behind each parameter |
//!
//! Knows nothing of ranks.

mod gate;
mod gates;
mod ruler;

pub(super) use gate::{IntoAny, is_served};
pub(super) use gates::Gates;
