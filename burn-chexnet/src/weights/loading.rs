//! The tensors of a checkpoint into a network: all of them or none.

use std::collections::BTreeMap;

use burn::store::burn_pack::Tensor as StoredTensor;
use burn::store::{ModuleSnapshot, PyTorchToBurnAdapter, bridge};
use burn::tensor::{DType, TensorData};

use super::checkpoint::Checkpoint;
use super::error::one_line;
use super::{Report, WeightsError};
use crate::model::Classifier;

/// Where the outputs of a network come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Head {
    /// The classifier of the file, output by output.
    Whole,
    /// These outputs of the file's classifier, counted from 0, in this order.
    Outputs(Vec<usize>),
    /// The network keeps its own classifier; the file may have one or none.
    New,
}

/// A tensor of the network, as torchvision has it.
struct Target {
    /// Its path in the module.
    path: String,
    shape: Vec<usize>,
}

/// What has to be done to a tensor of the file.
enum Change {
    None,
    /// Sum over the input channels of the first convolution.
    SumChannels,
    /// The one input channel of the first convolution for each of three, by a third.
    RepeatChannel,
    /// These rows of it.
    Rows(Vec<usize>),
}

impl Checkpoint {
    /// Puts the tensors into `model`, every one of which has to be there with its shape, and nothing
    /// else; `head` says what becomes of the classifier. Half and double precision are converted; a
    /// first convolution for three channels becomes one for one channel by summing its weights, one
    /// for one channel becomes one for three by repeating a third of them. The report says so.
    ///
    /// # Errors
    ///
    /// If a tensor is missing, left over, of another shape, damaged or not finite. The model is then as
    /// it was.
    pub fn load_into<C: Classifier>(
        &self,
        model: &mut C,
        head: &Head,
    ) -> Result<Report, WeightsError> {
        let classifier = ["weight", "bias"].map(|part| format!("{}.{part}", C::CLASSIFIER));
        let is_head = |name: &str| classifier.iter().any(|own| own == name);
        let mut targets = targets(model);
        if *head == Head::New {
            targets.retain(|name, _| !is_head(name));
        }
        let mut notes = self.findings();
        let mut problems = Problems {
            unexpected: self.unknown.clone(),
            ..Problems::default()
        };
        if *head != Head::New {
            problems.unexpected.extend_from_slice(&self.unclear);
        }
        let mut tensors = Vec::new();
        let mut converted = BTreeMap::new();
        for (name, stored) in &self.tensors {
            if *head == Head::New && is_head(name) {
                continue;
            }
            let Some(target) = targets.remove(name) else {
                problems.unexpected.push(stored.name.clone());
                continue;
            };
            let change = match self.change(name, stored, &target, is_head(name).then_some(head)) {
                Ok(change) => change,
                Err(reason) => {
                    problems.mismatched.push(reason);
                    continue;
                }
            };
            match values(name, stored) {
                Ok(values) => {
                    notes.extend(change.note());
                    if stored.dtype != DType::F32 {
                        *converted
                            .entry(format!("{:?}", stored.dtype))
                            .or_insert(0usize) += 1;
                    }
                    let data = TensorData::new(change.apply(values, stored), target.shape);
                    tensors.push(bridge::from_data(data, target.path, None));
                }
                Err(reason) => problems.mismatched.push(reason),
            }
        }
        problems.missing = targets.into_keys().collect();
        if problems.any() {
            return Err(problems.error(self, tensors.len()));
        }
        if *head == Head::New {
            notes.push("a new classifier".to_string());
        }
        notes.extend(
            converted
                .into_iter()
                .map(|(dtype, count)| format!("{count} tensors converted from {dtype}")),
        );
        let loaded = tensors.len();
        let result = model.apply(tensors, None, Some(Box::new(PyTorchToBurnAdapter)), false);
        problems.mismatched = result
            .errors
            .iter()
            .map(|error| one_line(&error.to_string()))
            .collect();
        problems.unexpected = result.unused;
        if problems.any() {
            return Err(problems.error(self, result.applied.len()));
        }
        Ok(Report {
            path: self.path.clone(),
            loaded,
            notes,
        })
    }

