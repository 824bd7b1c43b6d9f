//! The bytes of a cache file. It may not read or write files.
//!
//! Numbers are little-endian. `N` is the number of images; they are in the order of their names,
//! which the file does not repeat: the key stands for them.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `CHESTPIX` |
//! | 4 | version of the format |
//! | 4 | image size: width and height in pixels |
//! | 16 | [key](super::key) |
//! | 8 | `N` |
//! | 24 | zero |
//! | `N` times a slot | the pixels of an image, row by row, then zeros to a multiple of 64; all zero for a bad image |
//! | `N` times 4 + 4 | of each image: CRC-32 of its slot, length of its reason: 0 unless it is bad |
//! | the lengths' sum | the reasons, UTF-8 |
//! | 4 | CRC-32 of everything but the slots |
//!
//! What is known only after the last image comes last, so that a file is written in one go. Slots
//! begin at multiples of 64, a line of a processor's cache.
//!
//! CRC-32 (as in PNG and gzip) finds every flipped bit and every burst of up to 32, other damage but
//! for one case in 4 billion an image, and is several times faster than SipHash: what it is to find
//! is a drive's accident, not an attack.

use std::ops::Range;

use super::key::CacheKey;

/// Raise it with every change of the format.
pub(super) const VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"CHESTPIX";

/// What slots are aligned to, and the length of the header.
const ALIGNMENT: usize = 64;

/// The length of the CRC-32 at the end.
const CHECKSUM: usize = 4;

/// The length of what the index says of an image, without its reason.
const ENTRY: usize = 8;

/// What the index says of one image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// CRC-32 of its slot.
    pub(super) checksum: u32,
    /// Why the image is bad; empty if it is not.
    pub(super) reason: String,
}

/// Everything of a cache file that is known before it is there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) key: CacheKey,
    pub(super) image_size: usize,
    pub(super) images: usize,
}

impl Layout {
    pub(super) fn header(&self) -> [u8; ALIGNMENT] {
        let fields: [&[u8]; 5] = [
            &MAGIC,
            &VERSION.to_le_bytes(),
            &(self.image_size as u32).to_le_bytes(),
            &self.key.to_le_bytes(),
            &(self.images as u64).to_le_bytes(),
        ];
        let mut header = [0; ALIGNMENT];
        for (target, value) in header.iter_mut().zip(fields.concat()) {
            *target = value;
        }
        header
    }

    /// The bytes of the pixels of an image.
    pub(super) fn pixels(&self) -> usize {
        self.image_size * self.image_size
    }

    /// The bytes of a slot.
    pub(super) fn slot(&self) -> usize {
        self.pixels().next_multiple_of(ALIGNMENT)
    }

    /// Where the image at `position` lies. `position` may be the number of images: where the index
    /// begins.
    pub(super) fn slot_at(&self, position: usize) -> Range<usize> {
        let begin = ALIGNMENT + position * self.slot();
        begin..begin + self.slot()
    }

    /// The bytes of a file without bad images, which is the least that a file has.
    pub(super) fn least_length(&self) -> u64 {
        let fixed = (ALIGNMENT + CHECKSUM) as u64;
        fixed + self.images as u64 * (self.slot() as u64 + ENTRY as u64)
    }

    /// What follows the slots.
    pub(super) fn index(&self, entries: &[Entry]) -> Vec<u8> {
        let mut index = Vec::new();
        for entry in entries {
            index.extend(entry.checksum.to_le_bytes());
            index.extend((entry.reason.len() as u32).to_le_bytes());
        }
        for entry in entries {
            index.extend(entry.reason.as_bytes());
        }
        index.extend(self.checksum(&index).to_le_bytes());
        index
    }

