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

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::nih::Pathology;

use self::canvas::PixelBox;
use self::population::Study;

/// The file that makes a folder a phantom: written last, so that a folder with it is whole.
const MANIFEST: &str = "phantom.json";
/// Raised whenever the same configuration gives another data set.
const VERSION: u32 = 1;
/// The sides that an image may have, in pixels.
const SIDES: std::ops::RangeInclusive<usize> = 32..=4096;
/// NIH's names of patients have 8 digits.
const MOST_IMAGES: usize = 10_000_000;

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
    #[error("{} is not empty and no phantom (it has no {MANIFEST}): name another folder", folder.display())]
    Occupied {
        /// The folder.
        folder: PathBuf,
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

/// What [`MANIFEST`] holds.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Manifest {
    version: u32,
    #[serde(flatten)]
    config: PhantomConfig,
}

impl PhantomConfig {
    /// Writes the data set into `folder`, in NIH's layout: read it with
    /// [`ChestXray14::open`](crate::ChestXray14::open).
    ///
    /// A folder that holds this very phantom is kept as it is; one with another phantom is replaced.
    /// The data set is written aside and renamed, so that it is there whole or not at all. Images are
    /// made on rayon's threads; `progress` gets their number after each.
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
        match fs::read_to_string(folder.join(MANIFEST)) {
            Ok(text) if text == self.manifest()? => return Ok(PhantomOutcome::Kept),
            Ok(_) => {}
            Err(_) if is_vacant(folder) => {}
            Err(_) => {
                return Err(PhantomError::Occupied {
                    folder: folder.to_owned(),
                });
            }
        }
        let aside = self.aside(folder)?;
        let written = self.write_files(&aside, progress).and_then(|()| {
            remove(folder)?;
            fs::rename(&aside, folder).map_err(|source| PhantomError::write(folder, source))
        });
        if written.is_err() {
            // The first error is the one to tell.
            let _ = fs::remove_dir_all(&aside);
        }
        written.map(|()| PhantomOutcome::Written)
    }

    fn check(&self) -> Result<(), PhantomError> {
        let refuse = |option, value: String, expected: String| {
            Err(PhantomError::Option {
                option,
                value,
                expected,
            })
        };
        if !(1..=MOST_IMAGES).contains(&self.images) {
            let expected = format!("from 1 to {MOST_IMAGES}");
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
            config: self.clone(),
        };
        serde_json::to_string_pretty(&manifest)
            .map(|text| text + "\n")
            .map_err(|error| PhantomError::write(Path::new(MANIFEST), error.into()))
    }

    /// A folder of this process beside `folder`.
    fn aside(&self, folder: &Path) -> Result<PathBuf, PhantomError> {
        let mut name = folder.file_name().unwrap_or_default().to_owned();
        name.push(format!(".partial-{}", std::process::id()));
        let aside = folder.with_file_name(name);
        remove(&aside)?;
        fs::create_dir_all(&aside).map_err(|source| PhantomError::write(&aside, source))?;
        Ok(aside)
    }

    fn write_files(
        &self,
        folder: &Path,
        progress: impl Fn(usize) + Sync,
    ) -> Result<(), PhantomError> {
        let studies = population::studies(self);
        for index in (0..studies.len()).step_by(1000) {
            let folder = folder.join(layout::image_folder(index));
            fs::create_dir_all(&folder).map_err(|source| PhantomError::write(&folder, source))?;
        }
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
            (
                "Data_Entry_2017_v2020.csv",
                layout::entries(&studies, self.image_size),
            ),
            ("train_val_list.txt", layout::list(&studies, false)),
            ("test_list.txt", layout::list(&studies, true)),
            ("BBox_List_2017.csv", layout::boxes(self.image_size, boxes)),
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
        let path = folder
            .join(layout::image_folder(index))
            .join(layout::image_name(study));
        layout::write_png(&path, &picture.pixels, self.image_size)?;
        Ok(picture.boxes)
    }
}

/// Whether nothing would be lost by writing to `folder`.
fn is_vacant(folder: &Path) -> bool {
    match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

fn remove(folder: &Path) -> Result<(), PhantomError> {
    match fs::remove_dir_all(folder) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(PhantomError::write(folder, source))
        }
        _ => Ok(()),
    }
}
