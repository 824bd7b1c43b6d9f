//! Figures of a training run as SVG files: learning curves and ROC curves.
//!
//! Takes plain numbers. It may depend on [`crate::metrics`] and on plotters, not on Burn or on the
//! training loop. An SVG leaves the fonts to the viewer, so none is needed to draw one.

mod axis;
mod curves;
mod roc;

use std::path::{Path, PathBuf};

use plotters::coord::Shift;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;
use thiserror::Error;

pub use curves::{EpochPoint, curves};
pub use roc::{LabelledRoc, roc};

/// A figure that could not be made.
#[derive(Debug, Error)]
pub enum FigureError {
    /// The drawing itself failed.
    #[error("could not draw the figure {}: {message}", path.display())]
    Draw {
        /// The file that was to be written.
        path: PathBuf,
        /// What plotters reports.
        message: String,
    },

    /// The file could not be written.
    #[error("could not write the figure {}: {source}; check that the folder exists and is writable", path.display())]
    Write {
        /// The file that was to be written.
        path: PathBuf,
        /// What the operating system reports.
        source: std::io::Error,
    },
}

type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// Colours that colour-blind readers can tell apart (Okabe and Ito 2008), without the yellow, which
/// is too light on white.
const BLUE: RGBColor = RGBColor(0, 114, 178);
const VERMILION: RGBColor = RGBColor(213, 94, 0);
const GREEN: RGBColor = RGBColor(0, 158, 115);
const PURPLE: RGBColor = RGBColor(204, 121, 167);
const ORANGE: RGBColor = RGBColor(230, 159, 0);
const SKY: RGBColor = RGBColor(86, 180, 233);

const GRID: RGBColor = RGBColor(228, 228, 228);
const GREY: RGBColor = RGBColor(128, 128, 128);

/// Text of axes and legends: family and height in pixels.
const TEXT: (&str, u32) = ("sans-serif", 17);

/// Draws an SVG of `size` (width, height) in pixels and writes it to `path`.
fn write_svg(
    path: &Path,
    size: (u32, u32),
    draw: impl FnOnce(&Canvas) -> Drawn,
) -> Result<(), FigureError> {
    let mut svg = String::new();
    let canvas = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    canvas
        .fill(&WHITE)
        .and_then(|()| draw(&canvas))
        .and_then(|()| canvas.present())
        .map_err(|error| FigureError::Draw {
            path: path.to_owned(),
            message: error.to_string(),
        })?;
    drop(canvas);
    std::fs::write(path, svg).map_err(|source| FigureError::Write {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::metrics::{auroc, roc_curve};

    fn text_of(draw: impl FnOnce(&Path) -> Result<(), FigureError>) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("figure.svg");
        draw(&path).unwrap();
        let svg = std::fs::read_to_string(path).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        svg
    }

    fn epoch(epoch: usize) -> EpochPoint {
        EpochPoint {
            epoch,
            train_loss: 0.2,
            validation_loss: Some(0.25),
            learning_rate: 1e-3,
            validation_mean_auroc: Some(0.8),
        }
    }

    #[test]
    fn curves_of_one_epoch_show_dots() {
        let svg = text_of(|path| curves(path, &[epoch(1)]));
        for text in [
            "training",
            "validation",
            "loss",
            "mean AUROC",
            "learning rate",
            "epoch",
        ] {
            assert!(svg.contains(text), "{text}");
        }
        assert_eq!(svg.matches("<circle").count(), 4);
    }

    #[test]
    fn curves_skip_what_is_missing() {
        let diverged = EpochPoint {
            train_loss: f64::NAN,
            validation_loss: Some(f64::INFINITY),
            validation_mean_auroc: None,
            ..epoch(2)
        };
        let svg = text_of(|path| curves(path, &[epoch(1), diverged]));
        assert_eq!(svg.matches("<circle").count(), 5);
        assert!(!svg.contains("NaN") && !svg.contains("inf"));

        let svg = text_of(|path| curves(path, &[diverged]));
        assert!(!svg.contains("mean AUROC"));
        assert!(svg.contains("learning rate"));
        assert_eq!(
            text_of(|path| curves(path, &[])).matches("<circle").count(),
            0
        );
    }

    /// A label whose curve has one point for each of `rows` images.
    fn labelled(label: &str, rows: usize) -> LabelledRoc {
        let scores: Vec<f32> = (0..rows).map(|row| row as f32).collect();
        let positive: Vec<bool> = (0..rows).map(|row| row * row % 7 > 2).collect();
        LabelledRoc {
            label: label.to_owned(),
            auroc: auroc(&scores, &positive).unwrap(),
            points: roc_curve(&scores, &positive).unwrap(),
        }
    }

    #[test]
    fn roc_names_every_label() {
        let undefined = LabelledRoc {
            label: "Hernia <rare>".to_owned(),
            auroc: None,
            points: Vec::new(),
        };
        let mass = labelled("Mass", 5);
        let svg = text_of(|path| roc(path, &[mass.clone(), undefined]));
        let area = format!("{:.3}", mass.auroc.unwrap());
        for text in ["Mass", area.as_str(), "Hernia &lt;rare&gt;", "undefined"] {
            assert!(svg.contains(text), "{text}");
        }
    }

    #[test]
    fn roc_of_many_images_is_a_small_file() {
        let label = labelled("Mass", 112_120);
        let svg = text_of(|path| roc(path, &vec![label; 21]));
        assert!(svg.len() < 1_000_000, "{} bytes", svg.len());
    }

    #[test]
    fn an_unwritable_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing").join("figure.svg");
        let errors = [
            curves(&path, &[epoch(1)]).unwrap_err(),
            roc(&path, &[]).unwrap_err(),
        ];
        for error in errors {
            assert!(matches!(error, FigureError::Write { .. }));
            assert!(error.to_string().contains(&path.display().to_string()));
        }
    }
}
