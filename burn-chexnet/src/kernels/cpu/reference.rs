//! What the tests of the kernels share.

/// Reproducible values around zero, with tails as activations have them.
pub fn values(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    (0..count).map(|_| next() + next() + next()).collect()
}

/// That `found` lies within `tolerance` of `expected`, relative to its root mean square.
#[track_caller]
pub fn assert_close(found: &[f32], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let scale = expected.iter().map(|e| e * e).sum::<f64>() / expected.len() as f64;
    let pairs = found.iter().zip(expected).enumerate();
    for (index, (found, expected)) in pairs {
        let distance = (f64::from(*found) - expected).abs();
        assert!(
            distance <= tolerance * (scale.sqrt() + expected.abs()) + 1e-12,
            "{what}: at {index} {found}, expected {expected}"
        );
    }
}
