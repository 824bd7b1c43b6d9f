//! Whether the parameters of all ranks are still the same.

use std::sync::atomic::{AtomicU64, Ordering};

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::Tensor;
use burn_dist_core::World;

use super::DistributedError;
use super::layout::Layout;

/// Compares parameters from time to time.
pub(super) struct Checksums {
    every: u64,
    steps: AtomicU64,
}

impl Checksums {
    /// After each so many steps; never, if 0.
    pub fn every(steps: u64) -> Self {
        Self {
            every: steps,
            steps: AtomicU64::new(0),
        }
    }

    /// Counts a step, and compares if it is time: on all ranks at the same step.
    ///
    /// # Errors
    ///
    /// The first parameter that differs, on all ranks.
    pub fn step<M: Module>(
        &self,
        world: &World,
        layout: &Layout,
        model: &M,
    ) -> Result<(), DistributedError> {
        let steps = self.steps.fetch_add(1, Ordering::Relaxed) + 1;
        if self.every == 0 || !steps.is_multiple_of(self.every) {
            return Ok(());
        }
        let mut summing = Summing {
            layout,
            sums: vec![0; layout.entries.len()],
        };
        model.visit(&mut summing);
        let all = world.all_gather(&summing.sums)?;
        for (index, entry) in layout.entries.iter().enumerate() {
            let differs = |rank: &usize| all.of(*rank)[index] != all.of(0)[index];
            if let Some(rank) = (1..world.size()).find(differs) {
                return Err(DistributedError::Diverged {
                    tensor: entry.path.clone(),
                    rank,
                    steps,
                });
            }
        }
        Ok(())
    }
}

struct Summing<'a> {
    layout: &'a Layout,
    sums: Vec<i64>,
}

impl ModuleVisitor for Summing<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let Some(index) = self.layout.index(param.id) else {
            return;
        };
        // What cannot be read is the same nowhere.
        let read = self.layout.entries[index]
            .is_trained
            .then(|| param.base().try_into_data());
        self.sums[index] = match read {
            Some(Ok(data)) => checksum(data.as_bytes()) as i64,
            Some(Err(_)) => -1,
            // Running statistics of ranks differ between evaluations.
            None => 0,
        };
    }
}

/// A number of bytes and of their places: Fletcher's two sums over words of 32 bits, in eight lanes.
fn checksum(bytes: &[u8]) -> u64 {
    const LANES: usize = 8;
    let (mut first, mut second) = ([0u64; LANES], [0u64; LANES]);
    let mut chunks = bytes.chunks_exact(4 * LANES);
    for chunk in &mut chunks {
        for (lane, word) in chunk.chunks_exact(4).enumerate() {
            let word = word.first_chunk().copied().map_or(0, u32::from_le_bytes);
            first[lane] = first[lane].wrapping_add(u64::from(word) + 1);
            second[lane] = second[lane].wrapping_add(first[lane]);
        }
    }
    let rest = chunks.remainder().iter().map(|byte| u64::from(*byte));
    let lanes = first.into_iter().zip(second).flat_map(|(a, b)| [a, b]);
    rest.chain(lanes).fold(bytes.len() as u64, |sum, part| {
        (sum ^ part)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(29)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_and_every_place_counts() {
        let bytes: Vec<u8> = (0..1_037u32).map(|i| (i * 7 + i / 13) as u8).collect();
        let whole = checksum(&bytes);
        for place in 0..bytes.len() {
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[place] ^= 1 << bit;
                assert_ne!(checksum(&other), whole, "{place}, {bit}");
            }
        }
        let mut swapped = bytes.clone();
        swapped.swap(3, 4);
        assert_ne!(checksum(&swapped), whole);
        assert_ne!(checksum(&bytes[..1_036]), whole);
        assert_eq!(checksum(&bytes), whole);
    }
}
