//! Data-parallel training of any Burn model on all ranks of a world.
//!
//! | module | what it is for |
//! |---|---|
//! | `data_parallel` | [`DataParallel`]: a model that is trained on several ranks |
//! | `config` | what can be chosen |
//! | `layout` | the tensors of a model by path: what ranks have in common |
//! | `tensors` | weights of rank 0 for all, running statistics as their mean |
//! | `plan` | which gradients travel together |
//! | `bucket` | gradients in one piece of memory, on their way |
//! | `reducer` | the gradients of a step, into buckets and through the world |
//! | `hook` | gradients while the backward pass goes on |
//! | `sum_over_ranks` | sums over ranks within a model, as synchronised batch normalisation needs them |
//! | `checksum` | whether parameters are still the same everywhere |
//! | `error` | why ranks cannot train together |
//!
//! Knows of the training loop nothing: [`train`](crate::train) has a seam of its own, which it implements.

mod bucket;
mod checksum;
mod config;
mod data_parallel;
mod error;
mod hook;
mod layout;
mod plan;
mod reducer;
mod sum_over_ranks;
mod tensors;

pub use config::{DataParallelConfig, Weighting, Wire};
pub use data_parallel::{Contribution, DataParallel, Reduced, Vote, from_main};
pub use error::DistributedError;
pub use sum_over_ranks::SumOverRanks;
