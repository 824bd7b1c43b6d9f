//! A DICOM object's single grey frame, as it is meant to be seen.

use std::error::Error;
use std::io::Cursor;
use std::path::Path;

use dicom_object::{FileMetaTable, OpenFileOptions, Tag};
use dicom_pixeldata::{
    ConvertOptions, DecodedPixelData, PhotometricInterpretation, PixelDecoder, VoiLutFunction,
    VoiLutOption, WindowLevelTransform,
};
use dicom_transfer_syntax_registry::{TransferSyntaxIndex, TransferSyntaxRegistry};

use super::decode::ensure_size;
use super::{GrayImage, ImageError, Pixels};

/// White, once a window is applied.
const WHITE: f64 = u16::MAX as f64;

/// The attributes that have to hold before pixels are decoded.
const ROWS: Tag = Tag(0x0028, 0x0010);
const COLUMNS: Tag = Tag(0x0028, 0x0011);
const BITS_ALLOCATED: Tag = Tag(0x0028, 0x0100);
const BITS_STORED: Tag = Tag(0x0028, 0x0101);

pub(super) fn decode(bytes: &[u8], path: &Path) -> Result<GrayImage, ImageError> {
    let damaged = |error: &dyn Error| damaged(path, error);
    let meta = FileMetaTable::from_reader(&bytes[128..]).map_err(|error| damaged(&error))?;
    ensure_transfer_syntax(meta.transfer_syntax(), path)?;

    let object = OpenFileOptions::new()
        .from_reader(Cursor::new(bytes))
        .map_err(|error| damaged(&error))?;
    let number = |tag: Tag| -> Result<u32, ImageError> {
        let element = object.element(tag).map_err(|error| damaged(&error))?;
        element.to_int::<u32>().map_err(|error| damaged(&error))
    };
    let (width, height) = (number(COLUMNS)?, number(ROWS)?);
    let (stored, allocated) = (number(BITS_STORED)?, number(BITS_ALLOCATED)?);
    let samples = u64::from(width) * u64::from(height);
    ensure_size(
        width,
        height,
        samples * u64::from(allocated.div_ceil(8)),
        path,
    )?;
    if !matches!(allocated, 8 | 16) || stored == 0 || stored > allocated {
        return Err(ImageError::NotGreyDicom {
            path: path.to_owned(),
            reason: format!("its samples have {stored} of {allocated} bits, not up to 8 or 16"),
        });
    }

    let decoded = object
        .decode_pixel_data()
        .map_err(|error| damaged(&error))?;
    ensure_grey(&decoded, path)?;
    let mut values: Vec<f64> = decoded
        .to_vec_frame_with_options(
            0,
            &ConvertOptions::new().with_voi_lut(VoiLutOption::Identity),
        )
        .map_err(|error| damaged(&error))?;
    apply_window(&decoded, &mut values).map_err(|error| damaged(&error))?;
    if *decoded.photometric_interpretation() == PhotometricInterpretation::Monochrome1 {
        values.iter_mut().for_each(|value| *value = WHITE - *value);
    }
    GrayImage::new(
        decoded.columns(),
        decoded.rows(),
        Pixels::U16(values.iter().map(|value| value.round() as u16).collect()),
    )
}

/// Refuses a transfer syntax whose pixels cannot be decoded, before anything else is read.
fn ensure_transfer_syntax(uid: &str, path: &Path) -> Result<(), ImageError> {
    // The file pads identifiers to an even length.
    let uid = uid.trim_end_matches(['\0', ' ']);
    let known = TransferSyntaxRegistry.get(uid);
    if known.is_some_and(|syntax| syntax.can_decode_all()) {
        return Ok(());
    }
    Err(ImageError::TransferSyntax {
        path: path.to_owned(),
        uid: uid.escape_debug().to_string(),
        name: known.map_or("unknown", |syntax| syntax.name()).to_owned(),
    })
}

fn ensure_grey(decoded: &DecodedPixelData<'_>, path: &Path) -> Result<(), ImageError> {
    let kind = decoded.photometric_interpretation();
    let reason = if !kind.is_monochrome() || decoded.samples_per_pixel() != 1 {
        format!("its pixels are {kind}, not MONOCHROME1 or MONOCHROME2")
    } else if decoded.number_of_frames() != 1 {
        format!("it has {} frames, not one", decoded.number_of_frames())
    } else {
        return Ok(());
    };
    Err(ImageError::NotGreyDicom {
        path: path.to_owned(),
        reason,
    })
}

/// Maps `values` to 0 to [`WHITE`]: by the first window, or else by their own range.
fn apply_window(
    decoded: &DecodedPixelData<'_>,
    values: &mut [f64],
) -> Result<(), dicom_pixeldata::Error> {
    if let Some([window, ..]) = decoded.window()? {
        let function = match decoded.voi_lut_function()? {
            Some([function, ..]) => *function,
            _ => VoiLutFunction::Linear,
        };
        let transform = WindowLevelTransform::new(function, *window);
        values
            .iter_mut()
            .for_each(|value| *value = transform.apply(*value, WHITE));
        return Ok(());
    }
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let range = greatest - least;
    for value in values {
        *value = if range > 0.0 {
            (*value - least) / range * WHITE
        } else {
            0.0
        };
    }
    Ok(())
}

/// The decoder's message with its causes, in one line.
fn damaged(path: &Path, error: &dyn Error) -> ImageError {
    let mut reason = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        reason = format!("{reason}: {error}");
        cause = error.source();
    }
    ImageError::Damaged {
        path: path.to_owned(),
        kind: "DICOM",
        reason: reason.replace(['\r', '\n'], " "),
    }
}
