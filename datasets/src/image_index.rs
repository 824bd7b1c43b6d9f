//! Where image files lie below a folder. It may not depend on tables.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use thiserror::Error;
use walkdir::WalkDir;

/// What can be wrong with a folder of images.
#[derive(Debug, Error)]
pub enum ImageIndexError {
    /// The folder cannot be read.
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
/// assert_eq!(index.find("images/1.png")?, Some(path));
/// assert_eq!(index.find("images_002/1.png")?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct ImageIndex {
    folder: PathBuf,
    /// File name to the files that have it, sorted by path.
    files: HashMap<String, Vec<PathBuf>>,
    unreadable: Vec<String>,
}

impl ImageIndex {
    /// Lists every file below `folder`, links followed. What cannot be read below it is passed over
    /// and kept in [`unreadable`](Self::unreadable): it need not hold an image that is in use.
    ///
    /// # Errors
    ///
    /// The folder is none, or cannot be read.
    pub fn scan(folder: impl AsRef<Path>) -> Result<Self, ImageIndexError> {
        let folder = folder.as_ref().to_owned();
        // Absolute, so that a name may begin with the folder's own name.
        let root = folder.canonicalize().unwrap_or_else(|_| folder.clone());
        let mut files: HashMap<String, Vec<PathBuf>> = HashMap::new();
        let mut unreadable = Vec::new();
        for entry in WalkDir::new(root).follow_links(true).sort_by_file_name() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(source) if source.depth() == 0 => {
                    return Err(ImageIndexError::Scan { folder, source });
                }
                Err(error) => {
                    unreadable.push(error.to_string());
                    continue;
                }
            };
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
        Ok(Self {
            folder,
            files,
            unreadable,
        })
    }

    /// The folder that was scanned.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What could not be read below the folder, and why.
    pub fn unreadable(&self) -> &[String] {
        &self.unreadable
    }

    /// The file called `name`; `None` if there is none.
    ///
    /// A name with folders, such as `patient00001/study1/view1_frontal.jpg`, is a file whose path
    /// ends with all of it: many patients have a `view1_frontal.jpg`.
    ///
    /// # Errors
    ///
    /// [`ImageIndexError::Ambiguous`] if two files answer to the name.
    pub fn find(&self, name: &str) -> Result<Option<&Path>, ImageIndexError> {
        let wanted: PathBuf = Path::new(name)
            .components()
            .filter(|part| *part != Component::CurDir)
            .collect();
        let Some(file_name) = wanted.file_name().and_then(|name| name.to_str()) else {
            return Ok(None);
        };
        let all = self.files.get(file_name).into_iter().flatten();
        let mut found = all.filter(|path| path.ends_with(&wanted));
        match (found.next(), found.next()) {
            (Some(first), Some(second)) => Err(ImageIndexError::Ambiguous {
                name: name.to_owned(),
                first: first.clone(),
                second: second.clone(),
            }),
            (first, _) => Ok(first.map(PathBuf::as_path)),
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

    #[test]
    fn a_name_with_folders_is_never_another_patients_file() {
        let folder = tempfile::tempdir().unwrap();
        for patient in ["p1", "p2"] {
            fs::create_dir_all(folder.path().join(patient)).unwrap();
            fs::write(folder.path().join(patient).join("view.png"), "").unwrap();
        }
        let index = ImageIndex::scan(folder.path()).unwrap();
        let path = folder.path().join("p2/view.png");
        assert_eq!(index.find("p2/view.png").unwrap(), Some(&*path));
        assert_eq!(index.find("./p2/./view.png").unwrap(), Some(&*path));
        let own = folder.path().file_name().unwrap().to_str().unwrap();
        let name = format!("{own}/p2/view.png");
        assert_eq!(index.find(&name).unwrap(), Some(&*path));
        assert_eq!(index.find("p3/view.png").unwrap(), None);
        assert_eq!(index.find("2/view.png").unwrap(), None);
        assert_eq!(index.find("p1/../p2/view.png").unwrap(), None);
        assert!(index.find("view.png").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_what_cannot_be_read_is_passed_over() {
        use std::os::unix::fs::symlink;

        let [folder, elsewhere] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        fs::write(elsewhere.path().join("a.png"), "").unwrap();
        symlink(elsewhere.path(), folder.path().join("images")).unwrap();
        symlink(folder.path(), folder.path().join("loop")).unwrap();
        symlink("/nowhere", folder.path().join("dangling")).unwrap();
        let index = ImageIndex::scan(folder.path()).unwrap();
        let path = folder.path().join("images/a.png");
        assert_eq!(index.find("a.png").unwrap(), Some(&*path));
        assert_eq!(index.unreadable().len(), 2, "{:?}", index.unreadable());
    }
}
