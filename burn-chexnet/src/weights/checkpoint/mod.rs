//! Weights of others: a file of tensors in which one network is found, whatever its keys are called.
//!
//! | module | what it is for |
//! |---|---|
//! | `file` | the file formats; knows no networks |
//! | `keys` | the names of tensors; knows no files |
//! | `pickle_size` | what a pickle takes to read; knows neither |

mod file;
mod keys;
mod pickle_size;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use burn::store::burn_pack::Tensor as StoredTensor;

pub use file::Format;
pub(super) use file::{in_folder, safetensors_metadata, whole};
pub(super) use keys::Family;
use keys::{Ignored, LayerNames, Meaning, Style};

use super::error::printable;
use super::metadata::{self, Metadata};
use super::{WeightsError, torchxrayvision};
use crate::Preprocessing;
use crate::model::{Architecture, DenseNetConfig};
use crate::norm;
use file::TensorFile;

/// Entry of the metadata of a safetensors file that says which epsilon its norms were trained with;
/// the conversion from Keras writes it.
const NORM_EPSILON: &str = "norm_epsilon";

/// Outputs beyond any set of labels; ImageNet has 1000, with all its categories 21,841.
const MOST_OUTPUTS: usize = 1 << 15;

/// A file of weights in which a network has been found: this project's own, torchvision's, or one of the
/// published CheXNet models (the page "Weights" of the book has the list). Its tensors are still
/// unread; [`load_into`](Self::load_into) puts them into a network.
///
/// ```no_run
/// use burn::tensor::Device;
/// use burn_chexnet::model::DenseNetConfig;
/// use burn_chexnet::weights::{Checkpoint, Head};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let checkpoint = Checkpoint::open("densenet121-a639ec97.pth")?;
/// let mut model = DenseNetConfig::densenet121().init(&Device::flex());
/// let report = checkpoint.load_into(&mut model, &Head::New)?;
/// assert_eq!(report.loaded, 604);
/// # Ok(())
/// # }
/// ```
pub struct Checkpoint {
    pub(super) path: PathBuf,
    format: Format,
    dictionary: Option<&'static str>,
    left_out: BTreeSet<String>,
    style: Style,
    /// By torchvision's names; each tensor's own name is its key in the file.
    pub(super) tensors: BTreeMap<String, StoredTensor>,
    /// Keys of the file that belong to no network.
    pub(super) unknown: Vec<String>,
    ignored: BTreeMap<Ignored, usize>,
    layer_names: BTreeSet<LayerNames>,
    /// Classifiers by their names in the file, until one is chosen.
    heads: BTreeMap<&'static str, BTreeMap<&'static str, StoredTensor>>,
    head: Option<&'static str>,
    /// Keys of classifiers, if there are several.
    pub(super) unclear: Vec<String>,
    metadata: Option<Metadata>,
    norm_epsilon: f64,
}

