//! Binary cross-entropy on logits, for many labels at once.
//!
//! Works on logits, never on probabilities (the sigmoid stands in one place,
//! [`crate::model::probabilities`]); may not know the model or the data.

use burn::tensor::{Tensor, activation::log_sigmoid};
use serde::{Deserialize, Serialize};

/// How the losses of the labels of a batch become one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reduction {
    /// Sum over the labels, mean over the images: the CheXNet paper's loss.
    #[default]
    SumOverLabels,
    /// Mean over every known label of every image: PyTorch's default.
    Mean,
}

impl std::str::FromStr for Reduction {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "sum-over-labels" => Ok(Self::SumOverLabels),
            "mean" => Ok(Self::Mean),
            other => Err(format!(
                "unknown loss `{other}`: expected sum-over-labels or mean"
            )),
        }
    }
}

/// Weights of the positive and the negative term of each label.
///
/// The paper's (arXiv 1711.05225, section 2.1): w₊ = N / (P + N) and w₋ = P / (P + N), with P
/// positive and N negative images in the training set, so that both sides weigh the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabelWeights {
    /// w₊ of each label.
    pub positive: Vec<f64>,
    /// w₋ of each label.
    pub negative: Vec<f64>,
}

impl LabelWeights {
    /// From the counts of positive and negative training images, one `(P, N)` a label.
    /// A label that is never known weighs one on both sides (it has no terms).
    ///
    /// ```
    /// use burn_chexnet::loss::LabelWeights;
    /// let weights = LabelWeights::from_counts([(1, 3)]);
    /// assert_eq!((weights.positive[0], weights.negative[0]), (0.75, 0.25));
    /// ```
    pub fn from_counts(counts: impl IntoIterator<Item = (usize, usize)>) -> Self {
        let (positive, negative) = counts
            .into_iter()
            .map(|(positives, negatives)| match positives + negatives {
                0 => (1.0, 1.0),
                all => (negatives as f64 / all as f64, positives as f64 / all as f64),
            })
            .unzip();
        Self { positive, negative }
    }
}

/// Binary cross-entropy of logits.
///
/// For a logit x and a target t of 0 or 1 the loss is −w₊ t ln σ(x) − w₋ (1 − t) ln σ(−x),
/// computed through the logarithm of the sigmoid so that no x overflows.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use burn_chexnet::loss::{BinaryCrossEntropy, Reduction};
///
/// let device = Device::flex();
/// let logits = Tensor::<2>::zeros([4, 14], &device);
/// let targets = Tensor::<2>::ones([4, 14], &device);
/// let loss = BinaryCrossEntropy::new(Reduction::Mean).forward(logits, targets, None);
/// let loss: f32 = loss.into_scalar();
/// assert!((loss - 2f32.ln()).abs() < 1e-6);
/// ```
#[derive(Clone, Debug, Default)]
pub struct BinaryCrossEntropy {
    /// How the terms become one number.
    pub reduction: Reduction,
    /// Weights of the labels; all one when `None`.
    pub weights: Option<LabelWeights>,
}

impl BinaryCrossEntropy {
    /// The unweighted loss.
    pub fn new(reduction: Reduction) -> Self {
        Self {
            reduction,
            weights: None,
        }
    }

    /// The same loss with weighted labels.
    pub fn with_weights(self, weights: LabelWeights) -> Self {
        Self {
            weights: Some(weights),
            ..self
        }
    }

