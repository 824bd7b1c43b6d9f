//! ROC curves of all labels in one figure.

use std::path::Path;

use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{
    BLUE, Canvas, Drawn, FigureError, GREEN, GREY, GRID, ORANGE, PURPLE, SKY, TEXT, VERMILION,
    write_svg,
};
use crate::metrics::RocPoint;

/// The ROC curve of one label, with what its legend shows.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelledRoc {
    /// Name of the label.
    pub label: String,
    /// Area under the curve; `None` if it is undefined.
    pub auroc: Option<f64>,
    /// The points from (0, 0) to (1, 1); empty if the curve is undefined.
    pub points: Vec<RocPoint>,
}

/// Writes the ROC curves of all labels to `path` as SVG, with a legend of their AUROCs.
///
/// Seven colours in three line styles tell up to 21 labels apart. A label without a curve is named
/// `undefined` in the legend. Points that share a pixel are drawn once, so the size of the file
/// does not grow with the number of images.
///
/// # Errors
///
/// [`FigureError::Write`] if the file cannot be written, [`FigureError::Draw`] if plotters fails.
///
/// # Example
///
/// ```
/// use burn_chexnet::metrics::{auroc, roc_curve};
/// use burn_chexnet::train::figures::{LabelledRoc, roc};
///
/// let scores = [0.1, 0.4, 0.3, 0.8];
/// let positive = [false, false, true, true];
/// let effusion = LabelledRoc {
///     label: "Effusion".to_owned(),
///     auroc: auroc(&scores, &positive)?,
///     points: roc_curve(&scores, &positive)?,
/// };
/// let folder = tempfile::tempdir()?;
/// roc(&folder.path().join("roc.svg"), &[effusion])?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn roc(path: &Path, curves: &[LabelledRoc]) -> Result<(), FigureError> {
    let longest = curves.iter().map(|curve| curve.label.chars().count()).max();
    let legend_width = 170 + 9 * longest.unwrap_or_default() as u32;
    let legend_height = 2 * ROW + ROW * curves.len() as i32;
    let size = (PLOT + legend_width, PLOT.max(legend_height as u32));
    write_svg(path, size, |canvas| {
        let (plot, legend) = canvas.split_horizontally(PLOT);
        draw_plot(&plot, curves)?;
        draw_legend(&legend, curves)
    })
}

/// Side of the square with the curves and their axes, in pixels.
const PLOT: u32 = 780;
/// Height of a row of the legend, in pixels.
const ROW: i32 = 28;

const COLOURS: [RGBColor; 7] = [BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK];

/// Lengths of dash and gap of each line style, in pixels; no gap is a solid line.
const DASHES: [(u32, u32); 3] = [(1, 0), (10, 5), (3, 4)];

fn draw_plot(area: &Canvas, curves: &[LabelledRoc]) -> Drawn {
    // As much beside the plot as above and below it, so that it is a square.
    let mut chart = ChartBuilder::on(area)
        .margin(14)
        .x_label_area_size(60)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..1.0, 0.0..1.0)?;
    chart
        .configure_mesh()
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .axis_style(GREY)
        .label_style(TEXT)
        .axis_desc_style(TEXT)
        .x_label_formatter(&|rate| format!("{rate:.1}"))
        .y_label_formatter(&|rate| format!("{rate:.1}"))
        .x_desc("false positive rate (1 − specificity)")
        .y_desc("true positive rate (sensitivity)")
        .draw()?;
    let plot = chart.plotting_area();
    plot.draw(&PathElement::new([(0.0, 0.0), (1.0, 1.0)], GREY))?;

    let pixels = plot.strip_coord_spec();
    let (left, top) = plot.get_base_pixel();
    for (index, curve) in curves.iter().enumerate() {
        let mut line: Vec<(i32, i32)> = curve
            .points
            .iter()
            .map(|point| (point.false_positive_rate, point.true_positive_rate))
            .map(|point| plot.map_coordinate(&point))
            .map(|(x, y)| (x - left, y - top))
            .collect();
        line.dedup();
        draw_line(&pixels, index, line)?;
    }
    Ok(())
}

fn draw_legend(area: &Canvas, curves: &[LabelledRoc]) -> Drawn {
    let left = TEXT.into_font().into_text_style(area);
    let left = left.pos(Pos::new(HPos::Left, VPos::Center));
    let right = left.pos(Pos::new(HPos::Right, VPos::Center));
    let end = area.dim_in_pixel().0 as i32 - 20;
    area.draw(&Text::new("AUROC", (end, ROW), right.clone()))?;
    for (index, curve) in curves.iter().enumerate() {
        let y = ROW * (index as i32 + 2);
        let (auroc, shade) = match curve.auroc {
            Some(auroc) => (format!("{auroc:.3}"), BLACK),
            None => ("undefined".to_owned(), GREY),
        };
        if curve.auroc.is_some() {
            draw_line(area, index, vec![(8, y), (44, y)])?;
        }
        area.draw(&Text::new(
            curve.label.as_str(),
            (54, y),
            left.color(&shade),
        ))?;
        area.draw(&Text::new(auroc, (end, y), right.color(&shade)))?;
    }
    Ok(())
}

/// Draws a line of pixels in the colour and the line style of the label at `index`.
fn draw_line(area: &Canvas, index: usize, line: Vec<(i32, i32)>) -> Drawn {
    let style = COLOURS[index % COLOURS.len()].stroke_width(2);
    match DASHES[index / COLOURS.len() % DASHES.len()] {
        (_, 0) => area.draw(&PathElement::new(line, style)),
        (dash, gap) => area.draw(&DashedPathElement::new(line, dash, gap, style)),
    }
}
