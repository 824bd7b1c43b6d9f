//! Class activation maps over the original images, a file an image and label.

use std::collections::HashMap;
use std::path::PathBuf;
use std::str::FromStr;

use burn::tensor::Tensor;
use chest_datasets::{CropRegion, GrayImage, Pixels};
use rayon::prelude::*;

use super::{ImageFile, PredictError};
use crate::heat_map::{HeatMap, Rectangle};
use crate::predictions::{DeviceError, Predictions};
use crate::weights::Metadata;
use crate::{Preprocessing, Resize};

/// Which heat maps are written, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeatMaps {
    /// The folder; it is made if it is not there.
    pub folder: PathBuf,
    /// The labels that are drawn.
    pub labels: HeatMapLabels,
}

/// The labels of each image whose maps are drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HeatMapLabels {
    /// The most probable one.
    #[default]
    Highest,
    /// All.
    All,
    /// These.
    Named(Vec<String>),
}

impl FromStr for HeatMapLabels {
    type Err = std::convert::Infallible;

    /// Reads `highest`, `all`, or names between commas.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "highest" => Self::Highest,
            "all" => Self::All,
            names => Self::Named(names.split(',').map(|name| name.trim().into()).collect()),
        })
    }
}

/// [`HeatMaps`] for weights and images that are known.
pub(super) struct Prepared<'a> {
    folder: &'a PathBuf,
    /// Indices of the labels; the most probable one when `None`.
    labels: Option<Vec<usize>>,
}

impl HeatMaps {
    /// Makes the folder, and looks for what would go wrong only after hours.
    pub(super) fn prepare(
        &self,
        images: &[ImageFile],
        known: &[String],
    ) -> Result<Prepared<'_>, PredictError> {
        let index = |label: &String| {
            let found = known.iter().position(|known| known == label);
            found.ok_or_else(|| PredictError::UnknownLabel {
                label: label.clone(),
                known: known.join(", "),
            })
        };
        let labels = match &self.labels {
            HeatMapLabels::Highest => None,
            HeatMapLabels::All => Some((0..known.len()).collect()),
            HeatMapLabels::Named(names) => {
                let mut labels = names.iter().map(index).collect::<Result<Vec<_>, _>>()?;
                labels.sort_unstable();
                labels.dedup();
                Some(labels)
            }
        };
        let mut names = HashMap::new();
        for image in images {
            if let Some(first) = names.insert(&image.stem, &image.name) {
                return Err(PredictError::SameName {
                    first: first.clone(),
                    second: image.name.clone(),
                    name: format!("{}-*.png", image.stem),
                });
            }
        }
        // A heat map must neither replace an X-ray nor be taken for one the next time.
        let below = |image: &&ImageFile| {
            let folder = self.folder.canonicalize().ok()?;
            Some(image.path.canonicalize().ok()?.starts_with(folder))
        };
        if let Some(image) = images.iter().find(|image| below(image) == Some(true)) {
            return Err(PredictError::Folder {
                path: self.folder.clone(),
                reason: format!("{} in it is predicted: name another folder", image.name),
            });
        }
        std::fs::create_dir_all(&self.folder).map_err(|error| PredictError::Folder {
            path: self.folder.clone(),
            reason: error.to_string(),
        })?;
        Ok(Prepared {
            folder: &self.folder,
            labels,
        })
    }
}