impl Checkpoint {
    /// Opens the file at `path`, or the best weights of the run in the folder `path`, and looks for a
    /// network. No tensor is read, and nothing of a pickle is executed.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is of no known format, or holds no DenseNet and no ResNet or
    /// several networks.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, WeightsError> {
        let file = TensorFile::open(path.as_ref())?;
        let metadata = metadata::of_entries(&file.path, &file.metadata)?;
        let norm_epsilon = norm_epsilon(&file, metadata.as_ref())?;
        let style = style(&file)?;
        let mut checkpoint = Self {
            path: file.path,
            format: file.format,
            dictionary: file.dictionary,
            left_out: file.left_out,
            style,
            tensors: BTreeMap::new(),
            unknown: Vec::new(),
            ignored: BTreeMap::new(),
            layer_names: BTreeSet::new(),
            heads: BTreeMap::new(),
            head: None,
            unclear: Vec::new(),
            metadata,
            norm_epsilon,
        };
        for (key, tensor) in file.tensors {
            checkpoint.take(key, tensor)?;
        }
        checkpoint.choose_head();
        match checkpoint.outputs() {
            Some(outputs) if outputs > MOST_OUTPUTS => Err(WeightsError::outputs(
                &checkpoint.path,
                format!("{outputs} of them: more than {MOST_OUTPUTS} are not read"),
            )),
            _ => Ok(checkpoint),
        }
    }

    /// Takes the classifier, if there is one. Of several none is taken: only the user knows which.
    fn choose_head(&mut self) {
        let classifier = self.style.family.classifier();
        let mut heads = std::mem::take(&mut self.heads);
        match heads.len() {
            0 => {}
            1 => {
                for (name, parts) in heads {
                    self.head = Some(name);
                    for (part, tensor) in parts {
                        self.tensors.insert(format!("{classifier}.{part}"), tensor);
                    }
                }
            }
            _ => {
                let tensors = heads.values_mut().flat_map(std::mem::take);
                self.unclear.extend(tensors.map(|(_, tensor)| tensor.name));
            }
        }
    }

    fn take(&mut self, key: String, mut tensor: StoredTensor) -> Result<(), WeightsError> {
        match self.style.meaning(&key) {
            Meaning::Ignored(what) => *self.ignored.entry(what).or_default() += 1,
            Meaning::Unknown => self.unknown.push(printable(&key)),
            Meaning::Head { name, part } => {
                tensor.name = printable(&key);
                self.heads.entry(name).or_default().insert(part, tensor);
            }
            Meaning::Tensor { name, layer_names } => {
                self.layer_names.extend(layer_names);
                tensor.name = printable(&key);
                let both = format!("`{}` is {}", tensor.name, printable(&name));
                if let Some(other) = self.tensors.insert(name, tensor) {
                    return Err(WeightsError::keys(
                        &self.path,
                        format!("{both}, and so is `{}`", other.name),
                    ));
                }
            }
        }
        Ok(())
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The architecture, if it is one of this project's.
    pub fn architecture(&self) -> Option<Architecture> {
        let matches = |architecture: &Architecture| match architecture.densenet() {
            Some(config) => self.is_densenet(&config),
            None => self.is_resnet50(),
        };
        Architecture::ALL.into_iter().find(matches)
    }

    fn is_densenet(&self, config: &DenseNetConfig) -> bool {
        let layers = |block: usize| {
            let is_layer = |layer: &usize| {
                let key = format!("features.denseblock{block}.denselayer{layer}.conv1.weight");
                self.tensors.contains_key(&key)
            };
            (1..).take_while(is_layer).count()
        };
        let blocks: Vec<usize> = (1..).map(layers).take_while(|count| *count > 0).collect();
        self.style.family == Family::DenseNet
            && blocks == config.blocks
            && self.size("features.conv0.weight", 0) == Some(config.initial_channels)
    }

    fn is_resnet50(&self) -> bool {
        let has = |name: &str| self.tensors.contains_key(name);
        let stages = [(1, 3), (2, 4), (3, 6), (4, 3)];
        self.style.family == Family::ResNet
            && has("layer1.0.conv3.weight")
            && self.size("layer1.0.conv2.weight", 0) == Some(64)
            && stages.into_iter().all(|(stage, blocks)| {
                has(&format!("layer{stage}.{}.conv1.weight", blocks - 1))
                    && !has(&format!("layer{stage}.{blocks}.conv1.weight"))
            })
    }

    /// Channels of the images.
    pub fn in_channels(&self) -> Option<usize> {
        self.size(self.style.family.first_convolution(), 1)
    }

    /// Outputs of the classifier; `None` if the file has no classifier.
    pub fn outputs(&self) -> Option<usize> {
        self.size(&format!("{}.weight", self.style.family.classifier()), 0)
    }

    fn size(&self, name: &str, axis: usize) -> Option<usize> {
        self.tensors.get(name)?.shape.get(axis).copied()
    }

    /// Metadata of this project, if it wrote the file.
    pub fn metadata(&self) -> Option<&Metadata> {
        self.metadata.as_ref()
    }

    /// Names of the outputs, in their order: of the metadata, or TorchXRayVision's. `None` if
    /// nothing says.
    pub fn labels(&self) -> Option<Vec<String>> {
        match &self.metadata {
            Some(metadata) => Some(metadata.labels.clone()),
            None => self
                .is_torchxrayvision()
                .then(|| torchxrayvision::LABELS.map(str::to_string).to_vec()),
        }
    }

    /// How the input of the network is made: of the metadata, or TorchXRayVision's. `None` if nothing
    /// says.
    pub fn preprocessing(&self) -> Option<Preprocessing> {
        match &self.metadata {
            Some(metadata) => Some(metadata.preprocessing.clone()),
            None if self.is_torchxrayvision() => {
                torchxrayvision::preprocessing(match self.style.family {
                    Family::DenseNet => 224,
                    Family::ResNet => 512,
                })
                .ok()
            }
            None => None,
        }
    }

    /// Whether this is a model of TorchXRayVision: one channel and its 18 outputs, or its operating
    /// points.
    fn is_torchxrayvision(&self) -> bool {
        let outputs = torchxrayvision::LABELS.len();
        self.in_channels() == Some(1)
            && self.outputs() == Some(outputs)
            && (self.layer_names.is_empty() || self.ignored.contains_key(&Ignored::OperatingPoints))
    }

    /// What the norms add to the variance: 1e-5 as in PyTorch, unless the file says otherwise.
    pub fn norm_epsilon(&self) -> f64 {
        self.norm_epsilon
    }

    pub(super) fn family(&self) -> Family {
        self.style.family
    }

    /// Every tensor that belongs to the network: torchvision's name, its key in the file, its shape.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &str, &[usize])> {
        let tensors = self.tensors.iter();
        tensors.map(|(name, tensor)| (name.as_str(), tensor.name.as_str(), &tensor.shape[..]))
    }

    /// What was found where, and what of the file is left out, in words.
    pub fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        if let Some(dictionary) = self.dictionary {
            findings.push(format!("found in its dictionary `{dictionary}`"));
        }
        if !self.left_out.is_empty() {
            let names: Vec<String> = self.left_out.iter().map(|name| printable(name)).collect();
            findings.push(format!("left out beside it: {}", names.join(", ")));
        }
        if !self.style.prefix.is_empty() {
            let prefix = printable(&self.style.prefix);
            findings.push(format!("keys without their prefix `{prefix}`"));
        }
        for names in &self.layer_names {
            findings.push(
                match names {
                    LayerNames::Dotted => {
                        "layers named as by torchvision before PyTorch 0.4 (norm.1)"
                    }
                    LayerNames::Monai => "layers named as by MONAI (layers.norm1)",
                }
                .to_string(),
            );
        }
        if let Some(head) = self
            .head
            .filter(|head| *head != self.style.family.classifier())
        {
            findings.push(format!("classifier named `{head}`"));
        }
        if !self.unclear.is_empty() {
            findings.push(format!(
                "several classifiers, of which none is taken: {}",
                self.unclear.join(", ")
            ));
        }
        if self.metadata.is_none() && self.is_torchxrayvision() {
            findings.push(
                "taken for a model of TorchXRayVision, since it has 1 channel and 18 outputs: pixels from -1024 to 1024, its 18 labels, of which a data set may have trained only some"
                    .to_string(),
            );
        }
        if self.norm_epsilon != norm::EPSILON {
            findings.push(format!("epsilon of its norms: {:e}", self.norm_epsilon));
        }
        for (what, count) in &self.ignored {
            findings.push(match what {
                Ignored::BatchCount => format!("ignored: {count} num_batches_tracked"),
                Ignored::OperatingPoints => {
                    "ignored: op_threshs, by which TorchXRayVision bends its probabilities"
                        .to_string()
                }
            });
        }
        findings
    }
}

