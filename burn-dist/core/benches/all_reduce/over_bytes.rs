//! A report over sizes in bytes: a table and a figure.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;

use crate::report::Report;

impl Report {
    /// A row for each size, a column for each contender: `figure` of contender, size and seconds, of the median.
    pub fn print(&self, title: &str, figure: impl Fn(&str, u64, f64) -> f64) {
        println!("\n{title}");
        print!("{:>11}", "bytes");
        for contender in self.contenders() {
            print!(" {contender:>16}");
        }
        println!();
        for size in self.sizes() {
            print!("{size:>11}");
            for contender in self.contenders() {
                let median = self
                    .spread(&contender, size)
                    .map(|spread| figure(&contender, size, spread.median));
                print!(
                    " {:>16}",
                    median.map_or("-".into(), |median| format!("{median:.3}"))
                );
            }
            println!();
        }
    }

    /// Draws `figure` of the medians over size, both on logarithmic axes.
    pub fn draw(
        &self,
        path: &Path,
        title: &str,
        unit: &str,
        figure: impl Fn(&str, u64, f64) -> f64,
    ) -> Result<(), Box<dyn Error>> {
        let lines: Vec<(String, Vec<(f64, f64)>)> = self
            .contenders()
            .into_iter()
            .map(|contender| {
                let point = |size| {
                    let median = self.spread(&contender, size)?.median;
                    Some((size as f64, figure(&contender, size, median)))
                };
                let points = self.sizes().into_iter().filter_map(point).collect();
                (contender, points)
            })
            .collect();
        let all = || lines.iter().flat_map(|(_, points)| points);
        let range = |of: fn(&(f64, f64)) -> f64| {
            let least = all().map(of).fold(f64::INFINITY, f64::min);
            least * 0.8..all().map(of).fold(0.0, f64::max) * 1.25
        };
        let area = SVGBackend::new(path, (900, 560)).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(42)
            .y_label_area_size(64)
            .build_cartesian_2d(range(|p| p.0).log_scale(), range(|p| p.1).log_scale())?;
        chart.configure_mesh().x_desc("bytes").y_desc(unit).draw()?;
        for (index, (contender, points)) in lines.iter().enumerate() {
            let colour = Palette99::pick(index).to_rgba();
            chart
                .draw_series(LineSeries::new(
                    points.iter().copied(),
                    colour.stroke_width(2),
                ))?
                .label(contender)
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2))
                });
        }
        chart
            .configure_series_labels()
            .background_style(WHITE)
            .border_style(BLACK)
            .draw()?;
        area.present()?;
        Ok(())
    }
}
