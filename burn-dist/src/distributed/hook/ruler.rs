//! Depths on autodiff's tape.
//!
//! The tape is worked off from the deepest operation to the shallowest, and an operation lies one level below the
//! deepest of its inputs. A gate with a parameter as its only input would lie at level 1, so all gates would
//! come at the very end. With a mark of the ruler as second input it lies as deep as is wanted.

use std::sync::{Mutex, PoisonError};

use burn::backend::Dispatch;
use burn::tensor::{Device, Tensor};

use super::gate::GradientGate;

/// Levels between two marks: more than operations between the first uses of two parameters. Less delays gradients and
/// makes none wrong; each level costs about 40 ns a step.
const SPACING: usize = 64;

/// A chain of operations on a number that requires no gradient, with a handle at every [`SPACING`]th.
#[derive(Debug)]
pub(super) struct Ruler {
    marks: Mutex<Vec<Tensor<1>>>,
}

impl Ruler {
    /// A ruler on the tape of `device`, which has to be that of the model, with the same checkpointing.
    pub fn new(device: &Device) -> Self {
        Self {
            marks: Mutex::new(vec![Tensor::zeros([1], device)]),
        }
    }

    /// The mark with a number; those before it are deeper in the backward pass, that is later.
    pub fn mark(&self, number: usize) -> Tensor<1> {
        // Marks are whole even if a thread that has held them has panicked.
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        while marks.len() <= number {
            let last = marks[marks.len() - 1].clone().into_dispatch();
            marks.push(Tensor::from_dispatch(Dispatch::deepen(last, SPACING)));
        }
        marks[number].clone()
    }
}
