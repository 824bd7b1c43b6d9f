//! Weights as the products take them, kept for as long as the tensor is there that they were made of. Nobody can change
//! that in place: its memory is shared, if only weakly, and Burn then writes into other memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use burn::backend::flex::FlexTensor;
use burn_std::Bytes;

use super::super::cpu::panels::{Panels, Weights};
use super::memory::{floats, ordered};

struct Packed {
    of: Weak<Bytes>,
    panels: Arc<Panels>,
}

/// The tensor's memory, where in it the tensor begins, and what it is the weight of.
type Key = (usize, usize, Weights);

static PACKED: Mutex<BTreeMap<Key, Packed>> = Mutex::new(BTreeMap::new());

fn all() -> MutexGuard<'static, BTreeMap<Key, Packed>> {
    // What a thread that panicked left is whole.
    PACKED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `tensor`, the weight of a convolution of these sizes.
pub(super) fn packed(tensor: FlexTensor, weights: Weights) -> Arc<Panels> {
    let tensor = ordered(tensor);
    let of = tensor.data_arc();
    let key = (
        Arc::as_ptr(&of).addr(),
        tensor.layout().start_offset(),
        weights,
    );
    // Memory that was given back can be another tensor's by now.
    let is_there = |packed: &&Packed| packed.of.strong_count() > 0;
    if let Some(packed) = all().get(&key).filter(is_there) {
        return packed.panels.clone();
    }
    let panels = Arc::new(weights.forward(floats(&tensor)));
    let mut all = all();
    all.retain(|_, packed| packed.of.strong_count() > 0);
    let packed = Packed {
        of: Arc::downgrade(&of),
        panels: panels.clone(),
    };
    all.insert(key, packed);
    panels
}

/// Forgets all.
pub fn release() {
    all().clear();
}
