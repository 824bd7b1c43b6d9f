//! Loading ahead: order, bounds, ends and errors.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod real_data;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use chest_datasets::{
    Augmentation, ChestXray14, Dataset, Draw, GrayImage, ImageBatch, ImageSource, LabelSet,
    LabelValue, Loader, LoaderConfig, OnBadImage, PackedCache, Record, epoch_order,
};
use proptest::prelude::*;
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
        on_bad_image: OnBadImage::Stop,
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

/// Images without symmetry, so that every change shows.
#[test]
fn augmented_pixels_depend_on_seed_epoch_and_image_alone() {
    let folder = folder();
    let source = source(folder.path(), 12);
    for index in 0..12 {
        image::GrayImage::from_fn(8, 8, |x, y| image::Luma([(29 * x + 3 * y + index) as u8]))
            .save(folder.path().join(format!("{index}.png")))
            .unwrap();
    }
    let augmentation: Augmentation = "flip,rotation=20,brightness=0.2".parse().unwrap();
    let by_index = |order: Vec<usize>, batch_size, seed, epoch| {
        let loader = loader(&source, batch_size, 1);
        let mut images = BTreeMap::new();
        for batch in loader.augmented_batches(order, augmentation, seed, epoch) {
            let batch = batch.unwrap();
            let pixels = batch.pixels.chunks_exact(16).map(<[u8]>::to_vec);
            images.extend(batch.indices.into_iter().zip(pixels));
        }
        images
    };
    let images = by_index((0..12).collect(), 5, 7, 3);
    assert_eq!(by_index((0..12).rev().collect(), 1, 7, 3), images);
    for (seed, epoch) in [(8, 3), (7, 4)] {
        assert_ne!(by_index((0..12).collect(), 5, seed, epoch), images);
    }
    for (index, pixels) in images {
        let image = GrayImage::open(source.path(index).unwrap()).unwrap();
        let mut expected = image.resize(4).unwrap();
        augmentation.apply(&mut expected, 4, Draw::new(7, 3, &format!("{index}.png")));
        assert_eq!(pixels, expected);
    }
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

/// The same loader with a cache below `folder`.
fn cached(loader: &Loader, folder: &Path) -> Loader {
    let LoaderConfig {
        image_size,
        on_bad_image,
        ..
    } = loader.config();
    let folder = folder.join("cache");
    let cache =
        PackedCache::open_or_build(&folder, loader.source(), image_size, on_bad_image, &|_| ());
    loader.clone().with_cache(Arc::new(cache.unwrap())).unwrap()
}

fn all(loader: &Loader, order: &[usize]) -> Vec<ImageBatch> {
    let batches = loader.batches(order.to_vec());
    batches.map(Result::unwrap).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(16) })]

    #[test]
    fn an_epoch_has_each_index_once_with_its_pixels_and_a_cache_changes_nothing(
        count in 1_usize..40,
        batch_size in 1_usize..9,
        prefetch in 0_usize..3,
        seed: u64,
    ) {
        let folder = folder();
        let source = source(folder.path(), count);
        let loader = loader(&source, batch_size, prefetch);
        let order = epoch_order(&(0..count).collect::<Vec<_>>(), seed, 0);
        let batches = all(&loader, &order);
        let indices: Vec<usize> = batches.iter().flat_map(|batch| batch.indices.clone()).collect();
        prop_assert_eq!(&indices, &order);
        let pixels: Vec<u8> = batches.iter().flat_map(|batch| batch.pixels.clone()).collect();
        let expected: Vec<u8> = order.iter().flat_map(|&index| [index as u8; 16]).collect();
        prop_assert_eq!(pixels, expected);
        prop_assert_eq!(all(&cached(&loader, folder.path()), &order), batches);
    }
}

/// Prints what the loader gives, with and without a cache: rayon's threads are those of the process.
#[test]
#[ignore = "a process that the next test starts"]
fn loader_process() {
    let folder = folder();
    let source = source(folder.path(), 50);
    fs::write(folder.path().join("7.png"), "").unwrap();
    let mut config = LoaderConfig::new(4, 8);
    config.on_bad_image = OnBadImage::Skip;
    let loader = Loader::new(source, config).unwrap();
    let order = epoch_order(&(0..50).collect::<Vec<_>>(), 42, 0);
    eprintln!("{} threads", rayon::current_num_threads());
    for loader in [cached(&loader, folder.path()), loader] {
        eprintln!("{:?}", all(&loader, &order));
    }
}

#[test]
fn order_and_pixels_do_not_depend_on_the_number_of_threads() {
    let printed = ["1", "2", "3", "8"].map(|threads| {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "loader_process"])
            .env("RAYON_NUM_THREADS", threads)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        let lines: Vec<String> = text.lines().map(String::from).collect();
        let [used, cached, decoded] = &lines[..] else {
            panic!("{text}");
        };
        assert_eq!(used, &format!("{threads} threads"));
        assert_eq!(cached, decoded);
        decoded.clone()
    });
    assert!(printed[0].starts_with("[ImageBatch { indices: ["));
    assert!(printed.iter().all(|batches| batches == &printed[0]));
}

