//! What is drawn for an image: where in its range each change lies.

use std::hash::Hasher;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use siphasher::sip::SipHasher24;

/// What is drawn for one image in one epoch, whatever is wanted of it.
///
/// A [`Draw`] holds positions within ranges, and an [`Augmentation`](super::Augmentation) holds
/// the ranges. So what is drawn for one kind of change does not depend on whether another is
/// wanted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Draw {
    /// The image is flipped if this is below the probability: from 0 up to, not including, 1.
    pub flip: f32,
    /// The rotation as a part of the greatest one, from -1 to 1; positive is counter-clockwise.
    pub rotation: f32,
    /// The shift across and down as parts of the greatest one, from -1 to 1; positive is to the
    /// right and down.
    pub translation: [f32; 2],
    /// The scale as a part of the greatest one, from -1 to 1; positive enlarges.
    pub scale: f32,
    /// The brightness as a part of the greatest one, from -1 to 1; positive brightens.
    pub brightness: f32,
}

impl Draw {
    /// The draw of the image named `image` in one epoch, whatever number its epochs count from.
    ///
    /// It depends on `seed`, `epoch` and the name alone: not on the other images, their order, the
    /// number of threads, or the epochs that ran before.
    ///
    /// The generator is ChaCha8. Its key is `seed`, `epoch` and the SipHash-2-4 (of key 0) of the
    /// name in UTF-8, each 64 bit and little-endian, and eight zeros. Its first six 32-bit words
    /// are, in this order: flip, rotation, translation across, translation down, scale,
    /// brightness. The upper 24 bits of a word are a fraction `f` of 2²⁴; the flip is `f`, each of
    /// the others `2 f - 1`. All of them are drawn always.
    ///
    /// ```
    /// use chest_datasets::Draw;
    ///
    /// let draw = Draw::new(42, 0, "00000001_000.png");
    /// assert_eq!(draw, Draw::new(42, 0, "00000001_000.png"));
    /// assert_ne!(draw, Draw::new(42, 1, "00000001_000.png"));
    /// ```
    pub fn new(seed: u64, epoch: u64, image: &str) -> Self {
        let mut hasher = SipHasher24::new();
        // `write`, not `str::hash`: that adds a byte which the standard library does not promise.
        hasher.write(image.as_bytes());
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&epoch.to_le_bytes());
        key[16..24].copy_from_slice(&hasher.finish().to_le_bytes());
        let mut generator = ChaCha8Rng::from_seed(key);
        // Own arithmetic, not the distributions of `rand`: another version of it may draw others.
        let mut fraction = || (generator.next_u32() >> 8) as f32 / (1 << 24) as f32;
        let flip = fraction();
        let mut either_way = || 2.0 * fraction() - 1.0;
        Self {
            flip,
            rotation: either_way(),
            translation: [either_way(), either_way()],
            scale: either_way(),
            brightness: either_way(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_is_fixed_by_seed_epoch_and_name() {
        // Fixed values: a resumed run must draw what the run that it resumes would have drawn. They
        // are of a ChaCha8 and a SipHash-2-4 written in Python from their papers.
        for ((seed, epoch, image), expected) in [
            (
                (42, 0, "00000001_000.png"),
                [10932053, 5348011, 6525926, 5259696, 10518473, 253854],
            ),
            (
                (42, 1, "00000001_000.png"),
                [14319875, 10778869, 11828215, 11068501, 4819569, 2545894],
            ),
            (
                (43, 0, "00000001_000.png"),
                [787218, 15206146, 930835, 11588722, 6386533, 4273959],
            ),
            (
                (42, 0, "00000001_001.png"),
                [5504306, 10333326, 10623414, 10664547, 7369063, 5084318],
            ),
        ] {
            let draw = Draw::new(seed, epoch, image);
            let [across, down] = draw.translation;
            let fractions = [draw.rotation, across, down, draw.scale, draw.brightness]
                .map(|value| (value + 1.0) / 2.0);
            let mut words = vec![draw.flip * 2_f32.powi(24)];
            words.extend(fractions.map(|fraction| fraction * 2_f32.powi(24)));
            assert_eq!(words, expected.map(|word: u32| word as f32));
        }
    }

    #[test]
    fn every_part_of_the_key_changes_the_draw() {
        let draw = Draw::new(1, 2, "a.png");
        for other in [
            Draw::new(2, 2, "a.png"),
            Draw::new(1, 3, "a.png"),
            Draw::new(2, 1, "a.png"),
            Draw::new(1, 2, "b.png"),
            Draw::new(1, 2, "a.png "),
        ] {
            assert_ne!(draw, other);
        }
    }

    #[test]
    fn draws_fill_their_ranges_evenly() {
        const IMAGES: u16 = 10_000;
        let mut sums = [0.0; 6];
        for image in 0..IMAGES {
            let draw = Draw::new(42, 0, &format!("{image}.png"));
            assert!((0.0..1.0).contains(&draw.flip));
            let [across, down] = draw.translation;
            let values = [draw.rotation, across, down, draw.scale, draw.brightness];
            assert!(values.iter().all(|value| (-1.0..1.0).contains(value)));
            sums[0] += f64::from(2.0 * draw.flip - 1.0);
            for (sum, value) in sums[1..].iter_mut().zip(values) {
                *sum += f64::from(value);
            }
        }
        // Values uniform in ±1 have the variance 1/3; five standard deviations of their mean.
        let bound = 5.0 * (1.0 / 3.0 / f64::from(IMAGES)).sqrt();
        for sum in sums {
            let mean = sum / f64::from(IMAGES);
            assert!(mean.abs() < bound, "{mean}, at most {bound}");
        }
    }
}
