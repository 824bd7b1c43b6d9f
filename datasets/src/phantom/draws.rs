//! Random draws that depend on a key alone: not on threads, nor on what was drawn elsewhere. It may
//! not know what is drawn.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A stream of draws.
pub(super) struct Draws(ChaCha8Rng);

impl Draws {
    /// The stream of `key`: ChaCha8 with its words as the key, little-endian.
    pub(super) fn new(key: [u64; 4]) -> Self {
        let mut bytes = [0; 32];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(key) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        Self(ChaCha8Rng::from_seed(bytes))
    }

    /// Evenly between `low` and `high`.
    pub(super) fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.0.random::<f32>()
    }

    /// A whole number from `low` to `high`, both included.
    pub(super) fn count(&mut self, low: usize, high: usize) -> usize {
        self.0.random_range(low..=high)
    }

    /// About normal, mean 0 and deviation 1: the sum of four even draws, so never beyond 3.5.
    pub(super) fn normal(&mut self) -> f32 {
        let sum: f32 = (0..4).map(|_| self.0.random::<f32>()).sum();
        (sum - 2.0) * 1.732
    }

    /// True with the probability `probability`.
    pub(super) fn chance(&mut self, probability: f32) -> bool {
        self.0.random::<f32>() < probability
    }

    /// About normal, mean 0 and deviation 1, from the bytes of one word: for the noise of pixels.
    pub(super) fn grain(&mut self) -> f32 {
        let sum: u32 = self
            .0
            .random::<u32>()
            .to_le_bytes()
            .map(u32::from)
            .iter()
            .sum();
        (sum as f32 - 510.0) / 147.8
    }
}
