//! Learning curves: loss, mean AUROC and learning rate over the epochs.

use std::ops::Range;
use std::path::Path;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::{Axis, padded};
use super::{BLUE, Canvas, Drawn, FigureError, GREY, GRID, TEXT, VERMILION, write_svg};

/// What one epoch of training adds to the learning curves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EpochPoint {
    /// Number of the epoch.
    pub epoch: usize,
    /// Mean loss on the training images.
    pub train_loss: f64,
    /// Mean loss on the validation images; `None` if the epoch was not validated.
    pub validation_loss: Option<f64>,
    /// Learning rate of the epoch.
    pub learning_rate: f64,
    /// Mean AUROC on the validation images; `None` if the epoch was not validated or no label had
    /// both classes.
    pub validation_mean_auroc: Option<f64>,
}

/// Writes the learning curves of a run to `path` as SVG.
///
/// Three panels share the epochs: the losses, the mean AUROC on the validation images, and the
/// learning rate on a logarithmic scale. A panel without any value is left out. Values that are not
/// finite are skipped, and a single epoch shows as dots.
///
/// # Errors
///
/// [`FigureError::Write`] if the file cannot be written, [`FigureError::Draw`] if plotters fails.
///
/// # Example
///
/// ```
/// use burn_chexnet::train::figures::{EpochPoint, curves};
///
/// let folder = tempfile::tempdir()?;
/// let epochs = [1, 2, 3].map(|epoch| EpochPoint {
///     epoch,
///     train_loss: 0.2 / epoch as f64,
///     validation_loss: Some(0.25 / epoch as f64),
///     learning_rate: 1e-3,
///     validation_mean_auroc: Some(0.8),
/// });
/// curves(&folder.path().join("curves.svg"), &epochs)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn curves(path: &Path, epochs: &[EpochPoint]) -> Result<(), FigureError> {
    let panels = panels(epochs);
    let epoch_axis = Axis::whole(padded(epochs.iter().map(|epoch| epoch.epoch as f64), 1.0));

    let height: u32 = panels.iter().map(|panel| panel.height).sum();
    let size = (WIDTH, LEGEND + height + EPOCH_LABELS + 2 * MARGIN);
    write_svg(path, size, |canvas| {
        let canvas = canvas.margin(MARGIN, MARGIN, MARGIN, MARGIN);
        let (legend, mut rest) = canvas.split_vertically(LEGEND);
        draw_legend(&legend)?;
        for (index, panel) in panels.iter().enumerate() {
            let last = index + 1 == panels.len();
            let labels = if last { EPOCH_LABELS } else { 0 };
            let (area, below) = rest.split_vertically(panel.height + labels);
            panel.draw(&area, &epoch_axis, labels)?;
            rest = below;
        }
        Ok(())
    })
}

const WIDTH: u32 = 900;
/// Space around the figure, and between its panels.
const MARGIN: u32 = 14;
/// Height of the row that says which colour is which.
const LEGEND: u32 = 30;
/// Height of the numbers and the name below the lowest panel.
const EPOCH_LABELS: u32 = 50;
/// Width of the numbers and the name to the left of a panel.
const VALUE_LABELS: u32 = 80;
/// A longer series is a line without dots.
const MOST_DOTS: usize = 40;

const TRAINING: RGBColor = BLUE;
const VALIDATION: RGBColor = VERMILION;

/// One quantity over the epochs.
struct Series {
    colour: RGBColor,
    points: Vec<(f64, f64)>,
}

/// Series with a common axis.
struct Panel {
    name: &'static str,
    series: Vec<Series>,
    axis: fn(Range<f64>) -> Axis,
    /// The axis covers this much at least, so that noise does not look like a trend.
    least_span: f64,
    height: u32,
}

/// The panels that have something to show.
fn panels(epochs: &[EpochPoint]) -> Vec<Panel> {
    let series = |colour, value: fn(&EpochPoint) -> Option<f64>| Series {
        colour,
        points: epochs
            .iter()
            .filter_map(|epoch| Some((epoch.epoch as f64, value(epoch)?)))
            .filter(|(_, value)| value.is_finite())
            .collect(),
    };
    let mut panels = vec![
        Panel {
            name: "loss",
            series: vec![
                series(TRAINING, |epoch| Some(epoch.train_loss)),
                series(VALIDATION, |epoch| epoch.validation_loss),
            ],
            axis: Axis::linear,
            least_span: 1e-3,
            height: 330,
        },
        Panel {
            name: "mean AUROC",
            series: vec![series(VALIDATION, |epoch| epoch.validation_mean_auroc)],
            axis: Axis::linear,
            least_span: 0.02,
            height: 240,
        },
        Panel {
            name: "learning rate",
            series: vec![series(TRAINING, |epoch| Some(epoch.learning_rate.log10()))],
            axis: Axis::power_of_ten,
            least_span: 1.2,
            height: 170,
        },
    ];
    panels.retain(|panel| panel.series.iter().any(|series| !series.points.is_empty()));
    panels
}

fn draw_legend(area: &Canvas) -> Drawn {
    let middle = TEXT.into_font().into_text_style(area);
    let middle = middle.pos(Pos::new(HPos::Left, VPos::Center));
    let names = [("training", TRAINING), ("validation", VALIDATION)];
    for (column, (name, colour)) in names.into_iter().enumerate() {
        let (x, y) = (VALUE_LABELS as i32 + 130 * column as i32, 8);
        let line = PathElement::new([(x, y), (x + 28, y)], colour.stroke_width(2));
        area.draw(&line)?;
        area.draw(&Text::new(name, (x + 36, y), middle.clone()))?;
    }
    Ok(())
}

impl Panel {
    fn draw(&self, area: &Canvas, epochs: &Axis, epoch_labels: u32) -> Drawn {
        let values = self.series.iter().flat_map(|series| &series.points);
        let values = (self.axis)(padded(values.map(|point| point.1), self.least_span));
        let mut chart = ChartBuilder::on(area)
            .margin_bottom(if epoch_labels == 0 { MARGIN } else { 0 })
            .x_label_area_size(epoch_labels)
            .y_label_area_size(VALUE_LABELS)
            .build_cartesian_2d(epochs.clone(), values)?;
        chart
            .configure_mesh()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(GREY)
            .label_style(TEXT)
            .axis_desc_style(TEXT)
            .x_desc("epoch")
            .y_desc(self.name)
            .draw()?;
        for series in &self.series {
            let style = series.colour.stroke_width(2);
            let dots = if series.points.len() > MOST_DOTS {
                0
            } else {
                4
            };
            let line = LineSeries::new(series.points.iter().copied(), style.filled());
            chart.draw_series(line.point_size(dots))?;
        }
        Ok(())
    }
}
