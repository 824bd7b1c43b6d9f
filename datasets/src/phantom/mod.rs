//! A synthetic data set of frontal chest radiographs, so that everything runs with no download. It
//! may depend on NIH's names of findings and on records, on no other room.
//!
//! A phantom is drawn, not copied: no patient's data is in it. Body, lungs, ribs, clavicles, spine,
//! heart, diaphragm and vessels vary by patient; pose, breath, exposure, scatter and noise by image;
//! each of the 14 pathologies is drawn with its radiographic sign, from obvious to subtle. It is made
//! to try, test and time a program, and says nothing of how a model does on patients.
//!
//! | file | what it is |
//! |---|---|
//! | `population` | patients, their findings and images |
//! | `anatomy` | the healthy chest of a patient |
//! | `finding` | the signs of the 14 pathologies |
//! | `canvas` | what the rays of each pixel cross |
//! | `detector` | scatter, noise, exposure: to grey pixels |
//! | `picture` | one radiograph, of all these |
//! | `layout` | the files, in NIH's layout |
//! | `draws` | random draws by key |

mod anatomy;
mod canvas;
mod detector;
mod draws;
mod finding;
mod layout;
mod picture;
mod population;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::nih::Pathology;

use self::canvas::PixelBox;
use self::layout::MANIFEST;
use self::population::Study;

/// Raised whenever the same configuration gives another data set.
const VERSION: u32 = 1;
/// The sides that an image may have, in pixels.
const SIDES: std::ops::RangeInclusive<usize> = 32..=4096;
/// At least so many, for patients on both lists; at most so many, for names of 8 digits as NIH's are.
const IMAGES: std::ops::RangeInclusive<usize> = 10..=9_000_000;

/// Why a phantom cannot be written.
#[derive(Debug, Error)]
pub enum PhantomError {
    /// A value that makes no sense.
    #[error("phantom: {option} is {value}: it must be {expected}")]
    Option {
        /// The field of [`PhantomConfig`].
        option: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        expected: String,
    },
    /// The folder holds something else.
    #[error("{} holds {foreign:?}, which is of no phantom: name another folder", folder.display())]
    Occupied {
        /// The folder.
        folder: PathBuf,
        /// What it holds.
        foreign: PathBuf,
    },
    /// A file or folder cannot be written.
    #[error("{}: the phantom cannot be written: {source}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl PhantomError {
    fn write(path: &Path, source: io::Error) -> Self {
        Self::Write {
            path: path.to_owned(),
            source,
        }
    }
}

/// What decides a phantom data set: equal values give equal files, on however many threads.
///
/// ```
/// use chest_datasets::{ChestXray14, PhantomConfig};
///
/// # let parent = tempfile::tempdir()?;
/// # let folder = parent.path().join("phantom");
/// let config = PhantomConfig { images: 12, image_size: 64, ..PhantomConfig::default() };
/// config.write(&folder, |_done| ())?;
/// let phantom = ChestXray14::open(&folder)?;
/// assert_eq!(phantom.dataset.len(), 12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PhantomConfig {
    /// Images in all.
    pub images: usize,
    /// Height and width of an image, in pixels.
    pub image_size: usize,
    /// Share of the patients on the test list.
    pub test_share: f32,
    /// Seed of everything.
    pub seed: u64,
}

impl Default for PhantomConfig {
    fn default() -> Self {
        Self {
            images: 2400,
            image_size: 128,
            test_share: 0.25,
            seed: 0,
        }
    }
}

/// What [`PhantomConfig::write`] found to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhantomOutcome {
    /// The data set was written.
    Written,
    /// The folder held the very data set already.
    Kept,
}

/// What the manifest holds.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Manifest {
    version: u32,
    phantom: PhantomConfig,
}

