//! Batches of pixels, decoded by the threads of rayon while the network computes the one before.

use std::sync::mpsc::sync_channel;

use chest_datasets::{GrayImage, ImageError, OnBadImage};
use rayon::prelude::*;

use super::{ImageFile, PredictError, PredictOptions};
use crate::Preprocessing;

/// The images of a batch that could be decoded.
pub(super) struct DecodedBatch<'a> {
    pub images: Vec<&'a ImageFile>,
    /// `[images, size, size]`.
    pub pixels: Vec<u8>,
    /// The images as they are, if heat maps are to be laid over them.
    pub originals: Vec<GrayImage>,
    /// Images of the batch, without those left out.
    pub files: usize,
    /// Why the others were left out.
    pub skipped: Vec<String>,
}

/// Calls `each` with batch after batch of `images`; the next one is decoded meanwhile.
pub(super) fn batches<'a>(
    images: &'a [ImageFile],
    options: &PredictOptions,
    preprocessing: &Preprocessing,
    mut each: impl FnMut(DecodedBatch<'a>) -> Result<(), PredictError>,
) -> Result<(), PredictError> {
    std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel(1);
        scope.spawn(move || {
            for chunk in images.chunks(options.batch_size.max(1)) {
                let batch = decode(chunk, options, preprocessing);
                let failed = batch.is_err();
                if sender.send(batch).is_err() || failed {
                    return;
                }
            }
        });
        // On an error the receiver goes, and the thread ends with its batch.
        for batch in receiver {
            each(batch?)?;
        }
        Ok(())
    })
}

fn decode<'a>(
    images: &'a [ImageFile],
    options: &PredictOptions,
    preprocessing: &Preprocessing,
) -> Result<DecodedBatch<'a>, PredictError> {
    let decoded: Vec<Result<(GrayImage, Vec<u8>), ImageError>> = images
        .par_iter()
        .with_max_len(1)
        .map(|image| {
            let original = GrayImage::open(&image.path)?;
            let pixels = preprocessing.resized(&original)?;
            Ok((original, pixels))
        })
        .collect();
    let mut batch = DecodedBatch {
        images: Vec::with_capacity(images.len()),
        pixels: Vec::new(),
        originals: Vec::new(),
        files: 0,
        skipped: Vec::new(),
    };
    for (image, decoded) in images.iter().zip(decoded) {
        match (decoded, options.on_bad_image) {
            (Ok((original, pixels)), _) => {
                batch.images.push(image);
                batch.pixels.extend(pixels);
                if options.heat_maps.is_some() {
                    batch.originals.push(original);
                }
                batch.files += 1;
            }
            // A file that cannot be read is no bad image: a drive may be gone.
            (Err(error @ ImageError::Read { .. }), _) => return Err(error.into()),
            (Err(error), OnBadImage::Stop) => return Err(PredictError::BadImage(error)),
            (Err(error), OnBadImage::Skip) => batch.skipped.push(error.to_string()),
        }
    }
    Ok(batch)
}
