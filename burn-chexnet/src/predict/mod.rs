//! Prediction: weights and image files in, probabilities and heat maps out, batch after batch.
//!
//! | file | what it is |
//! |---|---|
//! | `inputs` | [`ImageFile`]: the images among files and folders |
//! | `decoded` | batches of pixels, decoded while the network computes |
//! | `output` | [`PredictionWriter`]: a table, CSV or JSON, as it comes |
//! | `heat_maps` | [`HeatMaps`]: class activation maps over the originals |
//! | `error` | [`PredictError`] |
//!
//! May not know training.

mod decoded;
mod error;
mod heat_maps;
mod inputs;
mod output;

use std::io::Write;

use burn::tensor::Device;
use chest_datasets::OnBadImage;

use crate::predictions::Predictions;
use crate::weights::Network;

pub use error::PredictError;
pub use heat_maps::{HeatMapLabels, HeatMaps};
#[cfg(feature = "train")]
pub(crate) use heat_maps::{caption, file_names, grey, map_values, region};
pub use inputs::{ImageFile, ImageFiles};
pub use output::{OutputFile, OutputFormat, PredictionWriter};

/// How images are predicted.
#[derive(Clone, Debug)]
pub struct PredictOptions {
    /// Images that the network computes at once.
    pub batch_size: usize,
    /// What is done about an image that cannot be decoded.
    pub on_bad_image: OnBadImage,
    /// Class activation maps to write.
    pub heat_maps: Option<HeatMaps>,
}

impl Default for PredictOptions {
    /// Batches of 16, stopping at a bad image, no maps.
    fn default() -> Self {
        Self {
            batch_size: 16,
            on_bad_image: OnBadImage::Stop,
            heat_maps: None,
        }
    }
}

/// What came of a prediction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PredictSummary {
    /// Images predicted.
    pub images: usize,
    /// Why images were left out, a line each.
    pub skipped: Vec<String>,
    /// Heat maps written.
    pub heat_maps: usize,
}

/// Predicts `images` with `network` on its `device` and hands the probabilities to `writer`, batch
/// after batch; `progress` is told how many images are behind.
///
/// ```no_run
/// use burn::tensor::Device;
/// use burn_chexnet::predict::{ImageFiles, OutputFormat, PredictOptions, PredictionWriter, predict};
/// use burn_chexnet::weights::Network;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let device = Device::flex();
/// let network = Network::open("best.safetensors", &device)?;
/// let images = ImageFiles::find(&["scans"])?;
/// let labels = &network.metadata().labels;
/// let mut writer = PredictionWriter::new(std::io::stdout(), OutputFormat::Csv, labels)?;
/// let options = PredictOptions::default();
/// predict(&network, &images.files, &options, &device, &mut writer, |_| ())?;
/// writer.finish()?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Names the image, file or folder; the writer then has the batches before it.
pub fn predict<W: Write>(
    network: &Network,
    images: &[ImageFile],
    options: &PredictOptions,
    device: &Device,
    writer: &mut PredictionWriter<W>,
    mut progress: impl FnMut(usize),
) -> Result<PredictSummary, PredictError> {
    let metadata = network.metadata();
    let heat_maps = match &options.heat_maps {
        Some(heat_maps) => Some(heat_maps.prepare(images, &metadata.labels)?),
        None => None,
    };
    let mut summary = PredictSummary::default();
    let mut behind = 0;
    decoded::batches(images, options, &metadata.preprocessing, |batch| {
        behind += batch.files + batch.skipped.len();
        summary.skipped.extend(batch.skipped);
        if batch.images.is_empty() {
            progress(behind);
            return Ok(());
        }
        let tensor = metadata.preprocessing.tensor(&batch.pixels, device)?;
        let (logits, maps) = match &heat_maps {
            Some(_) => {
                let (logits, maps) = network.logits_and_maps(tensor);
                (logits, Some(maps))
            }
            None => (network.logits(tensor), None),
        };
        let names: Vec<String> = batch
            .images
            .iter()
            .map(|image| image.name.clone())
            .collect();
        let mut predictions = Predictions::default();
        predictions.add(logits, &[], &names)?;
        error::ensure_finite(&predictions, &metadata.labels)?;
        if let (Some(heat_maps), Some(maps)) = (&heat_maps, maps) {
            summary.heat_maps += heat_maps.write(
                &batch.images,
                &batch.originals,
                &predictions,
                maps,
                metadata,
            )?;
        }
        writer.write(&predictions.records)?;
        summary.images += names.len();
        progress(behind);
        Ok(())
    })?;
    if summary.images == 0 && !images.is_empty() {
        return Err(PredictError::AllSkipped {
            count: images.len(),
            first: summary.skipped.first().cloned().unwrap_or_default(),
        });
    }
    Ok(summary)
}