fn norm_epsilon(file: &TensorFile, metadata: Option<&Metadata>) -> Result<f64, WeightsError> {
    let Some(text) = file.metadata.get(NORM_EPSILON) else {
        return Ok(metadata.map_or(norm::EPSILON, |metadata| metadata.norm_epsilon));
    };
    match text.parse::<f64>() {
        Ok(epsilon) if metadata.is_some_and(|metadata| metadata.norm_epsilon != epsilon) => {
            Err(WeightsError::Metadata {
                path: file.path.clone(),
                reason: format!("`{NORM_EPSILON}` is {text}, but another in its other entry"),
            })
        }
        Ok(epsilon) if metadata::is_norm_epsilon(epsilon) => Ok(epsilon),
        _ => Err(WeightsError::Metadata {
            path: file.path.clone(),
            reason: format!("`{NORM_EPSILON}` is {text:?}: expected a number from 0 to 1"),
        }),
    }
}

/// The one network in `file`.
fn style(file: &TensorFile) -> Result<Style, WeightsError> {
    let keys = || file.tensors.keys().map(String::as_str);
    let mut styles = Style::all(keys());
    match (styles.pop(), styles.pop()) {
        (Some(style), None) => Ok(style),
        (Some(one), Some(other)) => Err(WeightsError::keys(
            &file.path,
            format!(
                "it holds several networks, behind `{}` and `{}`: save the tensors of one",
                printable(&other.prefix),
                printable(&one.prefix)
            ),
        )),
        (None, _) => {
            let first: Vec<String> = keys().take(3).map(printable).collect();
            let found = match first.is_empty() {
                true => "it holds no tensor".to_string(),
                false => format!(
                    "{} tensors, the first {}",
                    file.tensors.len(),
                    first.join(", ")
                ),
            };
            Err(WeightsError::keys(
                &file.path,
                format!(
                    "no DenseNet and no ResNet in it, since nothing ends in features.conv0.weight or layer1.0.conv1.weight: {found}"
                ),
            ))
        }
    }
}
