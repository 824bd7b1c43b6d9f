//! What a cache depends on, as one number. It may not know the format of the file.

use std::fmt;
use std::fs;
use std::hash::Hasher;
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rayon::prelude::*;
use siphasher::sip128::{Hasher128, SipHasher24};

use super::error::CacheError;
use super::format;
use crate::decoding;
use crate::source::ImageSource;

/// 128 bits of SipHash-2-4 over everything that the bytes of a cache depend on; printed as 32
/// hexadecimal digits.
///
/// The folder of the images is not among it: the same data mounted elsewhere has the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CacheKey(u128);

/// What tells one state of an image file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileState {
    /// In bytes.
    length: u64,
    /// Time of modification in nanoseconds since 1970.
    modified: i128,
}

impl FileState {
    fn of(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        Ok(Self {
            length: metadata.len(),
            modified: nanoseconds(metadata.modified()?),
        })
    }
}

fn nanoseconds(time: SystemTime) -> i128 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_nanos() as i128,
        Err(before) => -(before.duration().as_nanos() as i128),
    }
}

/// The states of the images of the records `order`, which are all in use in `source`.
///
/// The files are examined in parallel: on a network drive each takes a round trip.
pub(super) fn file_states(
    source: &ImageSource,
    order: &[usize],
) -> Result<Vec<FileState>, CacheError> {
    let states: Vec<Result<FileState, CacheError>> = order
        .par_iter()
        .filter_map(|&index| source.path(index))
        .map(|path| {
            FileState::of(path).map_err(|source| CacheError::Examine {
                path: path.to_owned(),
                source,
            })
        })
        .collect();
    states.into_iter().collect()
}

impl CacheKey {
    /// The key of the images of the records `order` of `source`, whose files are in these `states`.
    pub(super) fn new(
        source: &ImageSource,
        order: &[usize],
        states: &[FileState],
        image_size: usize,
    ) -> Self {
        let records = source.dataset().records();
        let names = order.iter().map(|&index| records[index].image.as_str());
        // What a file is can be told by its bytes only, so the feature counts whatever the names.
        let dicom = cfg!(feature = "dicom");
        Self::of(image_size, dicom, names.zip(states.iter().copied()))
    }

    fn of<'a>(
        image_size: usize,
        dicom: bool,
        files: impl Iterator<Item = (&'a str, FileState)>,
    ) -> Self {
        let mut hasher = SipHasher24::new();
        // Bytes only, for `Hasher`'s integers are those of the machine.
        hasher.write(&format::VERSION.to_le_bytes());
        hasher.write(&decoding::VERSION.to_le_bytes());
        hasher.write(&(image_size as u64).to_le_bytes());
        hasher.write(&[u8::from(dicom)]);
        for (name, state) in files {
            hasher.write(&(name.len() as u64).to_le_bytes());
            hasher.write(name.as_bytes());
            hasher.write(&state.length.to_le_bytes());
            hasher.write(&state.modified.to_le_bytes());
        }
        Self(hasher.finish128().as_u128())
    }

    pub(super) fn to_le_bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }

    #[cfg(test)]
    pub(super) fn of_number(number: u128) -> Self {
        Self(number)
    }
}

impl fmt::Display for CacheKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", self.0)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use std::collections::HashSet;
    use std::time::Duration;

    use super::*;

    fn key(image_size: usize, dicom: bool, files: &[(&str, u64, i128)]) -> String {
        let files = files
            .iter()
            .map(|&(name, length, modified)| (name, FileState { length, modified }));
        CacheKey::of(image_size, dicom, files).to_string()
    }

    #[test]
    fn everything_that_the_pixels_depend_on_changes_the_key() {
        let files = [("a.png", 5, 7), ("b.png", 5, 7)];
        let keys = [
            key(4, false, &files),
            key(5, false, &files),
            key(4, true, &files),
            key(4, false, &files[..1]),
            key(4, false, &[]),
            key(4, false, &[("a.pn", 5, 7), ("gb.png", 5, 7)]),
            key(4, false, &[("a.png", 6, 7), ("b.png", 5, 7)]),
            key(4, false, &[("a.png", 5, 8), ("b.png", 5, 7)]),
            key(4, false, &[("a.png", 5, -7), ("b.png", 5, 7)]),
        ];
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
    }

    #[test]
    fn the_key_is_the_same_on_every_machine() {
        // Computed with another implementation of SipHash-2-4-128, from the bytes in the order that
        // `CacheKey::of` writes them. A change of a version changes it.
        assert_eq!(
            key(224, false, &[("1.png", 1000, 1_700_000_000_123_456_789)]),
            "4689986ce2dd9517718cdf8c9c6a0d74"
        );
    }

    #[test]
    fn times_before_1970_are_negative() {
        let second = Duration::from_secs(1);
        assert_eq!(nanoseconds(UNIX_EPOCH + second), 1_000_000_000);
        assert_eq!(nanoseconds(UNIX_EPOCH - second), -1_000_000_000);
    }
}
