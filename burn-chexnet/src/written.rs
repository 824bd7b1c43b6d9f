//! Files that are there whole or not at all.

use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Writes beside `path`, then renames.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".tmp");
    let written = File::create(&aside)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .and_then(|()| std::fs::rename(&aside, path));
    if written.is_err() {
        // What is left of it helps nobody; the first error is the one to report.
        let _ = std::fs::remove_file(&aside);
    }
    written
}
