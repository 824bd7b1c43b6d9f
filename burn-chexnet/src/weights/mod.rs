//! Weights as safetensors with torchvision's key names, and the metadata that travels with them.
//!
//! Loading is strict: a tensor that is missing, left over or of another shape is an error, never
//! a network that silently stays random. May not know data or training.

mod metadata;
mod network;

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use burn::store::burn_pack::Tensor as StoredTensor;
use burn::store::{
    ApplyError, BurnToPyTorchAdapter, ModuleAdapter, ModuleContext, ModuleSnapshot, ModuleStore,
    PyTorchToBurnAdapter, SafetensorsStore,
};
use burn::tensor::DType;

use crate::model::Classifier;
use crate::written::write_whole;

pub use metadata::{Metadata, SplitOrigin};
pub use network::Network;

/// Why weights cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// The file cannot be opened or read.
    #[error("cannot read weights {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write weights {}: {reason}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The file is no safetensors file.
    #[error("{} is no safetensors file: {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The metadata is missing or makes no sense.
    #[error("metadata of {}: {reason}", path.display())]
    Metadata {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The tensors are not those of the model.
    #[error(
        "{} does not fit the model: {loaded} tensors fit, {} missing{}, {} unexpected{}, {} of another shape or type{}",
        path.display(),
        missing.len(), first(missing), unexpected.len(), first(unexpected),
        mismatched.len(), first(mismatched)
    )]
    Mismatch {
        /// The file.
        path: PathBuf,
        /// How many tensors fit.
        loaded: usize,
        /// Keys of the model that the file lacks.
        missing: Vec<String>,
        /// Keys of the file that the model lacks.
        unexpected: Vec<String>,
        /// What is wrong with a tensor of the right name.
        mismatched: Vec<String>,
    },
}

fn first(names: &[String]) -> String {
    names
        .first()
        .map(|name| format!(" (first: {name})"))
        .unwrap_or_default()
}

/// Writes the weights of `model` and `metadata` to `path` as safetensors with torchvision's key
/// names. The file appears whole or not at all.
///
/// # Errors
///
/// If the file cannot be written.
///
/// ```no_run
/// # use burn::tensor::Device;
/// # use burn_chexnet::{Preprocessing, model::{Architecture, DenseNetConfig}, weights};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let device = Device::flex();
/// let mut model = DenseNetConfig::densenet121().init(&device);
/// let metadata = weights::Metadata {
///     architecture: Architecture::DenseNet121,
///     labels: (0..14).map(|label| format!("label {label}")).collect(),
///     preprocessing: Preprocessing::imagenet(224, 3)?,
///     split: None,
///     metrics: Default::default(),
/// };
/// weights::save(&model, &metadata, "best.safetensors")?;
/// let loaded = weights::load(&mut model, "best.safetensors")?;
/// assert_eq!(loaded, 606);
/// # Ok(())
/// # }
/// ```
pub fn save<C: Classifier>(
    model: &C,
    metadata: &Metadata,
    path: impl AsRef<Path>,
) -> Result<(), WeightsError> {
    let path = path.as_ref();
    let write = |reason: String| WeightsError::Write {
        path: path.to_path_buf(),
        reason,
    };
    let entry = serde_json::to_string(metadata).map_err(|e| write(e.to_string()))?;
    let mut store = SafetensorsStore::from_bytes(None)
        .clear_metadata()
        .metadata(metadata::KEY, entry)
        .with_to_adapter(TorchvisionKeys(C::torchvision_key));
    // A model in training holds back the newest running statistics; its validation snapshot does
    // not.
    store
        .collect_from(&model.valid())
        .map_err(|e| write(one_line(&e.to_string())))?;
    let bytes = store.get_bytes().map_err(|e| write(e.to_string()))?;
    write_whole(path, &bytes).map_err(|e| write(e.to_string()))
}

/// Loads the weights at `path` into `model` and returns the number of tensors loaded (606 for
/// DenseNet-121). Every tensor of the model must be there with its shape, and nothing else.
///
/// # Errors
///
/// If the file is not there, is no safetensors file, or its tensors are not those of the model;
/// the model may then hold some of them and must not be used.
pub fn load<C: Classifier>(model: &mut C, path: impl AsRef<Path>) -> Result<usize, WeightsError> {
    load_where(model, path.as_ref(), |_| true)
}

/// As [`load`], but for the classifier, of which `model` keeps its own: for other labels. Returns the
/// number of tensors loaded (604 for DenseNet-121).
///
/// # Errors
///
/// Those of [`load`]; the file has to have no more than a classifier beside the backbone.
pub fn load_backbone<C: Classifier>(
    model: &mut C,
    path: impl AsRef<Path>,
) -> Result<usize, WeightsError> {
    let classifier = format!("{}.", C::CLASSIFIER);
    load_where(model, path.as_ref(), |key| !key.starts_with(&classifier))
}

