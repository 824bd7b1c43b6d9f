//! The files of a phantom data set, in the layout in which NIH publishes ChestX-ray14.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ExtendedColorType, ImageEncoder};

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

/// The image's name: `00000007_002.png` is the third image of patient 7.
pub(super) fn image_name(study: &Study) -> String {
    format!("{:08}_{:03}.png", study.patient, study.follow_up)
}

/// The folder of the image number `index`, below the data set's.
pub(super) fn image_folder(index: usize) -> PathBuf {
    PathBuf::from(format!("images_{:03}/images", index / FOLDER_SIZE + 1))
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
        let Study {
            follow_up,
            patient,
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