    /// The loss, `[1]`, of `logits` against `targets` (0 or 1), both `[batch, labels]`.
    ///
    /// `known`, `[batch, labels]`, is 1 where the label is known and 0 where it is to be left
    /// out (an uncertain or blank cell); `None` when all are known. A batch without any known
    /// label has loss 0.
    ///
    /// # Panics
    ///
    /// If the shapes differ, or the number of weights is not the number of labels.
    pub fn forward(
        &self,
        logits: Tensor<2>,
        targets: Tensor<2>,
        known: Option<Tensor<2>>,
    ) -> Tensor<1> {
        let [batch, labels] = logits.dims();
        let negatives = targets.clone().neg().add_scalar(1.0);
        let (positive, negative) = match &self.weights {
            None => (targets, negatives),
            Some(weights) => {
                let device = logits.device();
                let row =
                    |values: &[f64]| Tensor::<1>::from_floats(values, &device).reshape([1, labels]);
                (
                    targets * row(&weights.positive),
                    negatives * row(&weights.negative),
                )
            }
        };
        let terms =
            (positive * log_sigmoid(logits.clone()) + negative * log_sigmoid(logits.neg())).neg();
        match (self.reduction, known) {
            (Reduction::SumOverLabels, None) => terms.sum().div_scalar(batch as f64),
            (Reduction::SumOverLabels, Some(known)) => {
                (terms * known).sum().div_scalar(batch as f64)
            }
            (Reduction::Mean, None) => terms.mean(),
            (Reduction::Mean, Some(known)) => {
                let count = known.clone().sum().clamp_min(1.0);
                (terms * known).sum() / count
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use burn::tensor::{Device, TensorData};

    const LOGITS: [[f32; 3]; 2] = [[0.0, 2.0, -1.5], [-90.0, 90.0, 0.25]];
    const TARGETS: [[f32; 3]; 2] = [[1.0, 0.0, 1.0], [1.0, 1.0, 0.0]];
    const KNOWN: [[f32; 3]; 2] = [[1.0, 1.0, 0.0], [1.0, 0.0, 1.0]];

    /// The terms in float64, in the other textbook form: max(x,0) − x t + ln(1 + e^−|x|).
    fn term(x: f64, t: f64, positive: f64, negative: f64) -> f64 {
        let softplus = |x: f64| x.max(0.0) + (-x.abs()).exp().ln_1p();
        positive * t * softplus(-x) + negative * (1.0 - t) * softplus(x)
    }

    fn expected(weights: Option<&LabelWeights>, masked: bool, reduction: Reduction) -> f64 {
        let (mut sum, mut count) = (0.0, 0.0);
        for i in 0..2 {
            for j in 0..3 {
                let known = if masked { f64::from(KNOWN[i][j]) } else { 1.0 };
                let (p, n) = weights.map_or((1.0, 1.0), |w| (w.positive[j], w.negative[j]));
                sum += known * term(f64::from(LOGITS[i][j]), f64::from(TARGETS[i][j]), p, n);
                count += known;
            }
        }
        match reduction {
            Reduction::SumOverLabels => sum / 2.0,
            Reduction::Mean => sum / count,
        }
    }

    #[test]
    fn equals_the_closed_form() {
        let device = Device::flex();
        let weights = LabelWeights::from_counts([(1, 9), (4, 6), (2, 2)]);
        for reduction in [Reduction::SumOverLabels, Reduction::Mean] {
            for weights in [None, Some(&weights)] {
                for masked in [false, true] {
                    let loss = BinaryCrossEntropy {
                        reduction,
                        weights: weights.cloned(),
                    };
                    let value: f32 = loss
                        .forward(
                            Tensor::from_data(LOGITS, &device),
                            Tensor::from_data(TARGETS, &device),
                            masked.then(|| Tensor::from_data(KNOWN, &device)),
                        )
                        .into_scalar();
                    let expected = expected(weights, masked, reduction);
                    assert!(
                        (f64::from(value) - expected).abs() <= 1e-5 * expected,
                        "{reduction:?} {weights:?} {masked}: {value} {expected}"
                    );
                }
            }
        }
    }

    #[test]
    fn gradient_is_sigmoid_minus_target_even_at_zero() {
        let device = Device::flex().autodiff();
        let logits = Tensor::<2>::from_data([[0.0, 3.0]], &device).require_grad();
        let loss = BinaryCrossEntropy::new(Reduction::SumOverLabels).forward(
            logits.clone(),
            Tensor::from_data([[1.0, 0.0]], &device),
            None,
        );
        let gradient = logits.grad(&loss.backward()).unwrap().into_data();
        let sigmoid = 1.0 / (1.0 + (-3.0f32).exp());
        gradient.assert_approx_eq::<f32>(
            &TensorData::from([[-0.5, sigmoid]]),
            burn::tensor::Tolerance::absolute(1e-6),
        );
    }

    #[test]
    fn nothing_known_is_zero_not_nan() {
        let device = Device::flex();
        let zeros = || Tensor::<2>::zeros([2, 3], &device);
        for reduction in [Reduction::SumOverLabels, Reduction::Mean] {
            let loss: f32 = BinaryCrossEntropy::new(reduction)
                .forward(zeros(), zeros(), Some(zeros()))
                .into_scalar();
            assert_eq!(loss, 0.0);
        }
    }

    #[test]
    fn weights_of_a_label_without_positives_stay_finite() {
        let weights = LabelWeights::from_counts([(0, 7), (0, 0)]);
        assert_eq!(weights.positive, [1.0, 1.0]);
        assert_eq!(weights.negative, [0.0, 1.0]);
    }
}
