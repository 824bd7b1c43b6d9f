//! The resized pixels of a source in one memory-mapped file, so that no epoch decodes an image
//! twice. It may not know of batches.
//!
//! A file is found by its key: what the images were when it was built, and how they were decoded.
//! Its name is `<32 hexadecimal digits>.chestcache`. An image that changes, or another size, makes
//! another key and so another file: a stale cache is never looked up. Older files stay, for another
//! experiment may use them; the [outcome](CacheOutcome::Built) counts them.
//!
//! Nothing in a file is used before all of it is checked against its checksums. What is damaged is
//! removed and built anew. A builder writes to another name and renames at the end. It holds a lock,
//! so that of many processes of a host one builds and the others wait and open. What builders of this
//! host that were killed have left is removed by the next build in the folder, of whichever cache,
//! if they held a lock in the folder.
//!
//! Removing a cache file is safe on a local drive while it is in use. Truncating it ends the
//! processes that map it with SIGBUS, as does removing it on another host of an NFS drive.

mod build;
mod contents;
mod error;
mod format;
mod key;
mod lock;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

pub use error::CacheError;

use crate::bad_image::{BadImage, OnBadImage};
use crate::decoding::ensure_size;
use crate::load_error::LoadError;
use crate::source::ImageSource;
use build::Build;
use contents::{Contents, Found};
use format::Layout;
use key::{CacheKey, file_states};
use lock::Lock;

/// The end of the names of cache files.
const EXTENSION: &str = "chestcache";

/// What opening or building a cache is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheProgress {
    /// Another process builds the same cache; it is waited for.
    Waiting,
    /// Images are checked against their checksums.
    Verifying {
        /// Images checked so far.
        done: usize,
        /// Images of the cache.
        total: usize,
    },
    /// Images are decoded and written.
    Building {
        /// Images written so far.
        done: usize,
        /// Images of the cache.
        total: usize,
    },
}

/// How a cache came to be open. It prints as a few words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheOutcome {
    /// It was there and whole.
    Opened,
    /// It was not there. One that an image has outdated since is not looked up, and counts here.
    Built {
        /// The other cache files in the folder: of these images in an older state, of other images
        /// or of another size.
        others: usize,
    },
    /// It was there and damaged.
    Rebuilt {
        /// What was wrong with it.
        reason: String,
    },
}

impl fmt::Display for CacheOutcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opened => formatter.pad("opened"),
            Self::Built { others: 0 } => formatter.pad("built"),
            Self::Built { others } => write!(
                formatter,
                "built (beside {others} of other images, of another size or of an older state)"
            ),
            Self::Rebuilt { reason } => write!(formatter, "rebuilt (it was damaged: {reason})"),
        }
    }
}

/// The pixels of every image in use of a source, at one size, in a memory-mapped file.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # image::GrayImage::from_pixel(2, 2, image::Luma([7])).save(folder.path().join("1.png"))?;
/// # std::fs::write(folder.path().join("table.csv"), "image,patient,Mass\n1.png,1,0\n")?;
/// # let cache_folder = folder.path().join("cache");
/// use std::sync::Arc;
/// use chest_datasets::{CacheOutcome, Dataset, ImageSource, Loader, LoaderConfig};
/// use chest_datasets::{OnBadImage, PackedCache};
///
/// let dataset = Arc::new(Dataset::from_csv(folder.path().join("table.csv"), None)?);
/// let source = Arc::new(ImageSource::new(dataset, folder.path(), &[0])?);
/// let open = || {
///     PackedCache::open_or_build(&cache_folder, &source, 4, OnBadImage::Stop, &|progress| {
///         println!("{progress:?}");
///     })
/// };
/// assert_eq!(open()?.outcome(), &CacheOutcome::Built { others: 0 });
/// let cache = open()?;
/// assert_eq!(cache.outcome(), &CacheOutcome::Opened);
/// assert_eq!(cache.pixels(0), Some(Ok(&[7; 16][..])));
///
/// let loader = Loader::new(source, LoaderConfig::new(4, 1))?.with_cache(Arc::new(cache))?;
/// for batch in loader.batches(vec![0]) {
///     assert_eq!(batch?.pixels, [7; 16]);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PackedCache {
    path: PathBuf,
    /// What it was opened with; its records and paths say which images it holds.
    source: ImageSource,
    contents: Contents,
    /// Of each record its position in the file; `None` where the record is not in use.
    positions: Vec<Option<usize>>,
    /// By the indices of their records.
    bad: BTreeMap<usize, BadImage>,
    outcome: CacheOutcome,
}