/// Loads the tensors whose key is `wanted`; the file need not have the others.
fn load_where<C: Classifier>(
    model: &mut C,
    path: &Path,
    wanted: impl Fn(&str) -> bool,
) -> Result<usize, WeightsError> {
    // Refuses a file that is not there or is something else, before anything is mapped.
    read_header(path)?;
    let format = |reason: String| WeightsError::Format {
        path: path.to_path_buf(),
        reason: one_line(&reason),
    };
    let paths: HashMap<String, String> = model
        .collect(None, None, false)
        .into_iter()
        .map(|tensor| (C::torchvision_key(&tensor.name), tensor.name))
        .collect();
    let mut store = SafetensorsStore::from_file(path);
    let stored = store.get_all_tensors().map_err(|e| format(e.to_string()))?;
    let mut unexpected = Vec::new();
    let mut mismatched = Vec::new();
    let mut tensors = Vec::new();
    for (key, tensor) in stored.iter().filter(|(key, _)| wanted(key)) {
        match paths.get(key) {
            // Burn would keep the width of the file, and the model compute in mixed types.
            Some(_) if tensor.dtype != DType::F32 => {
                mismatched.push(format!(
                    "{key}: {:?} in the file, F32 in the model",
                    tensor.dtype
                ));
            }
            Some(path) => {
                let mut tensor = tensor.clone();
                tensor.name.clone_from(path);
                tensors.push(tensor);
            }
            // PyTorch's count of the batches that a norm has seen; nothing depends on it.
            None if key.ends_with(".num_batches_tracked") => {}
            None => unexpected.push(key.clone()),
        }
    }
    let result = model.apply(tensors, None, Some(Box::new(PyTorchToBurnAdapter)), false);
    mismatched.extend(result.errors.iter().map(mismatch::<C>));
    let mut missing: Vec<String> = result
        .missing
        .iter()
        .map(|(path, _)| C::torchvision_key(path))
        .filter(|key| wanted(key))
        .collect();
    missing.sort();
    if missing.is_empty() && unexpected.is_empty() && mismatched.is_empty() {
        return Ok(result.applied.len());
    }
    Err(WeightsError::Mismatch {
        path: path.to_path_buf(),
        loaded: result.applied.len(),
        missing,
        unexpected,
        mismatched,
    })
}

fn mismatch<C: Classifier>(error: &ApplyError) -> String {
    match error {
        ApplyError::ShapeMismatch {
            path,
            expected,
            found,
        } => format!(
            "{}: {found:?} in the file, {expected:?} in the model",
            C::torchvision_key(path)
        ),
        other => one_line(&other.to_string()),
    }
}

/// The longest header that is read; DenseNet-201's has 0.1 MB.
const HEADER_LIMIT: u64 = 16 << 20;

/// The metadata of a safetensors file, without its tensors.
fn read_header(path: &Path) -> Result<HashMap<String, String>, WeightsError> {
    #[derive(serde::Deserialize)]
    struct Header {
        #[serde(rename = "__metadata__", default)]
        metadata: HashMap<String, String>,
    }
    let format = |reason: String| WeightsError::Format {
        path: path.to_path_buf(),
        reason,
    };
    let read = |source| WeightsError::Read {
        path: path.to_path_buf(),
        source,
    };
    let mut file = File::open(path).map_err(read)?;
    let length = file.metadata().map_err(read)?.len();
    let mut size = [0u8; 8];
    file.read_exact(&mut size)
        .map_err(|e| format(format!("it has no header ({e})")))?;
    let size = u64::from_le_bytes(size);
    if size > HEADER_LIMIT || size > length {
        return Err(format(format!("its header claims {size} bytes")));
    }
    let mut header = Vec::new();
    file.take(size).read_to_end(&mut header).map_err(read)?;
    serde_json::from_slice::<Header>(&header)
        .map(|header| header.metadata)
        .map_err(|e| format(e.to_string()))
}

/// Errors are one line: some of Burn's have a hint on a second.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Burn's layout to PyTorch's (linear weights transposed), under torchvision's names.
#[derive(Clone)]
struct TorchvisionKeys(fn(&str) -> String);

impl ModuleAdapter for TorchvisionKeys {
    fn adapt(&self, tensor: StoredTensor, context: ModuleContext<'_>) -> StoredTensor {
        let mut tensor = BurnToPyTorchAdapter.adapt(tensor, context);
        tensor.name = (self.0)(&tensor.name);
        tensor
    }

    fn clone_box(&self) -> Box<dyn ModuleAdapter> {
        Box::new(self.clone())
    }
}
