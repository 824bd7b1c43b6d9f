//! Collectives between processes, for any Rust program: no Burn and no other deep-learning
//! framework in it, so that it builds in seconds.
//!
//! Three layers that do not know each other's insides, each a module:
//!
//! - [`rendezvous`]: who takes part: rank, world size, the address of each rank;
//! - *transport*: bytes between two ranks over TCP, shared memory or InfiniBand verbs;
//! - [`collective`]: all-reduce, broadcast, all-gather and barrier on a transport.
//!
//! So far a process can find out who it is ([`rendezvous::Identity`]), and arrays are reduced in the order of
//! the ranks ([`collective::Reduction`]); nothing moves between processes yet. `burn-dist` trains on one process
//! without them.

pub mod collective;
pub mod rendezvous;
