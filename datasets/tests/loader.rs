//! Loading ahead: order, bounds, ends and errors.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod real_data;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use chest_datasets::{
    ChestXray14, Dataset, GrayImage, ImageSource, LabelSet, LabelValue, Loader, LoaderConfig,
    Record, epoch_order,
};
use tempfile::TempDir;

/// So many images of 8 by 8 pixels, each of one grey value, its index.
fn source(folder: &Path, count: usize) -> Arc<ImageSource> {
    let records = (0..count).map(|index| {
        let image = format!("{index}.png");
        image::GrayImage::from_pixel(8, 8, image::Luma([index as u8]))
            .save(folder.join(&image))
            .unwrap();
        Record::new(
            image,
            index.to_string(),
            [LabelValue::Negative],
            index as u64 + 2,
        )
    });
    let labels = LabelSet::new(["Mass"]).unwrap();
    let dataset = Dataset::new("t.csv", labels, records.collect()).unwrap();
    let used: Vec<usize> = (0..count).collect();
    Arc::new(ImageSource::new(Arc::new(dataset), folder, &used).unwrap())
}

fn loader(source: &Arc<ImageSource>, batch_size: usize, prefetch: usize) -> Loader {
    let config = LoaderConfig {
        image_size: 4,
        batch_size,
        prefetch,
    };
    Loader::new(source.clone(), config).unwrap()
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn batches_follow_the_order_and_the_last_is_smaller() {
    let folder = folder();
    let source = source(folder.path(), 10);
    let order = vec![7, 3, 3, 9, 0];
    for prefetch in [0, 1, 9] {
        let mut batches = loader(&source, 2, prefetch).batches(order.clone());
        let taken: Vec<_> = batches.by_ref().map(Result::unwrap).collect();
        let indices: Vec<_> = taken.iter().map(|batch| &batch.indices[..]).collect();
        assert_eq!(indices, [&[7, 3][..], &[3, 9], &[0]]);
        for batch in &taken {
            assert_eq!(batch.size, 4);
            let expected = batch.indices.iter().flat_map(|index| [*index as u8; 16]);
            assert_eq!(batch.pixels, expected.collect::<Vec<u8>>());
        }
        assert!(batches.next().is_none());
        let statistics = batches.statistics();
        assert_eq!(statistics.images, 5);
        assert!(statistics.waiting <= statistics.elapsed);
        assert!(statistics.images_per_second() > 0.0);
    }
    assert!(loader(&source, 2, 1).batches(vec![]).next().is_none());
}

#[test]
fn dropping_the_batches_early_ends_the_thread() {
    let folder = folder();
    let source = source(folder.path(), 2);
    let mut batches = loader(&source, 64, 1).batches([0, 1].repeat(1_000_000));
    batches.next().unwrap().unwrap();
    // The thread waits to hand over a batch, or decodes.
    let begin = Instant::now();
    drop(batches);
    println!("dropped in {:?}", begin.elapsed());
    // Neither the loader, which is gone, nor the thread holds the source any more.
    assert_eq!(Arc::strong_count(&source), 1);

    drop(loader(&source, 64, 0).batches([0, 1].repeat(1_000_000)));
    assert_eq!(Arc::strong_count(&source), 1);
}

#[test]
fn no_more_is_decoded_ahead_than_prefetch_allows() {
    let folder = folder();
    let source = source(folder.path(), 10);
    let batches = loader(&source, 1, 2).batches((0..10).collect());
    sleep(Duration::from_millis(200));
    // Two batches lie ready and a third waits: the fifth image cannot have been read.
    fs::remove_file(folder.path().join("4.png")).unwrap();
    let results: Vec<_> = batches.collect();
    assert_eq!(results.len(), 5);
    assert!(results[..4].iter().all(Result::is_ok));
    assert!(results[4].is_err());
}

#[test]
fn the_first_error_of_the_order_ends_the_batches_and_names_file_and_row() {
    let folder = folder();
    let source = source(folder.path(), 10);
    for index in [4, 5] {
        fs::write(folder.path().join(format!("{index}.png")), "").unwrap();
    }
    let mut batches = loader(&source, 3, 1).batches(vec![0, 1, 2, 3, 5, 4, 6]);
    assert_eq!(batches.next().unwrap().unwrap().indices, [0, 1, 2]);
    assert_eq!(
        batches.next().unwrap().unwrap_err().to_string(),
        format!(
            "{}/5.png: the file is empty (0 bytes): download it again (t.csv, row 7)",
            folder.path().display()
        )
    );
    assert!(batches.next().is_none());
    assert_eq!(batches.statistics().images, 3);
    assert_eq!(Arc::strong_count(&source), 1);
}

#[test]
fn a_record_that_is_not_in_use_is_refused() {
    let folder = folder();
    let source = source(folder.path(), 2);
    let mut batches = loader(&source, 2, 1).batches(vec![0, 2]);
    assert_eq!(
        batches.next().unwrap().unwrap_err().to_string(),
        "record 2 is not in use in the source of the images: name it when the source is made"
    );
}

#[test]
fn sizes_of_zero_are_refused() {
    let folder = folder();
    let source = source(folder.path(), 1);
    for (config, option) in [
        (LoaderConfig::new(0, 1), "image_size"),
        (LoaderConfig::new(1, 0), "batch_size"),
    ] {
        assert_eq!(
            Loader::new(source.clone(), config).unwrap_err().to_string(),
            format!("{option} is 0: it must be at least 1")
        );
    }
}

#[test]
fn the_real_sample_is_loaded_from_its_folders() {
    let Some(data) = real_data::folder() else {
        return;
    };
    let folder = data.join("nih-sample");
    let nih = ChestXray14::open(&folder).unwrap();
    assert_eq!((nih.dataset.len(), nih.boxes.len()), (501, 7));
    assert_eq!(nih.dataset.patients(), 501);
    let everything: Vec<usize> = (0..nih.dataset.len()).collect();
    let source = ImageSource::new(Arc::new(nih.dataset), &folder, &everything).unwrap();
    let source = Arc::new(source);
    let loader = Loader::new(source.clone(), LoaderConfig::new(224, 16)).unwrap();
    let order = epoch_order(&everything, 42, 0);
    let mut batches = loader.batches(order.clone());
    let mut seen = Vec::new();
    for batch in &mut batches {
        let batch = batch.unwrap();
        assert_eq!(batch.pixels.len(), batch.indices.len() * 224 * 224);
        if seen.is_empty() {
            let first = GrayImage::open(source.path(batch.indices[0]).unwrap()).unwrap();
            assert_eq!(batch.pixels[..224 * 224], first.resize(224).unwrap());
        }
        seen.extend(batch.indices);
    }
    assert_eq!(seen, order);
    let statistics = batches.statistics();
    println!(
        "{:.0} images/s, {statistics:?}",
        statistics.images_per_second()
    );
}

#[test]
fn an_image_that_the_table_lists_and_the_folder_lacks_is_named() {
    let Some(data) = real_data::folder() else {
        return;
    };
    let nih = ChestXray14::open(data.join("nih-sample")).unwrap();
    let images = data.join("nih-sample/images_001");
    let everything: Vec<usize> = (0..nih.dataset.len()).collect();
    let error = ImageSource::new(Arc::new(nih.dataset), &images, &everything).unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("251 of the 501 images in use are missing"),
        "{message}"
    );
    assert!(
        message.contains("Data_Entry_2017_v2020.csv, row "),
        "{message}"
    );
    assert!(
        message.contains(&format!("below {}", images.display())),
        "{message}"
    );
}
