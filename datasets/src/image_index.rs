//! Where image files lie below a folder. It may not depend on tables.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use thiserror::Error;
use walkdir::WalkDir;

/// What can be wrong with a folder of images.
#[derive(Debug, Error)]
pub enum ImageIndexError {
    /// The folder, or one below it, cannot be read.
    #[error("{}: the folder of images cannot be read: {source}", folder.display())]
    Scan {
        /// The folder.
        folder: PathBuf,
        /// Why, with the path where it differs.
        source: walkdir::Error,
    },
    /// The folder is a file.
    #[error("{}: this is not a folder: name the folder of the images", folder.display())]
    NotAFolder {
        /// The path.
        folder: PathBuf,
    },
    /// Two files have one name.
    #[error("the image {name:?} is there twice, as {} and as {}: remove one, or name a folder with one of them", first.display(), second.display())]
    Ambiguous {
        /// The file name.
        name: String,
        /// The first file.
        first: PathBuf,
        /// The second file.
        second: PathBuf,
    },
}

/// The files below a folder, by their names.
///
/// One scan finds NIH's `images_001/images` to `images_012/images`, one `images` folder, and a flat
/// folder alike.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # std::fs::create_dir_all(folder.path().join("images_001/images"))?;
/// # std::fs::write(folder.path().join("images_001/images/1.png"), "")?;
/// use chest_datasets::ImageIndex;
///
/// let index = ImageIndex::scan(folder.path())?;
/// let path = index.find("1.png")?.expect("the image is there");
/// assert!(path.ends_with("images_001/images/1.png"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct ImageIndex {
    folder: PathBuf,
    /// File name to the files that have it, sorted by path.
    files: HashMap<String, Vec<PathBuf>>,
}

impl ImageIndex {
    /// Lists every file below `folder`, links followed.
    ///
    /// # Errors
    ///
    /// The folder is none, or it or a folder below it cannot be read.
    pub fn scan(folder: impl AsRef<Path>) -> Result<Self, ImageIndexError> {
        let folder = folder.as_ref().to_owned();
        let mut files: HashMap<String, Vec<PathBuf>> = HashMap::new();
        for entry in WalkDir::new(&folder).follow_links(true).sort_by_file_name() {
            let entry = entry.map_err(|source| ImageIndexError::Scan {
                folder: folder.clone(),
                source,
            })?;
            if entry.depth() == 0 && !entry.file_type().is_dir() {
                return Err(ImageIndexError::NotAFolder { folder });
            }
            // A name that is not UTF-8 cannot stand in a table.
            if let (true, Some(name)) = (entry.file_type().is_file(), entry.file_name().to_str()) {
                files
                    .entry(name.to_owned())
                    .or_default()
                    .push(entry.into_path());
            }
        }
        Ok(Self { folder, files })
    }

    /// The folder that was scanned.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file called `name`; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`ImageIndexError::Ambiguous`] if two folders have a file of this name.
    pub fn find(&self, name: &str) -> Result<Option<&Path>, ImageIndexError> {
        match self.files.get(name).map(Vec::as_slice) {
            None | Some([]) => Ok(None),
            Some([path]) => Ok(Some(path)),
            Some([first, second, ..]) => Err(ImageIndexError::Ambiguous {
                name: name.to_owned(),
                first: first.clone(),
                second: second.clone(),
            }),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_files_are_found_by_their_whole_name() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("images/b.png")).unwrap();
        fs::write(folder.path().join("images/a.png"), "").unwrap();
        let index = ImageIndex::scan(folder.path()).unwrap();
        assert_eq!(index.folder(), folder.path());
        let path = folder.path().join("images/a.png");
        assert_eq!(index.find("a.png").unwrap(), Some(&*path));
        assert_eq!(index.find("b.png").unwrap(), None);
        assert_eq!(index.find("A.png").unwrap(), None);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_a_loop_of_them_is_refused() {
        use std::os::unix::fs::symlink;

        let [folder, elsewhere] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        fs::write(elsewhere.path().join("a.png"), "").unwrap();
        symlink(elsewhere.path(), folder.path().join("images")).unwrap();
        let index = ImageIndex::scan(folder.path()).unwrap();
        let path = folder.path().join("images/a.png");
        assert_eq!(index.find("a.png").unwrap(), Some(&*path));

        symlink(folder.path(), folder.path().join("loop")).unwrap();
        let error = ImageIndex::scan(folder.path()).unwrap_err().to_string();
        assert!(error.contains("File system loop found"), "{error}");
    }
}
