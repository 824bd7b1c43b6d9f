//! Heat maps of the test images that a network gets best and worst, label by label: by probability,
//! since there is no threshold that would make them right or wrong.

use std::collections::HashMap;
use std::path::Path;

use burn::tensor::Device;
use burn_dist::progress::Progress;
use chest_datasets::{GrayImage, ImageSource};

use super::RunError;
use crate::Preprocessing;
use crate::explain::class_activation_maps;
use crate::heat_map::HeatMap;
use crate::model::Classifier;
use crate::predict::{PredictError, caption, file_names, grey, map_values, region};
use crate::predictions::{Prediction, Predictions};

/// Images that the network computes at once.
const BATCH: usize = 16;

/// What is told of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The positive image of the highest probability.
    HighestPositive,
    /// The positive image of the lowest probability.
    LowestPositive,
    /// The negative image of the highest probability.
    HighestNegative,
}

impl Kind {
    const ALL: [Self; 3] = [
        Self::HighestPositive,
        Self::LowestPositive,
        Self::HighestNegative,
    ];

    /// The end of its file's name.
    fn name(self) -> &'static str {
        match self {
            Self::HighestPositive => "highest-positive",
            Self::LowestPositive => "lowest-positive",
            Self::HighestNegative => "highest-negative",
        }
    }
}

/// An image and the label that it is shown for.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Case<'a> {
    label: usize,
    kind: Kind,
    prediction: &'a Prediction,
}

/// Whether `file` has the name of one that [`draw`] writes.
pub(super) fn is_case(file: &str) -> bool {
    Kind::ALL
        .iter()
        .any(|kind| file.ends_with(&format!("-{}.png", kind.name())))
}

/// Writes `<label>-highest-positive.png`, `<label>-lowest-positive.png` and
/// `<label>-highest-negative.png` of every label
/// that has such images into `folder`.
pub(super) fn draw<C: Classifier>(
    network: &C,
    predictions: &Predictions,
    source: &ImageSource,
    test: &[usize],
    preprocessing: &Preprocessing,
    device: &Device,
    folder: &Path,
) -> Result<(), RunError> {
    let dataset = source.dataset();
    let labels = dataset.labels().names();
    let by_name: HashMap<&str, usize> = test
        .iter()
        .map(|&index| (dataset.records()[index].image.as_str(), index))
        .collect();
    let cases: Vec<Case> = (0..labels.len())
        .flat_map(|label| choose(&predictions.records, label))
        .collect();
    let files = file_names(labels);
    let mut progress = Progress::new("heat maps", cases.len(), "images");
    let mut drawn = 0;
    for batch in cases.chunks(BATCH) {
        let mut originals = Vec::with_capacity(batch.len());
        let mut pixels = Vec::new();
        for case in batch {
            let index = by_name.get(case.prediction.image.as_str());
            let path = index.and_then(|&index| source.path(index));
            let path = path.unwrap_or(Path::new(&case.prediction.image));
            let original = GrayImage::open(path).map_err(PredictError::from)?;
            pixels.extend(
                preprocessing
                    .resized(&original)
                    .map_err(PredictError::from)?,
            );
            originals.push(original);
        }
        let maps = class_activation_maps(network, preprocessing.tensor(&pixels, device)?);
        let [_, outputs, rows, columns] = maps.dims();
        let (values, area) = (map_values(maps)?, rows * columns);
        for (position, (case, original)) in batch.iter().zip(&originals).enumerate() {
            let map = (position * outputs + case.label) * area;
            let name = &labels[case.label];
            let caption = caption(
                &case.prediction.image,
                &format!("{name}, {}", case.kind.name().replace('-', " ")),
            );
            let heat_map = HeatMap {
                label: &caption,
                probability: case.prediction.probabilities[case.label],
                pixels: &grey(original),
                width: original.width(),
                height: original.height(),
                map: &values[map..map + area],
                rows,
                columns,
                rectangle: region(original, preprocessing)?,
            };
            let file = format!("{}-{}.png", files[case.label], case.kind.name());
            heat_map
                .write(folder.join(file))
                .map_err(PredictError::from)?;
            drawn += 1;
            progress.set(drawn);
        }
    }
    progress.finish(&format!("in {}", folder.display()));
    Ok(())
}

/// The cases of a label; a single positive image is not shown twice.
fn choose(predictions: &[Prediction], label: usize) -> Vec<Case<'_>> {
    let side = |positive: bool| {
        let known = predictions.iter();
        known.filter(move |record| record.truth[label] == Some(positive))
    };
    let probability = |record: &&Prediction| record.probabilities[label];
    let by_probability =
        |a: &&Prediction, b: &&Prediction| probability(a).total_cmp(&probability(b));
    let case = |kind, prediction| Case {
        label,
        kind,
        prediction,
    };
    let highest = side(true).max_by(by_probability);
    let lowest = side(true)
        .min_by(by_probability)
        .filter(|lowest| highest != Some(*lowest));
    [
        highest.map(|highest| case(Kind::HighestPositive, highest)),
        lowest.map(|lowest| case(Kind::LowestPositive, lowest)),
        side(false)
            .max_by(by_probability)
            .map(|highest| case(Kind::HighestNegative, highest)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn predictions(rows: &[(f32, Option<bool>)]) -> Vec<Prediction> {
        let row = |(index, (probability, truth)): (usize, &(f32, Option<bool>))| Prediction {
            image: index.to_string(),
            probabilities: vec![*probability],
            truth: vec![*truth],
        };
        rows.iter().enumerate().map(row).collect()
    }

    fn chosen(rows: &[(f32, Option<bool>)]) -> Vec<(Kind, String)> {
        let predictions = predictions(rows);
        choose(&predictions, 0)
            .into_iter()
            .map(|case| (case.kind, case.prediction.image.clone()))
            .collect()
    }

    #[test]
    fn best_and_worst_are_chosen_among_known_truths() {
        let rows = [
            (0.2, Some(true)),
            (0.9, Some(true)),
            (0.95, None),
            (0.6, Some(false)),
            (0.1, Some(false)),
            (0.01, None),
        ];
        assert_eq!(
            chosen(&rows),
            [
                (Kind::HighestPositive, "1".to_string()),
                (Kind::LowestPositive, "0".to_string()),
                (Kind::HighestNegative, "3".to_string())
            ]
        );
        assert_eq!(
            chosen(&rows[..1]),
            [(Kind::HighestPositive, "0".to_string())]
        );
        assert_eq!(chosen(&rows[2..3]), []);
    }

    #[test]
    fn its_own_files_are_known_again() {
        assert!(
            is_case("Mass-highest-negative.png")
                && is_case("Pleural_Thickening-lowest-positive.png")
        );
        assert!(!is_case("highest-positive.png") && !is_case("Mass-highest-positive.svg"));
    }
}