#[test]
fn skipping_leaves_out_the_bad_images_and_lists_each_once() {
    let folder = folder();
    let source = source(folder.path(), 10);
    for index in [8, 2, 3] {
        fs::write(folder.path().join(format!("{index}.png")), "").unwrap();
    }
    let mut config = LoaderConfig::new(4, 2);
    config.on_bad_image = OnBadImage::Skip;
    let new = || Loader::new(source.clone(), config).unwrap();
    let order = [9, 8, 3, 2, 5, 4, 2, 7];
    for loader in [new(), cached(&new(), folder.path())] {
        assert_eq!(loader.skipped(), []);
        for _epoch in 0..2 {
            let batches = all(&loader.clone(), &order);
            let indices: Vec<_> = batches.iter().map(|batch| &batch.indices[..]).collect();
            // A batch of which nothing is left keeps its place.
            assert_eq!(indices, [&[9][..], &[], &[5, 4], &[7]]);
            let ends: Vec<usize> = batches.iter().map(|batch| batch.end).collect();
            assert_eq!(ends, [2, 4, 6, 8]);
            for batch in &batches {
                let expected = batch.indices.iter().flat_map(|index| [*index as u8; 16]);
                assert_eq!(batch.pixels, expected.collect::<Vec<u8>>());
            }
            let skipped: Vec<String> = loader.skipped().iter().map(ToString::to_string).collect();
            let expected = [2, 3, 8].map(|index| {
                let folder = folder.path().display();
                let row = index + 2;
                format!(
                    "{folder}/{index}.png: the file is empty (0 bytes): download it again \
                     (t.csv, row {row})"
                )
            });
            assert_eq!(skipped, expected);
        }
        let nothing = all(&loader, &[2, 3, 8]);
        assert!(nothing.len() == 2 && nothing.iter().all(|batch| batch.pixels.is_empty()));
    }
}

#[test]
fn a_file_that_cannot_be_read_stops_also_where_bad_images_are_skipped() {
    let folder = folder();
    let mut config = LoaderConfig::new(4, 1);
    config.on_bad_image = OnBadImage::Skip;
    let loader = Loader::new(source(folder.path(), 1), config).unwrap();
    fs::remove_file(folder.path().join("0.png")).unwrap();
    let error = loader.batches(vec![0]).next().unwrap().unwrap_err();
    let error = error.to_string();
    assert!(error.contains("0.png: the image cannot be read"), "{error}");
    assert_eq!(loader.skipped(), []);
}

#[test]
fn a_cache_of_bad_images_stops_a_loader_that_does_not_skip() {
    let folder = folder();
    let source = source(folder.path(), 3);
    fs::write(folder.path().join("1.png"), "").unwrap();
    let cache = folder.path().join("cache");
    let cache = PackedCache::open_or_build(&cache, &source, 4, OnBadImage::Skip, &|_| ()).unwrap();
    let loader = loader(&source, 1, 1).with_cache(Arc::new(cache)).unwrap();
    let mut batches = loader.batches(vec![0, 1, 2]);
    assert_eq!(batches.next().unwrap().unwrap().indices, [0]);
    let error = batches.next().unwrap().unwrap_err().to_string();
    assert!(error.ends_with("(t.csv, row 3)"), "{error}");
    assert!(batches.next().is_none());
}

#[test]
fn a_cache_of_other_images_or_another_size_is_refused() {
    let [first, second] = [folder(), folder()];
    let source_of_all = source(first.path(), 3);
    let build = |source: &ImageSource, size| {
        let folder = first.path().join("cache");
        let cache = PackedCache::open_or_build(&folder, source, size, OnBadImage::Stop, &|_| ());
        Arc::new(cache.unwrap())
    };
    let refuse = |source: &Arc<ImageSource>, cache| {
        let refused = loader(source, 1, 1).with_cache(cache).unwrap_err();
        refused.to_string()
    };
    assert_eq!(
        refuse(&source_of_all, build(&source_of_all, 5)),
        "the cache holds images of 5 by 5 pixels, and image_size is 4: open a cache of that size"
    );

    let dataset = source_of_all.dataset().clone();
    let some = Arc::new(ImageSource::new(dataset, first.path(), &[0, 2]).unwrap());
    assert_eq!(
        refuse(&source_of_all, build(&some, 4)),
        "the cache does not hold the image \"1.png\" of the loader's source: open it with this \
         source"
    );
    // Of the same names in another folder, it is of other images.
    let elsewhere = source(second.path(), 3);
    let message = refuse(&elsewhere, build(&source_of_all, 4));
    assert!(message.contains("the image \"0.png\""), "{message}");
    // More than the loader needs is no fault.
    let decoding = loader(&some, 2, 1);
    let cached = decoding.clone().with_cache(build(&source_of_all, 4));
    let cached = cached.unwrap();
    assert_eq!(all(&cached, &[2, 0])[0].indices, [2, 0]);
    // But the loader gives no more than without it.
    for loader in [decoding, cached] {
        let mut batches = loader.batches(vec![0, 1]);
        assert_eq!(
            batches.next().unwrap().unwrap_err().to_string(),
            "record 1 is not in use in the source of the images: name it when the source is made"
        );
    }
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
