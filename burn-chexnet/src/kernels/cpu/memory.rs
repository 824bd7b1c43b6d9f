//! Memory that is used again. A fresh page costs more here than the arithmetic on it, and a training
//! step asks for the same sizes as the step before: what a tensor or a kernel gives back is kept for
//! the next one that asks, and returned to the system when nothing has asked for a while.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice::{from_raw_parts, from_raw_parts_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes to which the first float is aligned: a cache line, and the widest vector.
pub const ALIGNMENT: usize = 64;

/// How long memory waits for the next one that asks: longer than a training step.
const PATIENCE: Duration = Duration::from_secs(20);

/// Floats with whatever was there before: initialised, but to nothing that may be relied on.
pub struct Memory {
    block: Block,
    floats: usize,
}

/// What the system gave, always initialised: zeroed at first, then only floats are written to it.
struct Block {
    /// The first float, aligned; `offset` bytes behind what the system gave.
    start: NonNull<f32>,
    offset: usize,
    bytes: usize,
}

// SAFETY: a block is owned like a `Box`: nothing but its owner knows its address.
unsafe impl Send for Block {}
// SAFETY: as above; shared, it can only be read.
unsafe impl Sync for Block {}

static STOCK: Mutex<Stock> = Mutex::new(Stock::new());

fn stock() -> MutexGuard<'static, Stock> {
    // What a thread that panicked left is whole: nothing in here panics half-way.
    STOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Memory {
    /// Room for `floats` floats.
    pub fn take(floats: usize) -> Self {
        let bytes = class(floats);
        let kept = stock().take(bytes);
        let block = kept.unwrap_or_else(|| Block::new(bytes));
        Self { block, floats }
    }

    /// Room for `floats` zeros.
    pub fn zeros(floats: usize) -> Self {
        let mut memory = Self::take(floats);
        memory.fill(0.0);
        memory
    }

    /// The first float. Its provenance is exposed: a tensor on this memory hands out an address only.
    pub fn start(&self) -> *mut f32 {
        let start = self.block.start.as_ptr();
        start.expose_provenance();
        start
    }
}

impl Deref for Memory {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        // SAFETY: the block holds as many initialised floats, and lives as long as `self`.
        unsafe { from_raw_parts(self.block.start.as_ptr(), self.floats) }
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as above, and nothing else has the block.
        unsafe { from_raw_parts_mut(self.block.start.as_ptr(), self.floats) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let empty = Block {
            start: NonNull::dangling(),
            offset: 0,
            bytes: 0,
        };
        let block = std::mem::replace(&mut self.block, empty);
        let too_old = stock().give(block, Instant::now());
        // Behind the lock: returning memory to the system takes its time.
        drop(too_old);
    }
}

/// Gives what is kept for later back to the system.
pub fn release() {
    let all = std::mem::take(&mut stock().free);
    drop(all);
}

/// Bytes for `floats` floats, in steps of an eighth of the power of two below: so that sizes which
/// differ a little share memory, and at most an eighth is unused.
fn class(floats: usize) -> usize {
    let bytes = floats.saturating_mul(size_of::<f32>()).max(4096);
    let step = bytes.next_power_of_two() / 16;
    bytes.next_multiple_of(step)
}

impl Block {
    fn new(bytes: usize) -> Self {
        // Not aligned by the system, which would zero it page by page instead of by the kernel.
        let layout = Self::layout(bytes);
        // SAFETY: the layout has a size.
        let given = unsafe { alloc_zeroed(layout) };
        let Some(given) = NonNull::new(given) else {
            handle_alloc_error(layout);
        };
        let offset = given.align_offset(ALIGNMENT);
        // SAFETY: the layout has `ALIGNMENT` bytes more than are used.
        let start = unsafe { given.add(offset) }.cast();
        Self {
            start,
            offset,
            bytes,
        }
    }

    fn layout(bytes: usize) -> Layout {
        match Layout::from_size_align(bytes.saturating_add(ALIGNMENT), 16) {
            Ok(layout) => layout,
            Err(_) => handle_alloc_error(Layout::new::<u128>()),
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: `new` allocated it, with this layout, `offset` bytes before.
            unsafe {
                dealloc(
                    self.start.as_ptr().cast::<u8>().sub(self.offset),
                    Self::layout(self.bytes),
                );
            }
        }
    }
}

/// Blocks that nothing uses, by size, each with when it was given back; the last one last.
struct Stock {
    free: BTreeMap<usize, Vec<(Instant, Block)>>,
    looked: Option<Instant>,
}

impl Stock {
    const fn new() -> Self {
        Self {
            free: BTreeMap::new(),
            looked: None,
        }
    }

    fn take(&mut self, bytes: usize) -> Option<Block> {
        let (_, block) = self.free.get_mut(&bytes)?.pop()?;
        Some(block)
    }

    /// Keeps `block`, and hands out what has waited for too long.
    fn give(&mut self, block: Block, now: Instant) -> Vec<Block> {
        if block.bytes > 0 {
            self.free.entry(block.bytes).or_default().push((now, block));
        }
        let looked = *self.looked.get_or_insert(now);
        if now.duration_since(looked) < PATIENCE / 4 {
            return Vec::new();
        }
        self.looked = Some(now);
        let mut too_old = Vec::new();
        for blocks in self.free.values_mut() {
            let recent = blocks.partition_point(|(given, _)| now.duration_since(*given) > PATIENCE);
            too_old.extend(blocks.drain(..recent).map(|(_, block)| block));
        }
        self.free.retain(|_, blocks| !blocks.is_empty());
        too_old
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_back_is_taken_again() {
        let mut stock = Stock::new();
        let now = Instant::now();
        let block = Block::new(class(5000));
        let address = block.start;
        assert!(stock.give(block, now).is_empty());
        assert!(stock.take(class(50_000)).is_none());
        assert_eq!(stock.take(class(5001)).map(|b| b.start), Some(address));
        assert!(stock.take(class(5000)).is_none());
    }

    #[test]
    fn what_nothing_asks_for_is_returned() {
        let mut stock = Stock::new();
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        stock.give(Block::new(class(1 << 20)), start);
        stock.give(Block::new(class(10)), after(15));
        assert_eq!(stock.give(Block::new(class(10)), after(30)).len(), 1);
        assert!(stock.take(class(1 << 20)).is_none());
        assert!(stock.take(class(10)).is_some());
    }

    #[test]
    fn memory_is_aligned_and_wastes_an_eighth_at_most() {
        for floats in [0, 1, 1000, 1025, 70_001, 3_000_000] {
            let memory = Memory::zeros(floats);
            assert_eq!(memory.len(), floats);
            assert_eq!(memory.as_ptr() as usize % ALIGNMENT, 0);
            assert!(memory.iter().all(|value| *value == 0.0));
            assert!(class(floats) >= 4 * floats);
            assert!(
                class(floats) <= (4 * floats + floats / 2 + 64).max(4096),
                "{floats}"
            );
        }
    }
}
