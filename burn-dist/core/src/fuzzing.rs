//! Damaged bytes for everything that reads from the wire.
//!
//! `FUZZ_CASES` says how many cases each reader gets: a few thousand by default, a million in
//! `scripts/full-check`.

use std::fmt::Debug;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::rendezvous::wire;

/// Cases of each reader.
pub(crate) fn cases() -> u64 {
    let cases = std::env::var("FUZZ_CASES").ok();
    cases.and_then(|cases| cases.parse().ok()).unwrap_or(5_000)
}

/// The two ends of a connection. Each is at an address of its own: a million of them in a minute have no room at one.
pub(crate) fn connection() -> [TcpStream; 2] {
    static COUNT: AtomicU32 = AtomicU32::new(1);
    let [_, a, b, c] = (COUNT.fetch_add(1, Ordering::Relaxed) % (1 << 22)).to_be_bytes();
    let listener = TcpListener::bind((Ipv4Addr::new(127, a + 1, b, c), 0)).unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    [one, listener.accept().unwrap().0]
}

/// Numbers from a seed, the same in every run.
pub(crate) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x2545_F491_4F6C_DD1D)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() >> 16) as usize % end.max(1)
    }

    /// `bytes` with up to three of: a bit turned, a byte replaced, a piece cut, doubled or moved, an end cut off.
    pub fn damage(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut damaged = bytes.to_vec();
        for _ in 0..self.below(4) {
            let (at, other) = (self.below(damaged.len()), self.below(damaged.len()));
            let (start, end) = (at.min(other), at.max(other));
            if damaged.is_empty() {
                break;
            }
            match self.below(6) {
                0 => damaged[at] ^= 1 << self.below(8),
                1 => damaged[at] = self.next() as u8,
                2 => drop(damaged.drain(start..end)),
                3 => {
                    let piece = damaged[start..end].to_vec();
                    damaged.splice(at..at, piece);
                }
                4 => damaged.swap(at, other),
                _ => damaged.truncate(at),
            }
        }
        damaged
    }
}

/// Damages messages: each is refused, or read as something that can be sent again.
pub(crate) fn messages<T: Serialize + DeserializeOwned + PartialEq + Debug>(samples: &[T]) {
    let samples: Vec<Vec<u8>> = samples
        .iter()
        .map(|sample| {
            let mut bytes = Vec::new();
            wire::send(&mut bytes, sample).unwrap();
            bytes
        })
        .collect();
    let (mut accepted, mut refused) = (0u64, 0u64);
    for case in 0..cases() {
        let mut random = Random::new(case);
        let sample = &samples[random.below(samples.len())];
        let mut bytes = random.damage(sample);
        // The length is damaged in one case of eight only: else little would get behind it.
        if bytes.len() >= 4 && case % 8 > 0 {
            let length = (bytes.len() - 4) as u32;
            bytes[..4].copy_from_slice(&length.to_le_bytes());
        }
        match wire::receive::<T>(&mut bytes.as_slice()) {
            Ok(message) => {
                accepted += 1;
                let mut again = Vec::new();
                wire::send(&mut again, &message).unwrap();
                assert_eq!(wire::receive::<T>(&mut again.as_slice()).unwrap(), message);
            }
            Err(_) => refused += 1,
        }
    }
    // A reader that takes all or nothing would be no test.
    assert!(
        accepted > cases() / 50 && refused > cases() / 50,
        "{accepted}, {refused}"
    );
}