impl PackedCache {
    /// Opens the cache of the images in use of `source` at `image_size` by `image_size` pixels in
    /// `folder`, or builds it there.
    ///
    /// Opening examines every image file for its length and its time of modification, and reads the
    /// cache file once as a whole, which also brings it into memory as far as it fits. A file that
    /// changed without either of the two changing is not noticed. The same data mounted elsewhere,
    /// and another split of the same images, have the same cache; a copy of the data whose times
    /// differ has not.
    ///
    /// A folder that is not there is made. One that can only be read will do if the cache is in it.
    /// `progress` is called on the calling thread, images are decoded on rayon's.
    ///
    /// With [`OnBadImage::Skip`] a bad image is kept in the cache as such.
    ///
    /// # Errors
    ///
    /// An image file that cannot be read; a bad image, unless it is to be skipped, also one that is
    /// known from when the cache was built; an image file that changes while the cache is built; a
    /// size of zero or above 65535; a folder that cannot be read or, where the cache has to be
    /// built, written; a full disk. A build that fails leaves nothing but the empty file of its
    /// lock, and the folder if it made it.
    pub fn open_or_build(
        folder: &Path,
        source: &ImageSource,
        image_size: usize,
        on_bad_image: OnBadImage,
        progress: &dyn Fn(CacheProgress),
    ) -> Result<Self, CacheError> {
        ensure_size(image_size)?;
        fs::create_dir_all(folder).map_err(|source| CacheError::Folder {
            folder: folder.to_owned(),
            source,
        })?;
        let order = in_use_by_name(source);
        let states = file_states(source, &order)?;
        let key = CacheKey::new(source, &order, &states, image_size);
        let path = folder.join(format!("{key}.{EXTENSION}"));
        let build = Build {
            folder,
            path: &path,
            layout: Layout {
                key,
                image_size,
                images: order.len(),
            },
            source,
            order: &order,
            states: &states,
            on_bad_image,
            progress,
        };
        let (contents, outcome) = match Contents::open(&path, build.layout, progress)? {
            Found::Valid(contents) => (contents, CacheOutcome::Opened),
            Found::Absent | Found::Damaged(_) => build_alone(&build)?,
        };

        let mut positions = vec![None; source.dataset().len()];
        let mut bad = BTreeMap::new();
        for (position, &index) in order.iter().enumerate() {
            positions[index] = Some(position);
            if let Some(reason) = contents.bad().get(&position) {
                bad.insert(index, BadImage::new(source, index, reason));
            }
        }
        if let (OnBadImage::Stop, Some(bad)) = (on_bad_image, bad.values().next()) {
            return Err(LoadError::Image(bad.clone()).into());
        }
        Ok(Self {
            path,
            source: source.clone(),
            contents,
            positions,
            bad,
            outcome,
        })
    }

    /// The pixels of the record `index`: 8-bit grey, `[size, size]`, row by row; or what is wrong
    /// with its image. `None` if the record was not in use.
    pub fn pixels(&self, index: usize) -> Option<Result<&[u8], &BadImage>> {
        let position = (*self.positions.get(index)?)?;
        Some(match self.bad.get(&index) {
            Some(bad) => Err(bad),
            None => Ok(self.contents.pixels(position)),
        })
    }

    /// The bad images, in the order of their records.
    pub fn bad_images(&self) -> impl Iterator<Item = &BadImage> {
        self.bad.values()
    }

    /// Width and height of the images in pixels.
    pub fn image_size(&self) -> usize {
        self.contents.layout().image_size
    }

    /// The cache file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it was there, or why it was built.
    pub fn outcome(&self) -> &CacheOutcome {
        &self.outcome
    }

    /// The first record in use in `source` whose image the cache does not hold under this index.
    pub(crate) fn first_missing(&self, source: &ImageSource) -> Option<usize> {
        (0..source.dataset().len()).find(|&index| {
            source.path(index).is_some()
                && (source.path(index) != self.source.path(index)
                    || image(source, index) != image(&self.source, index))
        })
    }
}

/// The image of the record `index`, as the table names it.
fn image(source: &ImageSource, index: usize) -> Option<&str> {
    let record = source.dataset().records().get(index)?;
    Some(&record.image)
}

/// The records in use in the order of their images' names, so that the cache does not depend on
/// the order of a table.
fn in_use_by_name(source: &ImageSource) -> Vec<usize> {
    let records = source.dataset().records();
    let mut order: Vec<usize> = (0..records.len())
        .filter(|&index| source.path(index).is_some())
        .collect();
    order.sort_unstable_by(|&first, &second| records[first].image.cmp(&records[second].image));
    order
}

/// Builds under the lock what was not there, or opens what another has built.
fn build_alone(build: &Build<'_>) -> Result<(Contents, CacheOutcome), CacheError> {
    let progress = build.progress;
    let lock = Lock::take(build.folder, build.layout.key, &|| {
        progress(CacheProgress::Waiting);
    });
    let open = || Contents::open(build.path, build.layout, progress);

    let found = open()?;
    let outcome = match &found {
        Found::Valid(_) => CacheOutcome::Opened,
        Found::Absent => CacheOutcome::Built {
            others: cache_files(build.folder),
        },
        Found::Damaged(reason) => {
            // First of all, for its space.
            fs::remove_file(build.path)
                .map_err(|error| build.write_error(found.describe(), error))?;
            CacheOutcome::Rebuilt {
                reason: reason.clone(),
            }
        }
    };
    if let Found::Valid(contents) = found {
        return Ok((contents, outcome));
    }
    build.run(&lock)?;
    match open()? {
        Found::Valid(contents) => Ok((contents, outcome)),
        found => Err(CacheError::NotKept {
            path: build.path.to_owned(),
            found: found.describe(),
        }),
    }
}

/// The number of cache files in `folder`.
fn cache_files(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| Path::new(&entry.file_name()).extension() == Some(EXTENSION.as_ref()))
        .count()
}
