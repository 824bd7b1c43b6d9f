//! Where the images of a data set lie: a table joined with a folder. It may not decode, nor know of
//! batches.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use crate::dataset::Dataset;
use crate::image_index::{ImageIndex, ImageIndexError};
use crate::place::Place;

/// Why the images of a data set cannot be found.
#[derive(Debug, Error)]
pub enum SourceError {
    /// The folder cannot be scanned, or a used image lies in it twice.
    #[error(transparent)]
    Index(#[from] ImageIndexError),
    /// Images that are listed and used are not there.
    #[error("the image {image:?} ({place}) is nowhere below {}; {missing} of the {used} images in use are missing{unreadable}: name the folder that has them, or leave them out of the split", folder.display())]
    MissingImages {
        /// The first image that is missing.
        image: String,
        /// Its row.
        place: Place,
        /// The folder that was searched.
        folder: PathBuf,
        /// The number of missing images.
        missing: usize,
        /// The number of images in use.
        used: usize,
        /// What could not be read below the folder; empty if nothing.
        unreadable: String,
    },
    /// Two records name one file, so that an image could be on two sides of a split.
    #[error("{first:?} ({}) and {second:?} ({}) are one file, {}: remove one of the rows", places[0], places[1], path.display())]
    SameFile {
        /// The first image.
        first: String,
        /// The second image.
        second: String,
        /// Their rows.
        places: Box<[Place; 2]>,
        /// The file.
        path: PathBuf,
    },
}

/// A data set and the files of those of its images that are in use.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # std::fs::create_dir(folder.path().join("images"))?;
/// # std::fs::write(folder.path().join("images/1.png"), "")?;
/// # let path = folder.path().join("table.csv");
/// # std::fs::write(&path, "image,patient,Mass\n1.png,1,0\n2.png,1,0\n")?;
/// use std::sync::Arc;
/// use chest_datasets::{Dataset, ImageSource};
///
/// let dataset = Arc::new(Dataset::from_csv(&path, None)?);
/// let source = ImageSource::new(dataset.clone(), folder.path(), &[0])?;
/// assert!(source.path(0).is_some_and(|path| path.ends_with("images/1.png")));
/// assert_eq!(source.path(1), None); // It is not in use.
/// assert!(ImageSource::new(dataset, folder.path(), &[0, 1]).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct ImageSource {
    dataset: Arc<Dataset>,
    /// One for each record; `None` where the record is not in use.
    paths: Vec<Option<PathBuf>>,
}

impl ImageSource {
    /// Finds the images of the records `used` below `folder`, in one scan.
    ///
    /// An image is found by its name as [`ImageIndex::find`] does.
    ///
    /// # Errors
    ///
    /// A folder that cannot be read; an image in use that is not there, or there twice; one file
    /// that two records in use name.
    ///
    /// # Panics
    ///
    /// If an index in `used` is not one of `dataset`.
    pub fn new(
        dataset: Arc<Dataset>,
        folder: impl AsRef<Path>,
        used: &[usize],
    ) -> Result<Self, SourceError> {
        let images = ImageIndex::scan(folder)?;
        let records = dataset.records();
        let mut paths: Vec<Option<PathBuf>> = vec![None; dataset.len()];
        let mut users: HashMap<PathBuf, usize> = HashMap::new();
        let mut missing = Vec::new();
        for &index in used {
            let Some(path) = images.find(&records[index].image)? else {
                missing.push(index);
                continue;
            };
            let first = *users.entry(path.to_owned()).or_insert(index);
            if first != index {
                return Err(SourceError::SameFile {
                    first: records[first].image.clone(),
                    second: records[index].image.clone(),
                    places: Box::new([dataset.place(first), dataset.place(index)]),
                    path: path.to_owned(),
                });
            }
            paths[index] = Some(path.to_owned());
        }
        if let Some(&first) = missing.first() {
            let unreadable = match images.unreadable() {
                [] => String::new(),
                [first, ..] => format!(
                    " ({} entries there cannot be read, the first: {first})",
                    images.unreadable().len()
                ),
            };
            return Err(SourceError::MissingImages {
                image: records[first].image.clone(),
                place: dataset.place(first),
                folder: images.folder().to_owned(),
                missing: missing.len(),
                used: used.len(),
                unreadable,
            });
        }
        Ok(Self { dataset, paths })
    }

    /// The data set.
    pub fn dataset(&self) -> &Arc<Dataset> {
        &self.dataset
    }

