//! Files of tensors by format: safetensors and PyTorch's pickles. Nothing of a pickle is executed,
//! and no tensor is read before its shape has been compared.
//!
//! Knows no names of networks.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use burn::store::burn_pack::Tensor as StoredTensor;
use burn::store::pytorch_reader::{FileFormat, PytorchError, PytorchReader};
use burn::store::{ModuleStore, SafetensorsStore, bridge};

use crate::weights::WeightsError;
use crate::weights::error::one_line;

/// The weights of a run, in its output folder.
const OF_A_RUN: &str = "best.safetensors";

/// Where a checkpoint keeps its tensors, if they are not all that it holds; in this order.
const DICTIONARIES: [&str; 3] = ["state_dict", "model_state_dict", "model"];

/// What to do about a pickle that holds more than tensors.
const SAVE_AGAIN: &str = "a pickled module has to be saved again as tensors, where its code is: torch.save(model.state_dict(), \"weights.pth\")";

/// The longest header of a safetensors file that is read; DenseNet-201's has 0.1 MB.
const HEADER_LIMIT: u64 = 16 << 20;

/// The format of a file of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Safetensors.
    Safetensors,
    /// What `torch.save` writes since PyTorch 1.6: a zip archive around a pickle.
    PyTorchZip,
    /// What it wrote before, and writes with `_use_new_zipfile_serialization=False`: pickles in a row.
    PyTorchPickle,
    /// What it wrote before PyTorch 0.1.10: a tar archive.
    PyTorchTar,
}

impl Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Safetensors => "safetensors",
            Self::PyTorchZip => "PyTorch, zip archive",
            Self::PyTorchPickle => "PyTorch, pickle of before 1.6",
            Self::PyTorchTar => "PyTorch, tar archive of before 0.1.10",
        })
    }
}

/// A file with its tensors unread.
pub(super) struct TensorFile {
    pub(super) path: PathBuf,
    pub(super) format: Format,
    /// The dictionary of the file that holds the tensors, if they are not all that it holds.
    pub(super) dictionary: Option<&'static str>,
    /// First names of tensors beside that dictionary, such as `optimizer`.
    pub(super) left_out: BTreeSet<String>,
    /// By the keys of the file.
    pub(super) tensors: BTreeMap<String, StoredTensor>,
    /// Metadata of a safetensors file.
    pub(super) metadata: HashMap<String, String>,
}

impl TensorFile {
    /// Opens the file at `path`, or the best weights of the run in the folder `path`.
    pub(super) fn open(path: &Path) -> Result<Self, WeightsError> {
        let path = in_folder(path);
        let start = start(&path)?;
        match &start[..] {
            [] => Err(format_error(&path, "weights", "it is empty")),
            [0x89, b'H', b'D', b'F', ..] => Err(format_error(
                &path,
                "weights",
                "it is an HDF5 file: convert Keras' weights with scripts/keras_to_safetensors.py",
            )),
            [_, _, _, _, _, _, _, _, b'{'] => open_safetensors(path),
            _ if path.extension().is_some_and(|end| end == "safetensors") => open_safetensors(path),
            _ => open_pytorch(path),
        }
    }
}

/// The file of weights that `path` stands for.
pub(in crate::weights) fn in_folder(path: &Path) -> PathBuf {
    match path.is_dir() {
        true => path.join(OF_A_RUN),
        false => path.to_path_buf(),
    }
}

fn format_error(path: &Path, format: &'static str, reason: impl Display) -> WeightsError {
    WeightsError::Format {
        path: path.to_path_buf(),
        format,
        reason: one_line(&reason.to_string()),
    }
}

fn read_error(path: &Path, source: std::io::Error) -> WeightsError {
    WeightsError::Read {
        path: path.to_path_buf(),
        source,
    }
}

/// The first bytes of the file: as many as tell formats apart.
fn start(path: &Path) -> Result<Vec<u8>, WeightsError> {
    let file = File::open(path).map_err(|e| read_error(path, e))?;
    let mut start = Vec::new();
    file.take(9)
        .read_to_end(&mut start)
        .map_err(|e| read_error(path, e))?;
    Ok(start)
}

