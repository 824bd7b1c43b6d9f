//! The files of a phantom data set, in the layout in which NIH publishes ChestX-ray14.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ExtendedColorType, ImageEncoder};
use walkdir::WalkDir;

use crate::nih::Pathology;

use super::PhantomError;
use super::canvas::PixelBox;
use super::population::Study;

/// Images in a folder `images_NNN`.
const FOLDER_SIZE: usize = 10_000;
/// NIH gives boxes in pixels of an image of this side, whatever the image's own.
const BOX_SIDE: f32 = 1024.0;
/// Width of an image at the detector, in millimetres.
const WIDTH_MM: f32 = 400.0;

pub(super) const ENTRIES: &str = "Data_Entry_2017_v2020.csv";
pub(super) const TRAIN_VAL: &str = "train_val_list.txt";
pub(super) const TEST: &str = "test_list.txt";
pub(super) const BOXES: &str = "BBox_List_2017.csv";
/// What makes a folder a phantom: moved in last, so that a folder with it is whole.
pub(super) const MANIFEST: &str = "phantom.json";
/// Where the files are written before they are moved.
const ASIDE: &str = "phantom.partial";

/// The patient's number in names and tables. NIH's end far below these, so that no table of real
/// images can find a picture of the phantom.
fn patient_id(study: &Study) -> u64 {
    90_000_000 + study.patient
}

/// The image's name: `90000007_002.png` is the third image of the seventh patient.
fn image_name(study: &Study) -> String {
    format!("{:08}_{:03}.png", patient_id(study), study.follow_up)
}

fn is_image_name(name: &str) -> bool {
    let digits =
        |part: &str, count| part.len() == count && part.bytes().all(|b| b.is_ascii_digit());
    let stem = name
        .strip_suffix(".png")
        .and_then(|stem| stem.split_once('_'));
    stem.is_some_and(|(patient, image)| {
        digits(patient, 8) && patient.starts_with('9') && digits(image, 3)
    })
}

/// The folder of the image number `index`, below the data set's.
fn image_folder(index: usize) -> String {
    format!("images_{:03}", index / FOLDER_SIZE + 1)
}

pub(super) fn image_path(folder: &Path, index: usize, study: &Study) -> PathBuf {
    let images = folder.join(image_folder(index)).join("images");
    images.join(image_name(study))
}

pub(super) fn make_image_folders(folder: &Path, images: usize) -> Result<(), PhantomError> {
    for index in (0..images).step_by(FOLDER_SIZE) {
        let folder = folder.join(image_folder(index)).join("images");
        fs::create_dir_all(&folder).map_err(|source| PhantomError::write(&folder, source))?;
    }
    Ok(())
}

/// Removes what an earlier phantom left in `folder`, file by file, and makes the folder to write to;
/// refuses a folder with anything else in it.
pub(super) fn make_room(folder: &Path) -> Result<PathBuf, PhantomError> {
    let aside = folder.join(ASIDE);
    let own = aside.exists() || folder.join(MANIFEST).exists();
    let mut files = Vec::new();
    for entry in WalkDir::new(folder).min_depth(1).contents_first(true) {
        let path = match entry {
            Ok(entry) => entry.into_path(),
            Err(error) => return Err(PhantomError::write(folder, error.into())),
        };
        let inside = path.strip_prefix(folder).unwrap_or(&path);
        let inside = inside.strip_prefix(ASIDE).unwrap_or(inside);
        if !own || !is_own(inside) {
            return Err(PhantomError::Occupied {
                folder: folder.to_owned(),
                foreign: path,
            });
        }
        files.push(path);
    }
    // The folder to write to goes last: with it in place, a removal that is broken off can go on.
    fs::create_dir_all(&aside).map_err(|source| PhantomError::write(&aside, source))?;
    for path in files.into_iter().filter(|path| *path != aside) {
        let removed = match path.is_dir() {
            true => fs::remove_dir(&path),
            false => fs::remove_file(&path),
        };
        removed.map_err(|source| PhantomError::write(&path, source))?;
    }
    Ok(aside)
}

