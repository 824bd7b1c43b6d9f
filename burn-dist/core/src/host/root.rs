//! The files that facts are read from: those of this process, or of a folder that a test fills.

use std::path::PathBuf;

/// The folder that stands for `/`.
pub(super) struct Root(PathBuf);

impl Root {
    /// That of this process.
    pub(super) fn of_process() -> Self {
        Self("/".into())
    }

    /// Where `path`, from `/`, lies.
    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    /// The text of a file, as far as it is one.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        let bytes = std::fs::read(self.at(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// What a symbolic link says.
    pub(super) fn link(&self, path: &str) -> Option<String> {
        let target = std::fs::read_link(self.at(path)).ok()?;
        Some(target.to_string_lossy().into_owned())
    }

    /// Whether there is anything at `path`.
    pub(super) fn has(&self, path: &str) -> bool {
        self.at(path).symlink_metadata().is_ok()
    }
}

/// The value of a line `NAME:\tVALUE` of `/proc/self/status`.
pub(super) fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = status.lines();
    lines.find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
}

/// A root with these files, each a path and its text, for as long as the folder is held.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) fn folder(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
    let folder = tempfile::tempdir().unwrap();
    let root = Root(folder.path().into());
    for (path, text) in files {
        let file = root.at(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    (folder, root)
}
