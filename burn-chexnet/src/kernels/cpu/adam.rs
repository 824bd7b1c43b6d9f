//! A step of Adam (Kingma and Ba, arXiv 1412.6980) in one pass over the memory.

use super::channels::vectorised;
use super::matrix::Shared;
use super::parallel::for_each;
use super::window::TILE;

/// What a step does, with all that depends on how many there were.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamStep {
    /// Decays of the mean of gradients and of that of their squares.
    pub beta: [f32; 2],
    /// What one takes of a new gradient and of its square: 1 − β, of which 32 bit would lose some.
    pub new: [f32; 2],
    /// The step for a mean that is as large as the deviation.
    pub rate: f32,
    /// One by the root of what the mean of squares lacks of one for having begun at zero.
    pub root_correction: f32,
    pub epsilon: f32,
    /// Added to the gradient for each weight.
    pub decay: f32,
    /// What is left of a weight before the step.
    pub kept: f32,
}

impl AdamStep {
    /// Moves `weights`, `mean` and `squares` in place.
    pub fn apply(
        &self,
        weights: &mut [f32],
        gradient: &[f32],
        mean: &mut [f32],
        squares: &mut [f32],
    ) {
        let floats = weights.len();
        assert!([gradient.len(), mean.len(), squares.len()] == [floats; 3]);
        let shared = [weights, mean, squares].map(Shared::new);
        for_each(floats.div_ceil(TILE), |index| {
            let first = index * TILE;
            let floats = TILE.min(floats - first);
            // SAFETY: no two tiles share floats.
            let [weights, mean, squares] =
                shared.map(|values| unsafe { values.slice_mut(first, floats) });
            step(weights, &gradient[first..][..floats], mean, squares, self);
        });
    }
}

vectorised! {
    fn step(weights: &mut [f32], gradient: &[f32], mean: &mut [f32], squares: &mut [f32], by: &AdamStep) {
        let n = weights.len();
        let (gradient, mean, squares) = (&gradient[..n], &mut mean[..n], &mut squares[..n]);
        for i in 0..n {
            let g = gradient[i] + by.decay * weights[i];
            mean[i] = by.beta[0] * mean[i] + by.new[0] * g;
            squares[i] = by.beta[1] * squares[i] + by.new[1] * (g * g);
            let deviation = squares[i].sqrt() * by.root_correction + by.epsilon;
            weights[i] = by.kept * weights[i] - by.rate * (mean[i] / deviation);
        }
    }
}
