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
use burn::store::pytorch_reader::{
    FileFormat, PickleError, PickleValue, PytorchError, PytorchReader,
};
use burn::store::{ModuleStore, SafetensorsStore, bridge};
use zip::ZipArchive;
use zip::result::ZipError;

use super::pickle_size::{self, Refusal};
use crate::weights::WeightsError;
use crate::weights::error::one_line;

/// The weights of a run, in its output folder.
const OF_A_RUN: &str = "best.safetensors";

/// Where a checkpoint keeps its tensors, if they are not all that it holds; in this order.
const DICTIONARIES: [&str; 3] = ["state_dict", "model_state_dict", "model"];

/// What to do about a pickle that holds more than tensors.
const SAVE_AGAIN: &str = "it is a whole pickled module, whose class is not run: save its tensors where that class is, torch.save(model.state_dict(), \"weights.pth\")";

/// What to do about a file that is not whole.
const FETCH_AGAIN: &str = "it ends early or is damaged: copy or download it again";

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
}

impl Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Safetensors => "safetensors",
            Self::PyTorchZip => "PyTorch, zip archive",
            Self::PyTorchPickle => "PyTorch, pickle of before 1.6",
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

/// Opens a regular file: a pipe would be waited for, and cannot be read from its end.
fn opened(path: &Path) -> Result<File, WeightsError> {
    match path.metadata().map_err(|e| read_error(path, e))?.is_file() {
        true => File::open(path).map_err(|e| read_error(path, e)),
        false => Err(format_error(path, "weights", "it is no regular file")),
    }
}

/// The first bytes of the file: as many as tell formats apart.
fn start(path: &Path) -> Result<Vec<u8>, WeightsError> {
    let mut start = Vec::new();
    opened(path)?
        .take(9)
        .read_to_end(&mut start)
        .map_err(|e| read_error(path, e))?;
    Ok(start)
}

fn open_safetensors(path: PathBuf) -> Result<TensorFile, WeightsError> {
    let metadata = safetensors_metadata(&path)?;
    let mut store = SafetensorsStore::from_bytes(Some(whole(&path)?));
    let tensors = store
        .get_all_tensors()
        .map_err(|error| {
            let text = error.to_string();
            let reason = match text.contains("Unsupported dtype") {
                true => text,
                false => format!("{FETCH_AGAIN} ({text})"),
            };
            format_error(&path, "safetensors", reason)
        })?
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

/// The largest safetensors file that is read; DenseNet-201 in double precision has 150 MB.
const FILE_LIMIT: u64 = 4 << 30;

/// All of a file. A map of it would cost the process its life if another shortened the file.
pub(in crate::weights) fn whole(path: &Path) -> Result<Vec<u8>, WeightsError> {
    let mut bytes = Vec::new();
    opened(path)?
        .take(FILE_LIMIT + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| read_error(path, e))?;
    match bytes.len() as u64 > FILE_LIMIT {
        true => Err(format_error(path, "weights", "it has more than 4 GiB")),
        false => Ok(bytes),
    }
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
    let mut file = opened(path)?;
    let length = file.metadata().map_err(|e| read_error(path, e))?.len();
    let mut size = [0u8; 8];
    file.read_exact(&mut size)
        .map_err(|e| format(format!("it has no header ({e})")))?;
    let size = u64::from_le_bytes(size);
    if size > HEADER_LIMIT || size > length {
        return Err(format(format!(
            "its header claims {size} bytes, so it is none, or {FETCH_AGAIN}"
        )));
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
    ensure_bounded(&path)?;
    let all = PytorchReader::new(&path).map_err(|error| pytorch_error(&path, error))?;
    let format = match all.metadata().format_type {
        FileFormat::Zip => Format::PyTorchZip,
        FileFormat::Legacy | FileFormat::Pickle | FileFormat::Tar => Format::PyTorchPickle,
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
            tensors: stored(&path, Some(dictionary), inner)?,
            metadata: HashMap::new(),
            path,
        });
    }
    Ok(TensorFile {
        format,
        dictionary: None,
        left_out: BTreeSet::new(),
        tensors: stored(&path, None, all)?,
        metadata: HashMap::new(),
        path,
    })
}

fn stored(
    path: &Path,
    dictionary: Option<&str>,
    reader: PytorchReader,
) -> Result<BTreeMap<String, StoredTensor>, WeightsError> {
    let tensors = reader.into_tensors();
    // `{"a": {"b": x}, "a.b": y}`: the reader would keep either.
    let pickle = PytorchReader::read_pickle_data(path, dictionary);
    let pickle = pickle.map_err(|error| pytorch_error(path, error))?;
    if tensors_in(&pickle) != tensors.len() {
        return Err(WeightsError::keys(
            path,
            "two of its tensors have the same name",
        ));
    }
    let tensors = tensors.into_iter();
    Ok(tensors
        .map(|(key, tensor)| (key, bridge::from_pytorch(tensor)))
        .collect())
}