impl Prepared<'_> {
    /// Draws the maps of a batch, `[images, labels, rows, columns]`; how many.
    pub(super) fn write(
        &self,
        images: &[&ImageFile],
        originals: &[GrayImage],
        predictions: &Predictions,
        maps: Tensor<4>,
        metadata: &Metadata,
    ) -> Result<usize, PredictError> {
        let [_, labels, rows, columns] = maps.dims();
        let values = map_values(maps)?;
        let area = rows * columns;
        let files = file_names(&metadata.labels);
        let jobs: Vec<(usize, usize)> = (0..images.len())
            .flat_map(|image| {
                let chosen = match &self.labels {
                    Some(labels) => labels.clone(),
                    None => highest(&predictions.records[image].probabilities),
                };
                chosen.into_iter().map(move |label| (image, label))
            })
            .collect();
        jobs.par_iter().try_for_each(|&(image, label)| {
            let original = &originals[image];
            let map = (image * labels + label) * area;
            let name = &metadata.labels[label];
            let heat_map = HeatMap {
                label: &caption(&images[image].stem, name),
                probability: predictions.records[image].probabilities[label],
                pixels: &grey(original),
                width: original.width(),
                height: original.height(),
                map: &values[map..map + area],
                rows,
                columns,
                rectangle: region(original, &metadata.preprocessing)?,
            };
            let file = format!("{}-{}.png", images[image].stem, files[label]);
            heat_map.write(self.folder.join(file))?;
            Ok::<(), PredictError>(())
        })?;
        Ok(jobs.len())
    }
}

/// Image and label; a caption should not be wider than a page.
pub(crate) fn caption(image: &str, label: &str) -> String {
    const LONGEST: usize = 100;
    format!("{image}: {label}").chars().take(LONGEST).collect()
}

/// A name for the files of each label: short, without what a file system takes for something else, and
/// each another.
pub(crate) fn file_names(labels: &[String]) -> Vec<String> {
    const LONGEST: usize = 50;
    let mut names: Vec<String> = Vec::with_capacity(labels.len());
    for label in labels {
        let plain = |c: char| {
            if c.is_alphanumeric() || c == '-' {
                c
            } else {
                '_'
            }
        };
        let name: String = label.chars().map(plain).take(LONGEST).collect();
        let taken = |name: &String| names.iter().any(|other| other.eq_ignore_ascii_case(name));
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let free = std::iter::once(name.clone())
            .chain(numbered)
            .find(|name| !taken(name));
        names.extend(free);
    }
    names
}

/// The label of the highest probability.
fn highest(probabilities: &[f32]) -> Vec<usize> {
    let best = probabilities
        .iter()
        .enumerate()
        .max_by(|a, b| a.1.total_cmp(b.1));
    best.map(|(label, _)| label).into_iter().collect()
}

/// The values of maps, row by row.
pub(crate) fn map_values(maps: Tensor<4>) -> Result<Vec<f32>, DeviceError> {
    let data = maps
        .try_into_data()
        .map_err(|error| DeviceError(error.to_string()))?;
    data.try_to_vec::<f32>()
        .map_err(|error| DeviceError(error.to_string()))
}

/// The pixels of an original in 8-bit grey.
pub(crate) fn grey(original: &GrayImage) -> Vec<u8> {
    match original.pixels() {
        Pixels::U8(values) => values.clone(),
        Pixels::U16(values) => values.iter().map(|value| (value / 257) as u8).collect(),
    }
}

/// The part of an original that the network saw, in its pixels.
pub(crate) fn region(
    original: &GrayImage,
    preprocessing: &Preprocessing,
) -> Result<Rectangle, PredictError> {
    let (width, height) = (original.width(), original.height());
    Ok(match preprocessing.resize {
        Resize::Whole => Rectangle {
            left: 0.0,
            top: 0.0,
            width: f64::from(width),
            height: f64::from(height),
        },
        Resize::CentreCrop { short_side } => {
            let crop = CropRegion::centre(width, height, short_side, preprocessing.image_size)?;
            Rectangle {
                left: crop.left,
                top: crop.top,
                width: crop.width,
                height: crop.height,
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_labels_are_short_plain_and_each_another() {
        let labels = ["Pleural_Thickening", "a/b", "a_b", "A b", ".."].map(str::to_string);
        let names = ["Pleural_Thickening", "a_b", "a_b-2", "A_b-3", "__"];
        assert_eq!(file_names(&labels), names);
        let long = file_names(&["x".repeat(300), "x".repeat(299)]);
        assert_eq!((long[0].len(), long[1].len()), (50, 52));
    }
}
