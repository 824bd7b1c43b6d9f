//! What ranks compute together.
//!
//! | module | what it is for |
//! |---|---|
//! | `element` | the types of numbers |
//! | `reduction` | several arrays into one, in the order of the ranks |
//! | `call` | what a rank calls, and how messages say it |
//! | `choice` | which algorithm an operation takes |
//! | `tuning` | a table for it from times that were measured |
//! | `plan` | the algorithms: what each rank sends, receives and computes |
//! | `executor` | carries a plan out over a transport |
//!
//! Knows no rendezvous, and of a transport only what it offers.

mod call;
mod choice;
mod element;
pub(crate) mod executor;
pub(crate) mod plan;
mod reduction;
mod tuning;

pub(crate) use call::Header;
pub use call::{Call, Operation};
pub use choice::{Algorithm, Order, Table, Topology};
pub use element::{Accumulator, Element, ElementType};
pub use plan::partition;
pub use reduction::Reduction;
pub use tuning::Timing;