    fn checksum(&self, index: &[u8]) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.header());
        hasher.update(index);
        hasher.finalize()
    }

    /// Reads header and index of `file`, which is the whole of it; or says what is wrong with them.
    pub(super) fn read(&self, file: &[u8]) -> Result<Vec<Entry>, String> {
        let length = file.len() as u64;
        if length < self.least_length() {
            let least = self.least_length();
            return Err(format!(
                "it has {length} bytes, and at least {least} belong to it"
            ));
        }
        // Stricter than its checksum: every field is known.
        if !file.starts_with(&self.header()) {
            return Err("its header is another".to_owned());
        }
        self.read_index(&file[self.slot_at(self.images).start..])
            .ok_or_else(|| "its index does not agree with its checksum or its length".to_owned())
    }

    fn read_index(&self, index: &[u8]) -> Option<Vec<Entry>> {
        let (index, checksum) = index.split_last_chunk::<CHECKSUM>()?;
        if self.checksum(index) != u32::from_le_bytes(*checksum) {
            return None;
        }
        let (fixed, mut reasons) = index.split_at_checked(self.images * ENTRY)?;
        let mut entries = Vec::with_capacity(self.images);
        for entry in fixed.chunks_exact(ENTRY) {
            let (checksum, length) = entry.split_first_chunk()?;
            let length = u32::from_le_bytes(*length.first_chunk()?) as usize;
            let (reason, rest) = reasons.split_at_checked(length)?;
            reasons = rest;
            entries.push(Entry {
                checksum: u32::from_le_bytes(*checksum),
                reason: String::from_utf8(reason.to_vec()).ok()?,
            });
        }
        reasons.is_empty().then_some(entries)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        Layout {
            key: CacheKey::of_number(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10),
            image_size: 9,
            images: 2,
        }
    }

    /// A file of `entries`, whose slots are zero.
    fn file(layout: Layout, entries: &[Entry]) -> Vec<u8> {
        let slots = vec![0; entries.len() * layout.slot()];
        [&layout.header()[..], &slots, &layout.index(entries)].concat()
    }

    fn entries() -> Vec<Entry> {
        [(7, ""), (0xffff_fffe, "cut short — é")]
            .map(|(checksum, reason)| Entry {
                checksum,
                reason: reason.to_owned(),
            })
            .to_vec()
    }

    #[test]
    fn the_bytes_are_those_of_the_table() {
        let file = file(layout(), &entries());
        assert_eq!(
            file[..40],
            *b"CHESTPIX\x01\0\0\0\x09\0\0\0\x10\x0f\x0e\x0d\x0c\x0b\x0a\x09\x08\x07\x06\x05\x04\x03\x02\x01\x02\0\0\0\0\0\0\0"
        );
        assert_eq!(file[40..64], [0; 24]);
        // 81 pixels take two times 64 bytes.
        assert_eq!(layout().slot_at(1), 192..320);
        assert_eq!(
            file[320..336],
            *b"\x07\0\0\0\0\0\0\0\xfe\xff\xff\xff\x10\0\0\0"
        );
        assert_eq!(&file[336..352], "cut short — é".as_bytes());
        assert_eq!(file.len(), 352 + 4);
        assert_eq!(layout().least_length(), 336 + 4);
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(layout().read(&file(layout(), &entries())), Ok(entries()));
        let empty = Layout {
            images: 0,
            ..layout()
        };
        assert_eq!(empty.read(&file(empty, &[])), Ok(vec![]));
    }

    #[test]
    fn every_other_length_and_every_other_cache_is_refused() {
        let file = file(layout(), &entries());
        for length in 0..file.len() {
            assert!(layout().read(&file[..length]).is_err(), "{length}");
        }
        // Also with the four bytes after which CRC-32 checks anything that it has checked before.
        for more in [&[0][..], &[0; 64], &[0x1c, 0xdf, 0x44, 0x21]] {
            assert!(layout().read(&[&file, more].concat()).is_err());
        }
        for other in [
            Layout {
                key: CacheKey::of_number(1),
                ..layout()
            },
            Layout {
                image_size: 8,
                ..layout()
            },
            Layout {
                images: 1,
                ..layout()
            },
        ] {
            assert_eq!(other.read(&file).unwrap_err(), "its header is another");
        }
    }
}