/// Whether a path within the folder is one that a phantom has.
fn is_own(path: &Path) -> bool {
    let parts: Option<Vec<&str>> = path.iter().map(|part| part.to_str()).collect();
    let is_folder = |name: &str| {
        let number = name.strip_prefix("images_");
        number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    match parts.as_deref() {
        Some([]) => true,
        Some([name]) => {
            [ENTRIES, TRAIN_VAL, TEST, BOXES, MANIFEST].contains(name) || is_folder(name)
        }
        Some([folder, "images"]) => is_folder(folder),
        Some([folder, "images", image]) => is_folder(folder) && is_image_name(image),
        _ => false,
    }
}

/// Moves all files from the folder `aside` into `folder`, the manifest last.
pub(super) fn move_in(aside: &Path, folder: &Path) -> Result<(), PhantomError> {
    let failed = |source| PhantomError::write(folder, source);
    let mut names = Vec::new();
    for entry in fs::read_dir(aside).map_err(failed)? {
        names.push(entry.map_err(failed)?.file_name());
    }
    names.sort_by_key(|name| name == MANIFEST);
    for name in names {
        fs::rename(aside.join(&name), folder.join(&name)).map_err(failed)?;
    }
    fs::remove_dir(aside).map_err(failed)
}

/// The PNG file of grey pixels, `[size, size]`.
pub(super) fn write_png(path: &Path, pixels: &[u8], size: usize) -> Result<(), PhantomError> {
    let mut file = Vec::new();
    let side = size as u32;
    PngEncoder::new_with_quality(&mut file, CompressionType::Fast, FilterType::Sub)
        .write_image(pixels, side, side, ExtendedColorType::L8)
        .map_err(|error| PhantomError::write(path, std::io::Error::other(error)))?;
    write(path, file)
}

pub(super) fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), PhantomError> {
    fs::write(path, content).map_err(|source| PhantomError::write(path, source))
}

/// `Data_Entry_2017_v2020.csv`.
pub(super) fn entries(studies: &[Study], size: usize) -> String {
    let mut table = String::from(
        "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,\
         View Position,OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y]\n",
    );
    let spacing = WIDTH_MM / size as f32;
    for study in studies {
        let names: Vec<&str> = study
            .findings
            .iter()
            .map(|finding| finding.pathology.name())
            .collect();
        let findings = if names.is_empty() {
            "No Finding".to_owned()
        } else {
            names.join("|")
        };
        let patient = patient_id(study);
        let Study {
            follow_up,
            age,
            sex,
            view,
            ..
        } = study;
        // Writing to a string cannot fail.
        let _ = writeln!(
            table,
            "{},{findings},{follow_up},{patient},{age},{sex},{view},{size},{size},{spacing:.3},{spacing:.3}",
            image_name(study),
        );
    }
    table
}

/// `train_val_list.txt`, or `test_list.txt` with `test`.
pub(super) fn list(studies: &[Study], test: bool) -> String {
    let names = studies
        .iter()
        .filter(|study| study.test == test)
        .map(|study| image_name(study) + "\n");
    names.collect()
}

/// `BBox_List_2017.csv`, with NIH's odd header.
pub(super) fn boxes<'a>(
    size: usize,
    boxes: impl IntoIterator<Item = (&'a Study, &'a [(Pathology, PixelBox)])>,
) -> String {
    let mut table = String::from("Image Index,Finding Label,Bbox [x,y,w,h],,,\n");
    let scale = BOX_SIDE / size as f32;
    for (study, boxes) in boxes {
        for (pathology, area) in boxes {
            let [x, y] = [area.left, area.top].map(|edge| edge as f32 * scale);
            let width = (area.right - area.left) as f32 * scale;
            let height = (area.bottom - area.top) as f32 * scale;
            let _ = writeln!(
                table,
                "{},{},{x},{y},{width},{height},,,",
                image_name(study),
                pathology.name()
            );
        }
    }
    table
}
