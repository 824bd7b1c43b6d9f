//! A norm as what it does to a channel: a factor and a shift, forward and back.

/// How a norm works.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norm {
    pub epsilon: f32,
    /// With the statistics of the batch; otherwise with those that it is given.
    pub of_batch: bool,
}

/// Weights of a norm, all of them `[channels]`.
#[derive(Clone, Copy)]
pub struct NormParameters<'a> {
    pub weight: &'a [f32],
    pub bias: &'a [f32],
    /// Used where the norm is not one over the batch.
    pub mean: &'a [f32],
    /// As `mean`.
    pub variance: &'a [f32],
}

impl NormParameters<'_> {
    pub fn affine(&self, norm: Norm, of_batch: [&[f32]; 2]) -> Affine {
        let [mean, variance] = if norm.of_batch {
            of_batch
        } else {
            [self.mean, self.variance]
        };
        Affine::new(self.weight, self.bias, mean, variance, norm.epsilon)
    }
}

/// `scale · x + shift` for each channel: batch normalisation with statistics that are known.
pub struct Affine {
    pub scale: Vec<f32>,
    pub shift: Vec<f32>,
    /// What the values lie around.
    pub mean: Vec<f32>,
    /// One by the standard deviation.
    pub inverse: Vec<f32>,
}

impl Affine {
    /// The normalisation to `weight` and `bias`, all of them `[channels]`.
    pub fn new(weight: &[f32], bias: &[f32], mean: &[f32], variance: &[f32], epsilon: f32) -> Self {
        let inverse: Vec<f32> = variance
            .iter()
            .map(|v| 1.0 / (v + epsilon).sqrt())
            .collect();
        let scale: Vec<f32> = weight.iter().zip(&inverse).map(|(w, i)| w * i).collect();
        let shift = bias
            .iter()
            .zip(mean)
            .zip(&scale)
            .map(|((bias, mean), scale)| bias - scale * mean)
            .collect();
        Self {
            scale,
            shift,
            mean: mean.to_vec(),
            inverse,
        }
    }

    /// The gradients of `weight` and `bias` from the sums of the gradient behind the norm, and of that times
    /// the distance of the norm's input to its mean.
    pub fn gradient(&self, sum: &[f32], moment: &[f32], weight: &mut [f32], bias: &mut [f32]) {
        bias.copy_from_slice(sum);
        for ((weight, moment), inverse) in weight.iter_mut().zip(moment).zip(&self.inverse) {
            *weight = moment * inverse;
        }
    }

    /// How the gradient behind the norm, of which these are the sums over `pixels`, becomes that of its input;
    /// `of_batch`: also through mean and variance.
    pub fn slope(&self, of_batch: bool, sum: &[f32], moment: &[f32], pixels: usize) -> Slope {
        let share = if of_batch { 1.0 / pixels as f32 } else { 0.0 };
        let channels = self.scale.iter().zip(&self.inverse);
        let tilt = channels
            .zip(moment)
            .map(|((scale, inverse), moment)| -scale * inverse * inverse * moment * share)
            .collect();
        let offset = self
            .scale
            .iter()
            .zip(sum)
            .map(|(scale, sum)| -scale * sum * share);
        Slope {
            slope: self.scale.clone(),
            tilt,
            offset: offset.collect(),
        }
    }
}

/// The gradient through the statistics of a batch: `slope · g + tilt · (x − mean) + offset`, for each channel.
pub struct Slope {
    pub slope: Vec<f32>,
    pub tilt: Vec<f32>,
    pub offset: Vec<f32>,
}