fn open_safetensors(path: PathBuf) -> Result<TensorFile, WeightsError> {
    // Refuses what is damaged before anything is mapped.
    let metadata = safetensors_metadata(&path)?;
    let mut store = SafetensorsStore::from_file(&path);
    let tensors = store
        .get_all_tensors()
        .map_err(|e| format_error(&path, "safetensors", e))?
        .clone();
    Ok(TensorFile {
        path,
        format: Format::Safetensors,
        dictionary: None,
        left_out: BTreeSet::new(),
        tensors,
        metadata,
    })
}

/// The metadata of a safetensors file, without its tensors.
pub(in crate::weights) fn safetensors_metadata(
    path: &Path,
) -> Result<HashMap<String, String>, WeightsError> {
    #[derive(serde::Deserialize)]
    struct Header {
        #[serde(rename = "__metadata__", default)]
        metadata: HashMap<String, String>,
    }
    let format = |reason: String| format_error(path, "safetensors", reason);
    let mut file = File::open(path).map_err(|e| read_error(path, e))?;
    let length = file.metadata().map_err(|e| read_error(path, e))?.len();
    let mut size = [0u8; 8];
    file.read_exact(&mut size)
        .map_err(|e| format(format!("it has no header ({e})")))?;
    let size = u64::from_le_bytes(size);
    if size > HEADER_LIMIT || size > length {
        return Err(format(format!("its header claims {size} bytes")));
    }
    let mut header = Vec::new();
    file.take(size)
        .read_to_end(&mut header)
        .map_err(|e| read_error(path, e))?;
    serde_json::from_slice::<Header>(&header)
        .map(|header| header.metadata)
        .map_err(|e| format(e.to_string()))
}

fn open_pytorch(path: PathBuf) -> Result<TensorFile, WeightsError> {
    let all = PytorchReader::new(&path).map_err(|error| pytorch_error(&path, error))?;
    let format = match all.metadata().format_type {
        FileFormat::Zip => Format::PyTorchZip,
        FileFormat::Legacy | FileFormat::Pickle => Format::PyTorchPickle,
        FileFormat::Tar => Format::PyTorchTar,
    };
    let first_names: BTreeSet<&str> = all
        .tensors()
        .keys()
        .filter_map(|key| key.split('.').next())
        .collect();
    for dictionary in DICTIONARIES {
        if !first_names.contains(dictionary) {
            continue;
        }
        // A state dict may also have keys that begin so: `model.features.conv0.weight`.
        let inner = match PytorchReader::with_top_level_key(&path, dictionary) {
            Ok(inner) => inner,
            Err(PytorchError::KeyNotFound(_)) => continue,
            Err(error) => return Err(pytorch_error(&path, error)),
        };
        let others = first_names.into_iter().filter(|name| *name != dictionary);
        return Ok(TensorFile {
            format,
            dictionary: Some(dictionary),
            left_out: others.map(str::to_string).collect(),
            tensors: stored(inner),
            metadata: HashMap::new(),
            path,
        });
    }
    Ok(TensorFile {
        format,
        dictionary: None,
        left_out: BTreeSet::new(),
        tensors: stored(all),
        metadata: HashMap::new(),
        path,
    })
}

fn stored(reader: PytorchReader) -> BTreeMap<String, StoredTensor> {
    let tensors = reader.into_tensors().into_iter();
    tensors
        .map(|(key, tensor)| (key, bridge::from_pytorch(tensor)))
        .collect()
}

fn pytorch_error(path: &Path, error: PytorchError) -> WeightsError {
    let format = "a PyTorch checkpoint";
    match error {
        PytorchError::Io(source) if source.raw_os_error().is_some() => read_error(path, source),
        // What is not understood may be code.
        PytorchError::Pickle(error) => format_error(path, format, format!("{error}; {SAVE_AGAIN}")),
        PytorchError::InvalidFormat(reason) => {
            format_error(path, format, format!("{reason}; {SAVE_AGAIN}"))
        }
        other => format_error(path, format, other),
    }
}
