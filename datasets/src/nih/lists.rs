//! `train_val_list.txt` and `test_list.txt`: one image name a line.

use std::path::{Path, PathBuf};

use crate::table_error::TableError;
use crate::text_file::{self, existing};

const TRAIN_VAL: &str = "train_val_list.txt";
const TEST: &str = "test_list.txt";

/// NIH's official lists of image names, in the order of the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfficialLists {
    /// Images to train and validate with.
    pub train_val: ImageList,
    /// Images to test with.
    pub test: ImageList,
}

/// The image names of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageList {
    /// The file, for messages.
    pub path: PathBuf,
    /// The names.
    pub images: Vec<String>,
}

impl OfficialLists {
    /// Reads the two lists in `folder`; `None` if neither is there.
    pub(super) fn find(folder: &Path) -> Result<Option<Self>, TableError> {
        let partner = |name: &str, present| TableError::MissingPartner {
            path: folder.join(name),
            present,
        };
        match (existing(folder, TRAIN_VAL), existing(folder, TEST)) {
            (None, None) => Ok(None),
            (Some(present), None) => Err(partner(TEST, present)),
            (None, Some(present)) => Err(partner(TRAIN_VAL, present)),
            (Some(train_val), Some(test)) => Ok(Some(Self {
                train_val: ImageList::open(train_val)?,
                test: ImageList::open(test)?,
            })),
        }
    }
}

impl ImageList {
    /// Reads a text file with one image name a line. Blanks around names and blank lines do not
    /// count.
    ///
    /// # Errors
    ///
    /// The file cannot be read, names no image or is not UTF-8.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, TableError> {
        let path = path.into();
        let text = text_file::read(&path)?;
        Ok(Self::parse(path, &text))
    }

    fn parse(path: PathBuf, text: &str) -> Self {
        let names = text.lines().map(str::trim);
        Self {
            path,
            images: names
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect(),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    fn parse(bytes: &[u8]) -> Result<Vec<String>, String> {
        let text = text_file::decode(Path::new("l.txt"), bytes.to_vec());
        let text = text.map_err(|error| error.to_string())?;
        Ok(ImageList::parse("l.txt".into(), &text).images)
    }

    #[test]
    fn line_ends_and_blank_lines_do_not_count() {
        assert_eq!(
            parse(b"\xef\xbb\xbfa.png\r\n\r\n b.png \n\nc.png").unwrap(),
            ["a.png", "b.png", "c.png"]
        );
    }

    #[test]
    fn a_list_without_names_is_refused() {
        assert_eq!(
            parse(b" \r\n\n").unwrap_err(),
            "l.txt: the file is empty: download or write it again"
        );
        assert_eq!(
            parse(b"a.png\n\xff\n").unwrap_err(),
            "l.txt, row 2: this is not UTF-8: save the file as UTF-8 text"
        );
    }

    #[test]
    fn a_folder_has_both_lists_or_neither() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(OfficialLists::find(folder.path()).unwrap(), None);
        fs::write(folder.path().join(TEST), "a.png").unwrap();
        let place = folder.path().display();
        assert_eq!(
            OfficialLists::find(folder.path()).unwrap_err().to_string(),
            format!(
                "{place}/train_val_list.txt: the file is missing beside {place}/test_list.txt: \
                 the two belong together"
            )
        );
        fs::create_dir(folder.path().join(TRAIN_VAL)).unwrap();
        assert_eq!(
            OfficialLists::find(folder.path()).unwrap_err().to_string(),
            format!("{place}/train_val_list.txt: this is a folder: name the file itself")
        );
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            if let Ok(names) = parse(&bytes) {
                prop_assert!(names.iter().all(|name| !name.trim().is_empty()));
            }
        }
    }
}
