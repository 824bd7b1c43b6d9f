//! The file `checksums` of a snapshot: SipHash-2-4 with 128 bits, length and name of each file, a
//! line each, then the hash of these lines. Against damage, not against forgery.

use std::fmt::Write;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use siphasher::sip128::SipHasher24;

use super::{SnapshotError, damaged};

/// Its name.
pub(super) const NAME: &str = "checksums";

fn hash(bytes: &[u8]) -> String {
    let hash = SipHasher24::new().hash(bytes);
    format!("{:016x}{:016x}", hash.h1, hash.h2)
}

/// The content of the file for `files`, name and content each.
pub(super) fn of(files: &[(String, &[u8])]) -> String {
    let mut lines = String::new();
    for (name, bytes) in files {
        // Writing into a string cannot fail.
        let _ = writeln!(lines, "{} {} {name}", hash(bytes), bytes.len());
    }
    let last = hash(lines.as_bytes());
    lines + &last + "\n"
}

/// Reads the files `names` of the snapshot at `path`, if they are those it was written with.
pub(super) fn read(path: &Path, names: &[String]) -> Result<Vec<Vec<u8>>, SnapshotError> {
    let file = |name: &str| {
        fs::read(path.join(name)).map_err(|source| match source.kind() {
            ErrorKind::NotFound | ErrorKind::IsADirectory => {
                damaged(path, format!("{name}: {source}"))
            }
            // No permission, a drive that is gone: it may be whole, and must not be replaced.
            _ => SnapshotError::Folder {
                path: path.join(name),
                source,
            },
        })
    };
    let text =
        String::from_utf8(file(NAME)?).map_err(|_| damaged(path, format!("{NAME} is no text")))?;
    let lines = text.trim_end_matches('\n');
    let (lines, last) = lines.rsplit_once('\n').unwrap_or_default();
    if hash(format!("{lines}\n").as_bytes()) != last {
        return Err(damaged(path, format!("{NAME} is not as it was written")));
    }
    let content = |name: &String| {
        let content = file(name)?;
        let line = format!("{} {} {name}", hash(&content), content.len());
        match lines.lines().any(|known| known == line) {
            true => Ok(content),
            false => Err(damaged(path, format!("{name} is not as it was written"))),
        }
    };
    names.iter().map(content).collect()
}