    /// What makes `stored` the tensor that `target` is, if anything does.
    fn change(
        &self,
        name: &str,
        stored: &StoredTensor,
        target: &Target,
        head: Option<&Head>,
    ) -> Result<Change, String> {
        let (found, wanted) = (&stored.shape[..], &target.shape[..]);
        if !matches!(
            stored.dtype,
            DType::F64 | DType::F32 | DType::F16 | DType::BF16
        ) {
            return Err(format!(
                "{}: {:?} in the file, which is no type of weights",
                stored.name, stored.dtype
            ));
        }
        if let (Some(Head::Outputs(rows)), [outputs, rest @ ..]) = (head, found)
            && wanted == [&[rows.len()], rest].concat()
            && rows.iter().all(|row| row < outputs)
        {
            return Ok(Change::Rows(rows.clone()));
        }
        if found == wanted {
            return Ok(Change::None);
        }
        if name == self.family().first_convolution()
            && let ([o, channels, h, w], [o2, wanted_channels, h2, w2]) = (found, wanted)
            && (o, h, w) == (o2, h2, w2)
        {
            match (channels, wanted_channels) {
                (3, 1) => return Ok(Change::SumChannels),
                (1, 3) => return Ok(Change::RepeatChannel),
                _ => {}
            }
        }
        Err(format!(
            "{}: {found:?} in the file, {wanted:?} in the model",
            stored.name
        ))
    }
}

impl Change {
    fn note(&self) -> Option<String> {
        match self {
            Self::None | Self::Rows(_) => None,
            Self::SumChannels => {
                Some("first convolution for 1 channel: the sum of its weights for 3".to_string())
            }
            Self::RepeatChannel => Some(
                "first convolution for 3 channels: its weights for 1, repeated and divided by 3"
                    .to_string(),
            ),
        }
    }

    /// `values` are those of `stored`.
    fn apply(&self, values: Vec<f32>, stored: &StoredTensor) -> Vec<f32> {
        match self {
            Self::None => values,
            Self::Rows(rows) => {
                let length = stored.shape.iter().skip(1).product();
                rows.iter()
                    .flat_map(|row| values[row * length..][..length].iter().copied())
                    .collect()
            }
            Self::SumChannels => {
                let area = stored.shape.iter().skip(2).product::<usize>();
                values
                    .chunks_exact(3 * area)
                    .flat_map(|filter| {
                        (0..area).map(move |at| {
                            let channels = filter[at..].iter().step_by(area);
                            channels.map(|v| f64::from(*v)).sum::<f64>() as f32
                        })
                    })
                    .collect()
            }
            Self::RepeatChannel => {
                let area = stored.shape.iter().skip(2).product::<usize>();
                values
                    .chunks_exact(area)
                    .flat_map(|filter| [filter; 3])
                    .flatten()
                    .map(|value| value / 3.0)
                    .collect()
            }
        }
    }
}

/// The tensors of `model` by torchvision's names.
fn targets<C: Classifier>(model: &C) -> BTreeMap<String, Target> {
    let linear = format!("{}.weight", C::CLASSIFIER);
    let tensors = model.collect(None, None, false).into_iter();
    tensors
        .map(|tensor| {
            let name = C::torchvision_key(&tensor.name);
            let mut shape = tensor.shape.to_vec();
            // Burn has [inputs, outputs].
            if name == linear {
                shape.reverse();
            }
            let path = tensor.name;
            (name, Target { path, shape })
        })
        .collect()
}

/// The values of a tensor whose shape is that of a tensor of the network.
fn values(name: &str, stored: &StoredTensor) -> Result<Vec<f32>, String> {
    let failed = |reason: String| format!("{}: {}", stored.name, one_line(&reason));
    let data = bridge::to_data(stored).map_err(|e| failed(e.to_string()))?;
    let values = data
        .convert::<f32>()
        .try_into_vec::<f32>()
        .map_err(|e| failed(e.to_string()))?;
    if !values.iter().all(|value| value.is_finite()) {
        return Err(failed("it holds values that are not finite".to_string()));
    }
    if name.ends_with("running_var") && values.iter().any(|value| *value < 0.0) {
        return Err(failed("it holds negative variances".to_string()));
    }
    Ok(values)
}

#[derive(Default)]
struct Problems {
    missing: Vec<String>,
    unexpected: Vec<String>,
    mismatched: Vec<String>,
}

impl Problems {
    fn any(&self) -> bool {
        !(self.missing.is_empty() && self.unexpected.is_empty() && self.mismatched.is_empty())
    }

    fn error(mut self, checkpoint: &Checkpoint, loaded: usize) -> WeightsError {
        self.unexpected.sort();
        WeightsError::Mismatch {
            path: checkpoint.path.clone(),
            loaded,
            missing: self.missing,
            unexpected: self.unexpected,
            mismatched: self.mismatched,
        }
    }
}