impl PhantomConfig {
    /// Writes the data set into `folder`, in NIH's layout: read it with
    /// [`ChestXray14::open`](crate::ChestXray14::open).
    ///
    /// A folder that holds this very phantom is kept as it is; another phantom in it is replaced. The
    /// files are written aside and moved when all of them are there. Of several processes one writes
    /// and the others wait for it. Images are made on rayon's threads; `progress` gets their number
    /// after each.
    ///
    /// # Errors
    ///
    /// A value that makes no sense, a folder with something else in it, a file that cannot be
    /// written.
    pub fn write(
        &self,
        folder: impl AsRef<Path>,
        progress: impl Fn(usize) + Sync,
    ) -> Result<PhantomOutcome, PhantomError> {
        let folder = folder.as_ref();
        self.check()?;
        fs::create_dir_all(folder).map_err(|source| PhantomError::write(folder, source))?;
        // Released when it is dropped. Where a file system has no locks, who writes at the same time
        // ends with an error.
        let lock = File::open(folder).map_err(|source| PhantomError::write(folder, source))?;
        let _ = lock.lock();
        let studies = population::studies(self);
        if self.is_in(folder, &studies)? {
            return Ok(PhantomOutcome::Kept);
        }
        let aside = layout::make_room(folder)?;
        self.write_files(&aside, &studies, progress)?;
        layout::move_in(&aside, folder)?;
        Ok(PhantomOutcome::Written)
    }

    fn check(&self) -> Result<(), PhantomError> {
        let refuse = |option, value: String, expected: String| {
            Err(PhantomError::Option {
                option,
                value,
                expected,
            })
        };
        if !IMAGES.contains(&self.images) {
            let expected = format!("from {} to {}", IMAGES.start(), IMAGES.end());
            return refuse("images", self.images.to_string(), expected);
        }
        if !SIDES.contains(&self.image_size) {
            let expected = format!("from {} to {}", SIDES.start(), SIDES.end());
            return refuse("image_size", self.image_size.to_string(), expected);
        }
        if !(self.test_share > 0.0 && self.test_share < 1.0) {
            let expected = "above 0 and below 1".to_owned();
            return refuse("test_share", self.test_share.to_string(), expected);
        }
        Ok(())
    }

    fn manifest(&self) -> Result<String, PhantomError> {
        let manifest = Manifest {
            version: VERSION,
            phantom: self.clone(),
        };
        serde_json::to_string_pretty(&manifest)
            .map(|text| text + "\n")
            .map_err(|error| PhantomError::write(Path::new(MANIFEST), error.into()))
    }

    /// Whether this very phantom is in `folder`, whole.
    fn is_in(&self, folder: &Path, studies: &[Study]) -> Result<bool, PhantomError> {
        let manifest = self.manifest()?;
        let same = fs::read_to_string(folder.join(MANIFEST)).is_ok_and(|text| text == manifest);
        let mut images = studies.iter().enumerate();
        Ok(same && images.all(|(index, study)| layout::image_path(folder, index, study).exists()))
    }

    fn write_files(
        &self,
        folder: &Path,
        studies: &[Study],
        progress: impl Fn(usize) + Sync,
    ) -> Result<(), PhantomError> {
        layout::make_image_folders(folder, studies.len())?;
        let done = AtomicUsize::new(0);
        let boxes: Vec<Vec<(Pathology, PixelBox)>> = studies
            .par_iter()
            .enumerate()
            .map(|(index, study)| {
                let boxes = self.write_image(folder, index, study)?;
                progress(done.fetch_add(1, Ordering::Relaxed) + 1);
                Ok(boxes)
            })
            .collect::<Result<_, PhantomError>>()?;
        let boxes = studies.iter().zip(boxes.iter().map(Vec::as_slice));
        for (name, content) in [
            (layout::ENTRIES, layout::entries(studies, self.image_size)),
            (layout::TRAIN_VAL, layout::list(studies, false)),
            (layout::TEST, layout::list(studies, true)),
            (layout::BOXES, layout::boxes(self.image_size, boxes)),
            (MANIFEST, self.manifest()?),
        ] {
            layout::write(&folder.join(name), content)?;
        }
        Ok(())
    }

    fn write_image(
        &self,
        folder: &Path,
        index: usize,
        study: &Study,
    ) -> Result<Vec<(Pathology, PixelBox)>, PhantomError> {
        let picture = picture::take(self.seed, study, self.image_size);
        let path = layout::image_path(folder, index, study);
        layout::write_png(&path, &picture.pixels, self.image_size)?;
        Ok(picture.boxes)
    }
}
