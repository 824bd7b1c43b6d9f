//! Small images in a folder, and what the tests of the cache do with them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chest_datasets::{
    CacheError, Dataset, GrayImage, ImageSource, LabelSet, LabelValue, OnBadImage, PackedCache,
    Record,
};

/// Writes an image of these sides to `path`, whose pixels depend on `seed`: 8-bit grey, 16-bit grey
/// or colour.
pub fn write(path: &Path, (width, height): (u32, u32), seed: u32) {
    let value = |x: u32, y: u32| ((x * 37 + y * 101 + seed * 29) * 177) as u16;
    match seed % 3 {
        0 => image::ImageBuffer::from_fn(width, height, |x, y| image::Luma([value(x, y) as u8]))
            .save(path),
        1 => {
            image::ImageBuffer::from_fn(width, height, |x, y| image::Luma([value(x, y)])).save(path)
        }
        _ => image::ImageBuffer::from_fn(width, height, |x, y| {
            image::Rgb([1, 2, 3].map(|channel| (value(x, y) / channel) as u8))
        })
        .save(path),
    }
    .unwrap();
}

/// So many images of 5 by 4 to 14 by 13 pixels, from `00.png` on, in a folder of their own.
pub fn images(count: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for seed in 0..count as u32 {
        let path = folder.path().join(format!("{seed:02}.png"));
        write(&path, (5 + seed % 10, 4 + seed % 10), seed);
    }
    folder
}

/// The PNG files of `folder`, all in use, in the order of their names.
pub fn source(folder: &Path) -> Arc<ImageSource> {
    let mut names = names(folder);
    names.retain(|name| name.ends_with(".png"));
    source_of(folder, &names)
}

/// The images `names` in `folder`, all in use.
pub fn source_of(folder: &Path, names: &[String]) -> Arc<ImageSource> {
    let records = names.iter().zip(2..);
    let records =
        records.map(|(name, row)| Record::new(name, name.as_str(), [LabelValue::Negative], row));
    let labels = LabelSet::new(["Mass"]).unwrap();
    let dataset = Dataset::new("t.csv", labels, records.collect()).unwrap();
    let used: Vec<usize> = (0..names.len()).collect();
    Arc::new(ImageSource::new(Arc::new(dataset), folder, &used).unwrap())
}

/// The names in `folder`, sorted.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Opens or builds, with bad images an error.
pub fn open(folder: &Path, source: &ImageSource, size: usize) -> Result<PackedCache, CacheError> {
    PackedCache::open_or_build(folder, source, size, OnBadImage::Stop, &|_| ())
}

/// Every image of the cache, in the order of the records.
pub fn pixels(cache: &PackedCache, source: &ImageSource) -> Vec<Vec<u8>> {
    (0..source.dataset().len())
        .map(|index| cache.pixels(index).unwrap().unwrap().to_vec())
        .collect()
}

/// Every image of the source, decoded from its file.
pub fn decoded(source: &ImageSource, size: usize) -> Vec<Vec<u8>> {
    (0..source.dataset().len())
        .map(|index| {
            let image = GrayImage::open(source.path(index).unwrap()).unwrap();
            image.resize(size).unwrap()
        })
        .collect()
}

/// The one cache file in `folder`.
pub fn cache_file(folder: &Path) -> PathBuf {
    let mut names = names(folder);
    names.retain(|name| name.ends_with(".chestcache"));
    assert_eq!(names.len(), 1, "{names:?}");
    folder.join(&names[0])
}
