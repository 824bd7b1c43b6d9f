//! Weights from and to the rest of the world: safetensors with torchvision's key names and metadata
//! that travels with them, and the checkpoints of others.
//!
//! | module | what it is for |
//! |---|---|
//! | `checkpoint` | a file of any format and key style in which a network is found |
//! | `loading` | its tensors into a network, all or none; `report` says what was done |
//! | `network` | a network of whichever architecture its weights are of |
//! | `convert` | labels and preprocessing for weights of others |
//! | `inspection` | what is in a file, for people to read |
//! | `reference` | logits of another program to compare with |
//! | `metadata`, `torchxrayvision` | what one must know to use weights |
//!
//! Loading is strict: a tensor that is missing, left over or of another shape is an error, never
//! a network that silently stays random. May not know data or training.

mod checkpoint;
mod convert;
mod error;
mod inspection;
mod loading;
mod metadata;
mod network;
mod reference;
mod report;
mod torchxrayvision;

use std::path::Path;

use burn::store::burn_pack::Tensor as StoredTensor;
use burn::store::{
    BurnToPyTorchAdapter, ModuleAdapter, ModuleContext, ModuleStore, SafetensorsStore,
};

use crate::model::Classifier;
use crate::written::write_whole;

pub use checkpoint::{Checkpoint, Format};
pub use convert::{Conversion, convert};
pub use error::WeightsError;
use error::one_line;
pub use inspection::Inspection;
pub use loading::Head;
pub use metadata::{Metadata, SplitOrigin};
pub use network::Network;
pub use reference::{Comparison, Reference};
pub use report::Report;

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
///     norm_epsilon: 1e-5,
///     split: None,
///     metrics: Default::default(),
/// };
/// weights::save(&model, &metadata, "best.safetensors")?;
/// let report = weights::load(&mut model, "best.safetensors")?;
/// assert_eq!(report.loaded, 606);
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

/// Loads the weights at `path` into `model`: 606 tensors for DenseNet-121. Every tensor of the model
/// must be there with its shape, and nothing else. The file may be of any format and key style that
/// [`Checkpoint`] knows.
///
/// # Errors
///
/// If the file is not there, is of no known format, or its tensors are not those of the model, which
/// is then as it was.
pub fn load<C: Classifier>(model: &mut C, path: impl AsRef<Path>) -> Result<Report, WeightsError> {
    Checkpoint::open(path)?.load_into(model, &Head::Whole)
}

/// As [`load`], but for the classifier, of which `model` keeps its own: for other labels. 604 tensors
/// for DenseNet-121.
///
/// # Errors
///
/// Those of [`load`]; the file has to have no more than a classifier beside the backbone.
pub fn load_backbone<C: Classifier>(
    model: &mut C,
    path: impl AsRef<Path>,
) -> Result<Report, WeightsError> {
    Checkpoint::open(path)?.load_into(model, &Head::New)
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