/// The tensors in the dictionaries of a pickle.
fn tensors_in(pickle: &PickleValue) -> usize {
    match pickle {
        PickleValue::Dict(entries) => entries.values().map(tensors_in).sum(),
        PickleValue::Unsupported(kind) => usize::from(kind == "torch.Tensor"),
        _ => 0,
    }
}

/// The longest pickle that is read, in bytes; that of DenseNet-201 with the state of an optimiser has
/// 0.6 MB.
const PICKLE_LIMIT: u64 = 8 << 20;

/// Pickles in a row that `torch.save` wrote before 1.6, before the values.
const PICKLES: usize = 5;

/// Refuses what would take far more memory than the file has bytes, and what holds more than tensors.
fn ensure_bounded(path: &Path) -> Result<(), WeightsError> {
    let mut file = opened(path)?;
    let mut start = Vec::new();
    Read::by_ref(&mut file)
        .take(PICKLE_LIMIT)
        .read_to_end(&mut start)
        .map_err(|e| read_error(path, e))?;
    if start.starts_with(b"PK") {
        return ensure_bounded_archive(path, file);
    }
    if start.get(257..262) == Some(b"ustar") {
        return Err(pickle_error(
            path,
            "it is a tar archive of before PyTorch 0.1.10: load it there and save its tensors",
        ));
    }
    if !matches!(start.first(), Some(0x80 | b'(' | b'}' | b']' | b'c' | b'L')) {
        return Err(pickle_error(
            path,
            "it is neither that nor a safetensors file",
        ));
    }
    let mut rest = &start[..];
    for _ in 0..PICKLES {
        if !rest.is_empty() {
            let length = pickle_size::measure(rest).map_err(|refusal| refused(path, refusal))?;
            rest = &rest[length..];
        }
    }
    Ok(())
}

/// The same for a zip archive.
fn ensure_bounded_archive(path: &Path, file: File) -> Result<(), WeightsError> {
    let length = file.metadata().map_err(|e| read_error(path, e))?.len();
    let damaged = |error: ZipError| pickle_error(path, format!("{FETCH_AGAIN} ({error})"));
    let mut archive = ZipArchive::new(file).map_err(damaged)?;
    // PyTorch does not compress; who has done it since may have saved a part.
    let mut left = 4 * length + PICKLE_LIMIT;
    for index in 0..archive.len() {
        let entry = archive.by_index(index).map_err(damaged)?;
        let Some(rest) = left.checked_sub(entry.size()) else {
            return Err(refused(path, Refusal::Large));
        };
        left = rest;
        if entry.name().is_ok_and(|name| name.ends_with(".pkl")) {
            if entry.size() > PICKLE_LIMIT {
                return Err(refused(path, Refusal::Large));
            }
            let mut pickle = Vec::new();
            entry
                .take(PICKLE_LIMIT)
                .read_to_end(&mut pickle)
                .map_err(|e| pickle_error(path, format!("{FETCH_AGAIN} ({e})")))?;
            pickle_size::measure(&pickle).map_err(|refusal| refused(path, refusal))?;
        }
    }
    Ok(())
}

fn pickle_error(path: &Path, reason: impl Display) -> WeightsError {
    format_error(path, "a PyTorch checkpoint", reason)
}

fn refused(path: &Path, refusal: Refusal) -> WeightsError {
    match refusal {
        Refusal::Module => pickle_error(path, SAVE_AGAIN),
        Refusal::Large => pickle_error(path, "it would take far more memory than it has bytes"),
        Refusal::Damaged => pickle_error(path, FETCH_AGAIN),
    }
}

fn pytorch_error(path: &Path, error: PytorchError) -> WeightsError {
    let text = error.to_string();
    match error {
        PytorchError::Io(source) if source.raw_os_error().is_some() => read_error(path, source),
        PytorchError::Zip(_) | PytorchError::Io(_) | PytorchError::Pickle(PickleError::Io(_)) => {
            pickle_error(path, format!("{FETCH_AGAIN} ({text})"))
        }
        _ if text.contains("beyond the end of the file") => {
            pickle_error(path, format!("{FETCH_AGAIN} ({text})"))
        }
        _ if text.contains("No data.pkl") => {
            pickle_error(path, "it is another kind of zip archive")
        }
        _ => pickle_error(path, text),
    }
}
