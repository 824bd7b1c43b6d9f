//! Logits that another program has computed, to compare a network with.

use std::fmt::{Display, Formatter};
use std::path::{Path, PathBuf};

use burn::store::burn_pack::Tensor as StoredTensor;
use burn::store::{ModuleStore, SafetensorsStore, bridge};
use burn::tensor::{Device, Tensor, TensorData};

use super::checkpoint::{safetensors_metadata, whole};
use super::error::one_line;
use super::{Network, WeightsError};
use crate::preprocessing::SIZES;

/// Images in a pass, for bounded memory.
const BATCH: usize = 4;

/// Images and what another program makes of them: a safetensors file with `images`,
/// `[count, channels, height, width]`, and `logits`, `[count, outputs]`, both of floats. In Python:
///
/// ```python
/// images = torch.randn(4, 3, 224, 224)
/// with torch.no_grad():
///     save_file({"images": images, "logits": model.eval()(images)}, "reference.safetensors")
/// ```
pub struct Reference {
    path: PathBuf,
    images: Vec<f32>,
    shape: [usize; 4],
    logits: Vec<f64>,
    outputs: usize,
}

/// How far the logits of a network are from those of a [`Reference`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Images compared.
    pub images: usize,
    /// Outputs of each.
    pub outputs: usize,
    /// max |a − b| over all logits.
    pub greatest: f64,
    /// The same divided by max |b|, b being the reference.
    pub relative: f64,
}

impl Display for Comparison {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} images × {} logits: max|a−b| {:.3e}, max|a−b| / max|b| {:.3e}",
            self.images, self.outputs, self.greatest, self.relative
        )
    }
}

impl Reference {
    /// Reads the file at `path`.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or does not hold both tensors in fitting shapes.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, WeightsError> {
        let path = path.as_ref();
        let error = |reason: String| WeightsError::Format {
            path: path.to_path_buf(),
            format: "a reference of images and logits",
            reason: one_line(&reason),
        };
        safetensors_metadata(path)?;
        let mut store = SafetensorsStore::from_bytes(Some(whole(path)?));
        let tensors = store.get_all_tensors().map_err(|e| error(e.to_string()))?;
        let tensor = |name: &str| {
            tensors
                .get(name)
                .ok_or_else(|| error(format!("it has no `{name}`")))
        };
        let (images, logits) = (tensor("images")?, tensor("logits")?);
        let (Ok(shape), Ok([rows, outputs])) = (
            <[usize; 4]>::try_from(&images.shape[..]),
            <[usize; 2]>::try_from(&logits.shape[..]),
        ) else {
            return Err(error(format!(
                "images {:?}, logits {:?}: expected [count, channels, height, width] and [count, outputs]",
                &images.shape[..],
                &logits.shape[..]
            )));
        };
        let sides_fit = shape[2..].iter().all(|side| SIZES.contains(side));
        if rows != shape[0] || rows == 0 || outputs == 0 || !sides_fit {
            return Err(error(format!(
                "images {shape:?}, logits [{rows}, {outputs}]: expected as many of both, and sides from 32 to 4096"
            )));
        }
        let floats = |tensor: &StoredTensor| {
            if !tensor.dtype.is_float() {
                return Err(error(format!("{} of {:?}", tensor.name, tensor.dtype)));
            }
            let data = bridge::to_data(tensor).map_err(|e| error(e.to_string()))?;
            let values = data.convert::<f64>().try_into_vec::<f64>();
            values.map_err(|e| error(format!("{e:?}")))
        };
        let images = floats(images)?;
        Ok(Self {
            images: images.into_iter().map(|value| value as f32).collect(),
            logits: floats(logits)?,
            path: path.to_path_buf(),
            shape,
            outputs,
        })
    }

    /// Computes the logits of `network`, which lies on `device`, and compares them.
    ///
    /// # Errors
    ///
    /// If the network takes images of other channels or has other outputs, or the device fails.
    pub fn compare(&self, network: &Network, device: &Device) -> Result<Comparison, WeightsError> {
        let error = |reason: String| WeightsError::Format {
            path: self.path.clone(),
            format: "a reference for these weights",
            reason,
        };
        let [count, channels, height, width] = self.shape;
        let metadata = network.metadata();
        let own = (metadata.preprocessing.channels(), metadata.labels.len());
        if (channels, self.outputs) != own {
            return Err(error(format!(
                "it has {channels} channels and {} outputs, the network {} and {}",
                self.outputs, own.0, own.1
            )));
        }
        let mut logits = Vec::with_capacity(self.logits.len());
        for images in self.images.chunks(BATCH * channels * height * width) {
            let shape = [
                images.len() / (channels * height * width),
                channels,
                height,
                width,
            ];
            let images = Tensor::from_data(TensorData::new(images.to_vec(), shape), device);
            let values = network.logits(images).into_data();
            let values = values.try_to_vec::<f32>();
            logits.extend(values.map_err(|e| error(format!("{e:?}")))?);
        }
        let pairs = logits.iter().map(|a| f64::from(*a)).zip(&self.logits);
        // Of what is not finite nothing is left but NaN, which no tolerance accepts.
        let greatest = pairs
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, |most: f64, next| {
                if next > most || next.is_nan() {
                    next
                } else {
                    most
                }
            });
        let scale = self.logits.iter().fold(0.0f64, |most, b| most.max(b.abs()));
        Ok(Comparison {
            images: count,
            outputs: self.outputs,
            greatest,
            relative: greatest / scale,
        })
    }
}
