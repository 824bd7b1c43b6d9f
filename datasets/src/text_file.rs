//! A text file read whole. It may not know what the text means.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::table_error::TableError;

/// Reads the file at `path`: see [`decode`].
pub(crate) fn read(path: &Path) -> Result<String, TableError> {
    let refuse = |source| TableError::Read {
        path: path.to_owned(),
        source,
    };
    let mut file = File::open(path).map_err(refuse)?;
    if file.metadata().map_err(refuse)?.is_dir() {
        return Err(TableError::Folder {
            path: path.to_owned(),
        });
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(refuse)?;
    decode(path, bytes)
}

/// `bytes` in UTF-8, without a byte-order mark; text of nothing but blanks is refused. `path` names
/// the file in messages.
pub(crate) fn decode(path: &Path, bytes: Vec<u8>) -> Result<String, TableError> {
    let mut text = String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        TableError::NotUtf8 {
            path: path.to_owned(),
            row: 1 + valid.iter().filter(|byte| **byte == b'\n').count() as u64,
        }
    })?;
    if text.starts_with('\u{feff}') {
        text.remove(0);
    }
    if text.trim().is_empty() {
        return Err(TableError::Empty {
            path: path.to_owned(),
        });
    }
    Ok(text)
}
