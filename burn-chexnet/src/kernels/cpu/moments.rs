//! Mean and variance of channels, from those of parts of the pixels.

use super::channels::{add_rows, add_squares};
use super::matrix::Matrix;

/// Number, mean and summed squares around the mean of some pixels, for each channel.
#[derive(Clone, Default)]
pub struct Moments {
    count: usize,
    mean: Vec<f32>,
    squares: Vec<f32>,
}

impl Moments {
    /// Those of `pixels`. Twice over them, which are few enough to be near: the difference of large
    /// sums of squares would lose bits.
    pub fn of(pixels: Matrix) -> Self {
        let count = pixels.rows();
        let mut mean = vec![0.0; pixels.width()];
        let mut squares = mean.clone();
        if count > 0 {
            add_rows(pixels, &mut mean);
            mean.iter_mut().for_each(|mean| *mean /= count as f32);
            add_squares(pixels, &mean, &mut squares);
        }
        Self {
            count,
            mean,
            squares,
        }
    }

    /// Mean and biased variance of all `parts` together (Chan, Golub and LeVeque 1979).
    pub fn merge(parts: &[Self], mean: &mut [f32], variance: &mut [f32]) {
        let count: usize = parts.iter().map(|part| part.count).sum();
        for channel in 0..mean.len() {
            let of_all = |value: &dyn Fn(&Self) -> f64| {
                let sum: f64 = parts.iter().map(value).sum();
                sum / count as f64
            };
            let center = of_all(&|part| part.count as f64 * f64::from(part.mean[channel]));
            mean[channel] = center as f32;
            variance[channel] = of_all(&|part| {
                let distance = f64::from(part.mean[channel]) - center;
                f64::from(part.squares[channel]) + part.count as f64 * distance * distance
            }) as f32;
        }
    }
}

/// Sums over pixels of a gradient, and of it times the distance of what it belongs to from its mean, for each channel.
/// They nearly cancel where another norm follows, so that parts are added in 64 bit.
#[derive(Clone)]
pub struct GradientSums {
    sum: Vec<f64>,
    moment: Vec<f64>,
    /// Of the pixels that are gone through now.
    near: [Vec<f32>; 2],
}

impl GradientSums {
    /// Of nothing.
    pub fn new(channels: usize) -> Self {
        Self {
            sum: vec![0.0; channels],
            moment: vec![0.0; channels],
            near: [(); 2].map(|()| vec![0.0; channels]),
        }
    }

    /// What `add` adds to the sums, for a few pixels.
    pub fn add(&mut self, add: impl FnOnce(&mut [f32], &mut [f32])) {
        let [sum, moment] = &mut self.near;
        sum.fill(0.0);
        moment.fill(0.0);
        add(sum, moment);
        for (all, near) in [(&mut self.sum, sum), (&mut self.moment, moment)] {
            for (all, near) in all.iter_mut().zip(near) {
                *all += f64::from(*near);
            }
        }
    }

    /// Adds the sums over other pixels.
    pub fn merge(&mut self, other: &Self) {
        let sums = [
            (&mut self.sum, &other.sum),
            (&mut self.moment, &other.moment),
        ];
        for (sums, others) in sums {
            sums.iter_mut().zip(others).for_each(|(sum, o)| *sum += o);
        }
    }

    /// The sums of the gradient, and those of the products.
    pub fn sums(&self) -> [Vec<f32>; 2] {
        [&self.sum, &self.moment].map(|sums| sums.iter().map(|sum| *sum as f32).collect())
    }
}
