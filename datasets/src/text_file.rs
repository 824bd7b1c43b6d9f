//! The text files of a folder, each read whole. It may not know what the text means.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::table_error::TableError;

/// The path of `name` in `folder`, if it is there.
pub(crate) fn existing(folder: &Path, name: &str) -> Option<PathBuf> {
    Some(folder.join(name)).filter(|path| path.exists())
}

/// The error that neither of the tables `names` of `data_set` is in `folder`.
pub(crate) fn no_table(
    folder: &Path,
    names: [&'static str; 2],
    data_set: &'static str,
) -> TableError {
    let folder = folder.to_owned();
    match std::fs::read_dir(&folder) {
        Ok(_) => TableError::NoTable {
            folder,
            names,
            data_set,
        },
        Err(source) => TableError::Read {
            path: folder,
            source,
        },
    }
}

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

/// `bytes` in UTF-8, without byte-order marks: files that were joined have theirs on later lines,
/// where no one sees them. `path` names the file in messages.
///
/// Refused are text of nothing but blanks, and lines that end with a carriage return alone, which
/// would be one line.
pub(crate) fn decode(path: &Path, bytes: Vec<u8>) -> Result<String, TableError> {
    let mut text = String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        TableError::NotUtf8 {
            path: path.to_owned(),
            row: line_after(valid),
        }
    })?;
    text.retain(|character| character != '\u{feff}');
    if text.trim().is_empty() {
        return Err(TableError::Empty {
            path: path.to_owned(),
        });
    }
    if let Some(end) = lone_carriage_return(&text) {
        return Err(TableError::CarriageReturn {
            path: path.to_owned(),
            row: line_after(&text.as_bytes()[..end]),
        });
    }
    Ok(text)
}

/// The line, counted from 1, on which what follows `bytes` stands.
fn line_after(bytes: &[u8]) -> u64 {
    1 + bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// Where text goes on after carriage returns without a line feed. Several before one line feed are
/// one line end: text-mode files on Windows turn CR LF into CR CR LF.
fn lone_carriage_return(text: &str) -> Option<usize> {
    let ends = text.match_indices('\r').map(|(start, _)| start + 1);
    let mut ends = ends.filter(|end| !text[*end..].is_empty());
    ends.find(|end| !text[*end..].starts_with(['\r', '\n']))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    fn message(bytes: &[u8]) -> String {
        let error = decode(Path::new("t.csv"), bytes.to_vec()).unwrap_err();
        error.to_string()
    }

    #[test]
    fn byte_order_marks_do_not_count() {
        let joined = "\u{feff}a.png\n\u{feff}b.png\n".as_bytes().to_vec();
        let text = decode(Path::new("l.txt"), joined).unwrap();
        assert_eq!(text, "a.png\nb.png\n");
        assert_eq!(
            message("\u{feff}\n".as_bytes()),
            "t.csv: the file is empty: download or write it again"
        );
    }

    #[test]
    fn a_carriage_return_alone_ends_no_line() {
        assert_eq!(
            message(b"image,patient,Mass\ra,1,0\rb,2,1\r"),
            "t.csv, row 1: the line ends with a carriage return alone: save the file with the line \
             ends LF or CRLF"
        );
        assert!(message(b"a.png\r\nb.png\rc.png\n").starts_with("t.csv, row 2: "));
        for fine in ["a\r\nb\r\n", "a\r\r\nb\r\r\n", "a\nb\r"] {
            let text = decode(Path::new("t.csv"), fine.as_bytes().to_vec());
            assert_eq!(text.unwrap(), fine);
        }
    }
}
