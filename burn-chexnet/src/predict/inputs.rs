//! The images among files and folders.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use super::PredictError;

/// Endings of images in a folder; a file that is named itself may end in anything.
const ENDINGS: &[&str] = &[
    "png",
    "jpg",
    "jpeg",
    #[cfg(feature = "dicom")]
    "dcm",
];

/// An image to predict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageFile {
    /// Where it lies.
    pub path: PathBuf,
    /// The path as it was named, with the way below a folder: what identifies the image in the
    /// output.
    pub name: String,
    /// A file name for what is made of it: the way below its folder, without the ending.
    pub stem: String,
}

/// Images, and how many other files lie among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageFiles {
    /// In the order in which they were named, those of a folder by path.
    pub files: Vec<ImageFile>,
    /// Other files in the folders, which are left out.
    pub others: usize,
}

impl ImageFiles {
    /// The files among `inputs`, and the PNG and JPEG files below the folders among them; one that
    /// is named twice counts once.
    ///
    /// # Errors
    ///
    /// If an input is not there or cannot be read, or there is no image.
    pub fn find<P: AsRef<Path>>(inputs: &[P]) -> Result<Self, PredictError> {
        let mut found = Self {
            files: Vec::new(),
            others: 0,
        };
        let mut seen = HashSet::new();
        for input in inputs {
            let input = input.as_ref();
            let refuse = |reason: String| PredictError::Input {
                path: input.to_path_buf(),
                reason,
            };
            let metadata = std::fs::metadata(input).map_err(|error| refuse(error.to_string()))?;
            if metadata.is_file() {
                let stem = input.file_name().map(Path::new).unwrap_or(input);
                found.push(input, stem, &mut seen);
                continue;
            }
            if !metadata.is_dir() {
                return Err(refuse("this is neither a file nor a folder".to_string()));
            }
            for entry in WalkDir::new(input).follow_links(true).sort_by_file_name() {
                let entry = match entry {
                    Ok(entry) => entry,
                    // The folder itself; of what lies in it a dead link is just no image.
                    Err(error) if error.depth() == 0 => return Err(refuse(error.to_string())),
                    Err(_) => {
                        found.others += 1;
                        continue;
                    }
                };
                if entry.file_type().is_dir() {
                    continue;
                }
                let path = entry.path();
                match entry.file_type().is_file() && is_image(path) {
                    true => {
                        let below = path.strip_prefix(input).unwrap_or(path);
                        found.push(path, below, &mut seen);
                    }
                    false => found.others += 1,
                }
            }
        }
        match found.files.is_empty() {
            false => Ok(found),
            true => Err(PredictError::NoImages {
                folders: inputs
                    .iter()
                    .map(|input| input.as_ref().display().to_string())
                    .collect(),
            }),
        }
    }

    fn push(&mut self, path: &Path, below: &Path, seen: &mut HashSet<PathBuf>) {
        if !seen.insert(path.canonicalize().unwrap_or_else(|_| path.to_path_buf())) {
            return;
        }
        let parts: Vec<_> = below
            .with_extension("")
            .iter()
            .map(|part| part.to_string_lossy().into_owned())
            .collect();
        self.files.push(ImageFile {
            path: path.to_path_buf(),
            name: path.display().to_string(),
            stem: parts.join("_"),
        });
    }
}

fn is_image(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| ENDINGS.contains(&ending.to_ascii_lowercase().as_str()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use super::*;

    #[test]
    fn images_are_found_by_ending_and_named_by_their_way() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("scans/anna/first")).unwrap();
        for name in [
            "scans/b.PNG",
            "scans/a.jpeg",
            "scans/notes.txt",
            "scans/anna/first/view.jpg",
            "scans/Thumbs.db",
            "named.scan",
        ] {
            fs::write(root.join(name), "").unwrap();
        }
        let inputs = [
            root.join("named.scan"),
            root.join("scans"),
            root.join("scans/a.jpeg"),
        ];
        let found = ImageFiles::find(&inputs).unwrap();
        let stems: Vec<&str> = found.files.iter().map(|file| file.stem.as_str()).collect();
        assert_eq!(stems, ["named", "a", "anna_first_view", "b"]);
        assert_eq!(found.others, 2);
        let name = root.join("scans/anna/first/view.jpg");
        assert_eq!(found.files[2].name, name.display().to_string());
    }

    /// A pipe would be waited for without end.
    #[cfg(unix)]
    #[test]
    fn links_to_nowhere_and_pipes_are_no_images() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::write(root.join("a.png"), "").unwrap();
        symlink(root.join("nowhere"), root.join("dead.png")).unwrap();
        symlink(root, root.join("loop")).unwrap();
        let pipe = root.join("pipe.png");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let found = ImageFiles::find(&[root]).unwrap();
        assert_eq!((found.files.len(), found.others), (1, 3));
        let error = ImageFiles::find(&[&pipe]).unwrap_err().to_string();
        assert!(error.contains("neither a file nor a folder"), "{error}");
    }

    #[test]
    fn nothing_to_predict_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("notes.txt"), "").unwrap();
        let error = ImageFiles::find(&[folder.path()]).unwrap_err().to_string();
        assert!(error.starts_with("no PNG or JPEG in "), "{error}");
        let missing = folder.path().join("missing.png");
        let error = ImageFiles::find(&[&missing]).unwrap_err().to_string();
        assert!(error.contains("missing.png: No such file"), "{error}");
    }
}
