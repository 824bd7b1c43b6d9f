//! From what the rays cross to 8-bit grey: scatter, noise and exposure. It may not know what was
//! painted.

use super::canvas::{Canvas, Cell};
use super::draws::Draws;

/// The technique of an exposure.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exposure {
    /// Density shown in middle grey.
    pub(super) center: f32,
    /// Density from black to white.
    pub(super) window: f32,
    /// Part of the signal that is scattered.
    pub(super) scatter: f32,
    /// Deviation of the noise where the body is densest, as a part of the window.
    pub(super) noise: f32,
}

impl Exposure {
    pub(super) fn drawn(draws: &mut Draws, antero_posterior: bool) -> Self {
        let bedside = if antero_posterior { 1.0 } else { 0.0 };
        Self {
            center: draws.between(0.50, 0.76),
            window: draws.between(0.80, 1.30),
            scatter: draws.between(0.15, 0.30) + 0.08 * bedside,
            noise: draws.between(0.010, 0.025) + 0.01 * bedside,
        }
    }

    /// The grey image, `[size, size]`, row by row: dense is white.
    pub(super) fn develop(&self, canvas: &Canvas, draws: &mut Draws) -> Vec<u8> {
        let density: Vec<f32> = canvas.cells.iter().map(density).collect();
        let scattered = blurred(&density, canvas.size, canvas.size / 10);
        let pixels = density.iter().zip(&scattered).map(|(sharp, scattered)| {
            let density = sharp + self.scatter * (scattered - sharp);
            let signal = (density - self.center) / self.window;
            // Fewer photons come through where it is dense.
            let noise = self.noise * (0.35 + 0.65 * density.clamp(0.0, 1.2)) * draws.grain();
            to_grey(signal + noise)
        });
        pixels.collect()
    }
}

fn density(cell: &Cell) -> f32 {
    let lung = cell.markings * cell.air.min(1.0);
    cell.body * (1.0 - 0.66 * cell.air) + cell.tissue + lung
}

/// The film's curve: steep in the middle, flat towards black and white.
fn to_grey(signal: f32) -> u8 {
    let bent = signal / (0.25 + signal * signal).sqrt();
    (127.5 + 127.5 * 1.1 * bent).clamp(0.0, 255.0).round() as u8
}

/// The mean of the square of `radius` pixels around each pixel, cut at the image's edges.
fn blurred(values: &[f32], size: usize, radius: usize) -> Vec<f32> {
    let across = blurred_rows(values, size, radius);
    let turned = transposed(&across, size);
    transposed(&blurred_rows(&turned, size, radius), size)
}

fn blurred_rows(values: &[f32], size: usize, radius: usize) -> Vec<f32> {
    let mut blurred = Vec::with_capacity(values.len());
    for row in values.chunks_exact(size) {
        let mut sums = vec![0.0; size + 1];
        for (index, value) in row.iter().enumerate() {
            sums[index + 1] = sums[index] + value;
        }
        blurred.extend((0..size).map(|column| {
            let first = column.saturating_sub(radius);
            let end = (column + radius + 1).min(size);
            (sums[end] - sums[first]) / (end - first) as f32
        }));
    }
    blurred
}

fn transposed(values: &[f32], size: usize) -> Vec<f32> {
    let mut turned = vec![0.0; values.len()];
    for (row, line) in values.chunks_exact(size).enumerate() {
        for (column, value) in line.iter().enumerate() {
            turned[column * size + row] = *value;
        }
    }
    turned
}
