//! What ranks compute together.
//!
//! | module | what it is for |
//! |---|---|
//! | `element` | the types of numbers |
//! | `reduction` | several arrays into one, in the order of the ranks |
//!
//! Knows no rendezvous, and of a transport only what it offers.

mod element;
mod reduction;

pub use element::{Accumulator, Element, ElementType};
pub use reduction::Reduction;
