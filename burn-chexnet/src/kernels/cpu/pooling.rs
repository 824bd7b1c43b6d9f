//! What a norm's result is pooled with, row by row; pixels lie channels last.

use super::super::pool::Pool;
use super::channels::vectorised;

impl Pool {
    /// Pixels along a side that has `pixels`.
    pub fn output(self, pixels: usize) -> usize {
        match self {
            Self::None => pixels,
            Self::Mean => pixels / 2,
            Self::Maximum => pixels.div_ceil(2),
        }
    }

    /// The rows that row `row` of the result is made of, where there are `height`.
    pub fn rows(self, row: usize, height: usize) -> std::ops::Range<usize> {
        self.span(row, height)
    }

    /// The pixels along one side that pixel `at` of the result is made of, where there are `pixels`.
    fn span(self, at: usize, pixels: usize) -> std::ops::Range<usize> {
        match self {
            Self::None => at..at + 1,
            Self::Mean => 2 * at..2 * at + 2,
            Self::Maximum => (2 * at).saturating_sub(1)..pixels.min(2 * at + 2),
        }
    }

    /// A row of the result from the `rows` that it is made of, each `[width, channels]`.
    pub fn forward(self, rows: &[f32], width: usize, channels: usize, output: &mut [f32]) {
        let rows = rows.chunks_exact(width * channels);
        for (column, output) in output.chunks_exact_mut(channels).enumerate() {
            let span = self.span(column, width);
            output.fill(if self == Self::Maximum {
                f32::NEG_INFINITY
            } else {
                0.0
            });
            for row in rows.clone() {
                let pixels = &row[span.start * channels..span.end * channels];
                for pixel in pixels.chunks_exact(channels) {
                    match self {
                        Self::Maximum => keep_larger(output, pixel),
                        Self::None => output.copy_from_slice(pixel),
                        Self::Mean => add_quarter(output, pixel),
                    }
                }
            }
        }
    }

    /// Adds to `of_rows` what the gradient of a row of the result, `[output width, channels]`, gives the `rows`
    /// that it was made of. (Only a maximum looks at `rows`.)
    pub fn backward(
        self,
        rows: &[f32],
        width: usize,
        channels: usize,
        gradient: &[f32],
        of_rows: &mut [f32],
    ) {
        let mut best = vec![0.0; channels];
        let mut place = vec![0; channels];
        let down = of_rows.len() / (width * channels);
        for (column, gradient) in gradient.chunks_exact(channels).enumerate() {
            let span = self.span(column, width);
            let pixels = (0..down).flat_map(|row| span.clone().map(move |x| row * width + x));
            let pixels = pixels.map(|pixel| pixel * channels..(pixel + 1) * channels);
            match self {
                Self::None => pixels.for_each(|at| of_rows[at].copy_from_slice(gradient)),
                Self::Mean => pixels.for_each(|at| add_quarter(&mut of_rows[at], gradient)),
                Self::Maximum => {
                    best.fill(f32::NEG_INFINITY);
                    place.fill(u32::MAX);
                    for (index, at) in pixels.clone().enumerate() {
                        mark_larger(&mut best, &mut place, &rows[at], index as u32);
                    }
                    for (index, at) in pixels.enumerate() {
                        add_marked(&mut of_rows[at], gradient, &place, index as u32);
                    }
                }
            }
        }
    }
}

vectorised! {
    /// The larger one of each; what is no number stays.
    fn keep_larger(output: &mut [f32], pixel: &[f32]) {
        for (output, value) in output.iter_mut().zip(pixel) {
            *output = if *output >= *value { *output } else { *value };
        }
    }
}

vectorised! {
    fn add_quarter(output: &mut [f32], pixel: &[f32]) {
        for (output, value) in output.iter_mut().zip(pixel) {
            *output += 0.25 * value;
        }
    }
}

vectorised! {
    /// Remembers pixel `index` where it is larger than those before it.
    fn mark_larger(best: &mut [f32], place: &mut [u32], pixel: &[f32], index: u32) {
        let n = pixel.len();
        let (best, place) = (&mut best[..n], &mut place[..n]);
        for i in 0..n {
            let larger = pixel[i] > best[i];
            best[i] = if larger { pixel[i] } else { best[i] };
            place[i] = if larger { index } else { place[i] };
        }
    }
}

vectorised! {
    /// Adds the gradient of the channels whose maximum is pixel `index`.
    fn add_marked(sums: &mut [f32], gradient: &[f32], place: &[u32], index: u32) {
        let n = sums.len();
        let (gradient, place) = (&gradient[..n], &place[..n]);
        for i in 0..n {
            sums[i] += if place[i] == index { gradient[i] } else { 0.0 };
        }
    }
}
