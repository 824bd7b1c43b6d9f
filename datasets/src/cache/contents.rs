//! A cache file that is mapped into memory, and known to be whole. It may not write.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;

use memmap2::Mmap;
use rayon::prelude::*;

use super::CacheProgress;
use super::error::CacheError;
use super::format::{Entry, Layout};

/// Images that each thread checks before progress is told.
const CHECKED_AT_ONCE: usize = 64;

/// A cache file whose every checksum holds.
#[derive(Debug)]
pub(super) struct Contents {
    map: Mmap,
    layout: Layout,
    /// Why images are bad, by their positions.
    bad: BTreeMap<usize, String>,
}

/// What is in the place of a cache file.
pub(super) enum Found {
    Valid(Contents),
    Absent,
    /// With what is wrong.
    Damaged(String),
}

impl Found {
    /// For messages.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Valid(_) => "the cache of these images is there".to_owned(),
            Self::Absent => "there is no cache of these images as they are now".to_owned(),
            Self::Damaged(reason) => format!("the cache of these images is damaged ({reason})"),
        }
    }
}

impl Contents {
    /// Maps the file `path` and checks all of it, the images in parallel.
    pub(super) fn open(
        path: &Path,
        layout: Layout,
        progress: &dyn Fn(CacheProgress),
    ) -> Result<Found, CacheError> {
        let map = match map(path) {
            Ok(map) => map,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Absent),
            Err(source) => {
                return Err(CacheError::Read {
                    path: path.to_owned(),
                    source,
                });
            }
        };
        let entries = match layout.read(&map) {
            Ok(entries) => entries,
            Err(reason) => return Ok(Found::Damaged(reason)),
        };
        if let Some(position) = first_damaged(&map, layout, &entries, progress) {
            let (number, of) = (position + 1, layout.images);
            let reason = format!("image {number} of {of} does not agree with its checksum");
            return Ok(Found::Damaged(reason));
        }
        let bad = (0..)
            .zip(entries)
            .filter(|(_, entry)| !entry.reason.is_empty());
        Ok(Found::Valid(Self {
            bad: bad
                .map(|(position, entry)| (position, entry.reason))
                .collect(),
            map,
            layout,
        }))
    }

    /// The pixels of the image at `position`, which must be one of the layout; zeros for a bad one.
    pub(super) fn pixels(&self, position: usize) -> &[u8] {
        &self.map[self.layout.slot_at(position)][..self.layout.pixels()]
    }

    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    /// Why images are bad, by their positions.
    pub(super) fn bad(&self) -> &BTreeMap<usize, String> {
        &self.bad
    }
}

fn map(path: &Path) -> io::Result<Mmap> {
    let file = File::open(path)?;
    // SAFETY: the map is only read, and any byte is a valid `u8`. No code here ever writes to a
    // file of this name: a builder writes under another name and gives the file this one when it is
    // complete (`build.rs`); a damaged file is unlinked, which leaves its bytes to those who map
    // it. That nobody else changes or truncates it in place cannot be enforced: the module's
    // documentation asks for it, and says what happens.
    unsafe { Mmap::map(&file) }
}

/// The position of the first image whose slot has another checksum than its entry.
fn first_damaged(
    file: &[u8],
    layout: Layout,
    entries: &[Entry],
    progress: &dyn Fn(CacheProgress),
) -> Option<usize> {
    let (mut done, total) = (0, entries.len());
    for chunk in entries.chunks(CHECKED_AT_ONCE * rayon::current_num_threads()) {
        progress(CacheProgress::Verifying { done, total });
        let damaged = chunk
            .par_iter()
            .enumerate()
            .position_first(|(offset, entry)| {
                crc32fast::hash(&file[layout.slot_at(done + offset)]) != entry.checksum
            });
        if let Some(offset) = damaged {
            return Some(done + offset);
        }
        done += chunk.len();
    }
    progress(CacheProgress::Verifying { done, total });
    None
}
