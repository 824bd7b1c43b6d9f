//! Collectives between processes, for any Rust program: no Burn and no other deep-learning
//! framework in it, so that it builds in seconds.
//!
//! It will hold three layers that do not know each other's insides, each a module:
//!
//! - *rendezvous*: who takes part: rank, world size, the address of each rank;
//! - *transport*: bytes between two ranks over TCP, shared memory or InfiniBand verbs;
//! - *collective*: all-reduce, broadcast, all-gather and barrier on a transport.
//!
//! None of them is written yet, so the crate exports nothing. `burn-dist` trains on one process
//! without it.