    /// The file of the record `index`; `None` if the record is not in use.
    pub fn path(&self, index: usize) -> Option<&Path> {
        self.paths.get(index)?.as_deref()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;
    use crate::LabelSet;
    use crate::record::{LabelValue, Record};

    fn dataset(folder: &Path, images: &[&str]) -> Arc<Dataset> {
        let records = images
            .iter()
            .zip(2..)
            .map(|(image, row)| Record::new(*image, "1", [LabelValue::Negative], row))
            .collect();
        let labels = LabelSet::new(["Mass"]).unwrap();
        Arc::new(Dataset::new(folder.join("table.csv"), labels, records).unwrap())
    }

    fn write(folder: &TempDir, file: &str) {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }

    #[test]
    fn every_layout_of_folders_is_found() {
        let folder = tempfile::tempdir().unwrap();
        for file in ["images_001/images/1.png", "images/2.png", "3.png"] {
            write(&folder, file);
        }
        let dataset = dataset(folder.path(), &["1.png", "2.png", "3.png"]);
        let source = ImageSource::new(dataset, folder.path(), &[0, 1, 2]).unwrap();
        for (index, file) in ["images_001/images/1.png", "images/2.png", "3.png"]
            .iter()
            .enumerate()
        {
            assert_eq!(source.path(index), Some(&*folder.path().join(file)));
        }
        assert_eq!(source.path(3), None);
    }

    #[test]
    fn a_name_with_folders_is_found_by_all_of_it() {
        let folder = tempfile::tempdir().unwrap();
        for file in ["p1/view.jpg", "p2/view.jpg"] {
            write(&folder, file);
        }
        let dataset = dataset(
            folder.path(),
            &["p1/view.jpg", "p2/view.jpg", "p3/view.jpg"],
        );
        let source = ImageSource::new(dataset.clone(), folder.path(), &[0, 1]).unwrap();
        assert_eq!(source.path(0), Some(&*folder.path().join("p1/view.jpg")));
        assert_eq!(source.path(1), Some(&*folder.path().join("p2/view.jpg")));
        let error = ImageSource::new(dataset, folder.path(), &[0, 1, 2]).unwrap_err();
        assert!(
            error.to_string().starts_with("the image \"p3/view.jpg\""),
            "{error}"
        );
    }

    #[test]
    fn one_file_under_two_names_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        write(&folder, "images/a.png");
        let dataset = dataset(folder.path(), &["a.png", "images/a.png"]);
        assert!(ImageSource::new(dataset.clone(), folder.path(), &[1]).is_ok());
        let error = ImageSource::new(dataset, folder.path(), &[0, 1]).unwrap_err();
        let folder = folder.path().display();
        assert_eq!(
            error.to_string(),
            format!(
                "\"a.png\" ({folder}/table.csv, row 2) and \"images/a.png\" ({folder}/table.csv, \
                 row 3) are one file, {folder}/images/a.png: remove one of the rows"
            )
        );
    }

    #[test]
    fn missing_images_are_counted_and_the_first_is_named() {
        let folder = tempfile::tempdir().unwrap();
        write(&folder, "b.png");
        let dataset = dataset(folder.path(), &["a.png", "b.png", "c.png"]);
        let error = ImageSource::new(dataset, folder.path(), &[1, 2, 0]).unwrap_err();
        let folder = folder.path().display();
        assert_eq!(
            error.to_string(),
            format!(
                "the image \"c.png\" ({folder}/table.csv, row 4) is nowhere below {folder}; \
                 2 of the 3 images in use are missing: name the folder that has them, or leave them \
                 out of the split"
            )
        );
    }

    #[test]
    fn a_name_that_is_there_twice_is_refused_with_both_files() {
        let folder = tempfile::tempdir().unwrap();
        write(&folder, "images/a.png");
        write(&folder, "images-small/a.png");
        let dataset = dataset(folder.path(), &["a.png"]);
        let error = ImageSource::new(dataset, folder.path(), &[0]).unwrap_err();
        let folder = folder.path().display();
        assert_eq!(
            error.to_string(),
            format!(
                "the image \"a.png\" is there twice, as {folder}/images/a.png and as \
                 {folder}/images-small/a.png: remove one, or name a folder with one of them"
            )
        );
    }

    #[test]
    fn a_folder_that_is_none_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        write(&folder, "file");
        let data = dataset(folder.path(), &["a.png"]);
        let file = folder.path().join("file");
        let error = ImageSource::new(data.clone(), &file, &[0]).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "{}: this is not a folder: name the folder of the images",
                file.display()
            )
        );
        let absent = folder.path().join("absent");
        let error = ImageSource::new(data, &absent, &[0])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("the folder of images cannot be read"),
            "{error}"
        );
        assert!(error.contains("No such file"), "{error}");
    }
}
