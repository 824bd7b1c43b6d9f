//! The packed cache: the same pixels as without it, whatever happens to its file.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cache_images;
mod real_data;

use std::cell::RefCell;
use std::fs::{self, File, OpenOptions};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cache_images::{cache_file, decoded, images, names, open, pixels, source, source_of, write};
use chest_datasets::{
    CacheOutcome, CacheProgress, ChestXray14, ImageSource, OnBadImage, PackedCache,
};
use proptest::prelude::*;
use proptest::sample::Index;

const BUILT: CacheOutcome = CacheOutcome::Built { others: 0 };

fn few_cases() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(24)
    }
}

/// What was wrong with the cache file that `cache` has replaced.
fn damage(cache: &PackedCache) -> &str {
    match cache.outcome() {
        CacheOutcome::Rebuilt { reason } => reason,
        other => panic!("{other}"),
    }
}

proptest! {
    #![proptest_config(few_cases())]

    #[test]
    fn the_cache_equals_direct_decoding_byte_for_byte(
        sides in prop::collection::vec((1_u32..40, 1_u32..40), 0..20),
        size in 1_usize..24,
        threads in 1_usize..5,
    ) {
        let folder = tempfile::tempdir().unwrap();
        for (seed, &sides) in (0..).zip(&sides) {
            write(&folder.path().join(format!("{seed}.png")), sides, seed);
        }
        let source = source(folder.path());
        let cache = tempfile::tempdir().unwrap();
        let expected = decoded(&source, size);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        for outcome in [BUILT, CacheOutcome::Opened] {
            let cache = pool.install(|| open(cache.path(), &source, size).unwrap());
            prop_assert_eq!(cache.outcome(), &outcome);
            prop_assert_eq!(cache.image_size(), size);
            prop_assert_eq!(&pixels(&cache, &source), &expected);
            prop_assert_eq!(cache.pixels(sides.len()), None);
        }
    }

    #[test]
    fn a_flipped_bit_is_found_and_the_cache_rebuilt(byte: Index, bit in 0_u8..8) {
        let images = images(5);
        let source = source(images.path());
        let cache = tempfile::tempdir().unwrap();
        drop(open(cache.path(), &source, 7).unwrap());
        let file = cache_file(cache.path());
        let whole = fs::read(&file).unwrap();
        let mut bytes = whole.clone();
        bytes[byte.index(whole.len())] ^= 1 << bit;
        fs::write(&file, bytes).unwrap();

        let rebuilt = open(cache.path(), &source, 7).unwrap();
        let reasons = ["its header is", "its index does", "image "];
        let named = reasons.iter().any(|reason| damage(&rebuilt).starts_with(reason));
        prop_assert!(named, "{}", rebuilt.outcome());
        prop_assert_eq!(pixels(&rebuilt, &source), decoded(&source, 7));
        prop_assert_eq!(fs::read(&file).unwrap(), whole);
        let opened = open(cache.path(), &source, 7).unwrap();
        prop_assert_eq!(opened.outcome(), &CacheOutcome::Opened);
    }

    #[test]
    fn a_file_of_another_length_is_found_and_the_cache_rebuilt(
        length in 0_usize..600,
        byte: u8,
    ) {
        let images = images(3);
        let source = source(images.path());
        let cache = tempfile::tempdir().unwrap();
        drop(open(cache.path(), &source, 7).unwrap());
        let file = cache_file(cache.path());
        let whole = fs::read(&file).unwrap();
        prop_assume!(length != whole.len());
        let mut bytes = whole.clone();
        bytes.resize(length, byte);
        fs::write(&file, bytes).unwrap();

        let rebuilt = open(cache.path(), &source, 7).unwrap();
        prop_assert!(damage(&rebuilt).starts_with("it"), "{}", rebuilt.outcome());
        prop_assert_eq!(pixels(&rebuilt, &source), decoded(&source, 7));
        prop_assert_eq!(fs::read(&file).unwrap(), whole);
    }
}

#[test]
fn a_changed_image_has_another_cache_and_the_older_one_stays() {
    let images = images(3);
    let source = source(images.path());
    let cache = tempfile::tempdir().unwrap();
    let first = open(cache.path(), &source, 7).unwrap();
    let before = pixels(&first, &source);

    let path = images.path().join("01.png");
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    write(&path, (5, 4), 8);
    let file = File::options().write(true).open(&path).unwrap();
    file.set_modified(modified + Duration::from_nanos(1))
        .unwrap();
    let second = open(cache.path(), &source, 7).unwrap();
    assert_eq!(second.outcome(), &CacheOutcome::Built { others: 1 });
    assert_eq!(pixels(&second, &source), decoded(&source, 7));
    assert_ne!(pixels(&second, &source)[1], before[1]);
    assert_ne!(second.path(), first.path());
    // Another experiment may still hold the older one.
    assert_eq!(pixels(&first, &source), before);
    assert!(first.path().exists());

    assert_eq!(
        open(cache.path(), &source, 8)
            .unwrap()
            .outcome()
            .to_string(),
        "built (beside 2 of other images, of another size or of an older state)"
    );
}

#[test]
fn the_same_images_elsewhere_and_in_another_order_have_the_same_cache() {
    let images = images(4);
    let source = source(images.path());
    let cache = tempfile::tempdir().unwrap();
    assert_eq!(open(cache.path(), &source, 7).unwrap().outcome(), &BUILT);

    let elsewhere = tempfile::tempdir().unwrap();
    for name in names(images.path()) {
        let from = images.path().join(&name);
        let to = elsewhere.path().join(&name);
        fs::copy(&from, &to).unwrap();
        let modified = fs::metadata(&from).unwrap().modified().unwrap();
        let file = OpenOptions::new().write(true).open(&to).unwrap();
        file.set_modified(modified).unwrap();
    }
    let order = ["02.png", "00.png", "03.png", "01.png"].map(String::from);
    let other = source_of(elsewhere.path(), &order);
    let opened = open(cache.path(), &other, 7).unwrap();
    assert_eq!(opened.outcome(), &CacheOutcome::Opened);
    assert_eq!(pixels(&opened, &other), decoded(&other, 7));
}

#[test]
fn a_bad_image_stops_the_build_and_leaves_nothing() {
    let images = images(4);
    for name in ["01.png", "02.png"] {
        fs::write(images.path().join(name), "").unwrap();
    }
    let source = source(images.path());
    let cache = tempfile::tempdir().unwrap();
    assert_eq!(
        open(cache.path(), &source, 7).unwrap_err().to_string(),
        format!(
            "{}/01.png: the file is empty (0 bytes): download it again (t.csv, row 3)",
            images.path().display()
        )
    );
    assert_only_the_lock_is_left(cache.path());
}

fn assert_only_the_lock_is_left(folder: &Path) {
    let names = names(folder);
    assert_eq!(names.len(), 1, "{names:?}");
    assert!(names[0].ends_with(".lock"), "{names:?}");
}

#[test]
fn skipped_images_are_in_the_cache_as_such_and_stop_whoever_does_not_skip() {
    let images = images(4);
    for name in ["03.png", "01.png"] {
        fs::write(images.path().join(name), "no image").unwrap();
    }
    let source = source(images.path());
    let cache = tempfile::tempdir().unwrap();
    let skip =
        || PackedCache::open_or_build(cache.path(), &source, 7, OnBadImage::Skip, &|_| ()).unwrap();
    let reason = "this is no known image (it begins \"no image\")";
    for outcome in [BUILT, CacheOutcome::Opened] {
        let cache = skip();
        assert_eq!(cache.outcome(), &outcome);
        let bad: Vec<_> = cache.bad_images().collect();
        let of_bad: Vec<_> = bad.iter().map(|bad| (&*bad.image, bad.row)).collect();
        assert_eq!(of_bad, [("01.png", 3), ("03.png", 5)]);
        assert!(bad[0].reason.contains(reason), "{}", bad[0]);
        assert_eq!(cache.pixels(1), Some(Err(bad[0])));
        assert_eq!(cache.pixels(3), Some(Err(bad[1])));
        assert!(cache.pixels(0).unwrap().is_ok() && cache.pixels(2).unwrap().is_ok());
    }
    let error = open(cache.path(), &source, 7).unwrap_err().to_string();
    let first = format!("{}/01.png: {reason}", images.path().display());
    assert!(error.starts_with(&first), "{error}");
    assert!(error.ends_with(" (t.csv, row 3)"), "{error}");
}

#[test]
fn a_file_that_cannot_be_read_is_no_bad_image() {
    let images = images(2);
    let source = source(images.path());
    let path = images.path().join("01.png");
    fs::remove_file(&path).unwrap();
    let cache = tempfile::tempdir().unwrap();
    let skip = || {
        PackedCache::open_or_build(cache.path(), &source, 7, OnBadImage::Skip, &|_| ())
            .unwrap_err()
            .to_string()
    };
    let examined = format!("{}: the image cannot be examined: No such", path.display());
    assert!(skip().starts_with(&examined), "{}", skip());

    fs::create_dir(&path).unwrap();
    let read = format!("{}: the image cannot be read: Is a dir", path.display());
    assert!(skip().starts_with(&read), "{}", skip());
    assert!(skip().ends_with("(t.csv, row 3)"), "{}", skip());
    assert_only_the_lock_is_left(cache.path());
}

#[test]
fn an_image_that_changes_while_the_cache_is_built_is_an_error_and_not_kept() {
    let images = images(4);
    let source = source(images.path());
    let path = images.path().join("02.png");
    let whole = fs::read(&path).unwrap();
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    let cache = tempfile::tempdir().unwrap();
    let build = |progress: &dyn Fn(CacheProgress)| {
        PackedCache::open_or_build(cache.path(), &source, 7, OnBadImage::Skip, progress)
    };
    let error = build(&|progress| {
        if let CacheProgress::Building { done: 0, .. } = progress {
            fs::write(&path, &whole[..20]).unwrap();
        }
    });
    assert_eq!(
        error.unwrap_err().to_string(),
        format!(
            "{}: the image changed while the cache was built: run again when nothing writes there",
            path.display()
        )
    );
    assert_only_the_lock_is_left(cache.path());

    // In its former state, which has the same key.
    fs::write(&path, whole).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    file.set_modified(modified).unwrap();
    let built = build(&|_| ()).unwrap();
    assert_eq!(built.outcome(), &BUILT);
    assert_eq!(pixels(&built, &source), decoded(&source, 7));
}

#[test]
fn progress_counts_what_is_built_and_what_is_verified() {
    let images = images(3);
    let source = source(images.path());
    let cache = tempfile::tempdir().unwrap();
    let told = RefCell::new(vec![]);
    let mut expected = vec![];
    for building in [true, false] {
        PackedCache::open_or_build(cache.path(), &source, 7, OnBadImage::Stop, &|progress| {
            told.borrow_mut().push(progress);
        })
        .unwrap();
        let total = 3;
        if building {
            expected.extend([0, 3].map(|done| CacheProgress::Building { done, total }));
        }
        expected.extend([0, 3].map(|done| CacheProgress::Verifying { done, total }));
    }
    assert_eq!(*told.borrow(), expected);
}

#[test]
fn the_folder_is_made_unless_it_is_a_file() {
    let images = images(1);
    let source = source(images.path());
    let folder = tempfile::tempdir().unwrap();
    let nested = folder.path().join("a/b");
    assert_eq!(open(&nested, &source, 7).unwrap().outcome(), &BUILT);

    let file = cache_file(&nested);
    assert_eq!(
        open(&file, &source, 7).unwrap_err().to_string(),
        format!(
            "{}: the folder of the cache cannot be made: File exists (os error 17): name another \
             folder",
            file.display()
        )
    );
}

#[test]
fn sizes_that_no_image_can_have_are_refused() {
    let images = images(1);
    let source = source(images.path());
    let cache = tempfile::tempdir().unwrap();
    for (size, message) in [
        (0, "image_size is 0: it must be at least 1"),
        (65_536, "image_size is 65536: it must be at most 65535"),
    ] {
        let error = open(cache.path(), &source, size).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    assert!(names(cache.path()).is_empty());
}

#[test]
fn the_real_sample_is_the_same_from_the_cache() {
    let Some(data) = real_data::folder() else {
        return;
    };
    let folder = data.join("nih-sample");
    let nih = ChestXray14::open(&folder).unwrap();
    let everything: Vec<usize> = (0..nih.dataset.len()).collect();
    let source = ImageSource::new(Arc::new(nih.dataset), &folder, &everything).unwrap();
    let cache = tempfile::tempdir().unwrap();
    for outcome in [BUILT, CacheOutcome::Opened] {
        let begin = Instant::now();
        let cache = open(cache.path(), &source, 224).unwrap();
        println!("{} in {:?}", cache.outcome(), begin.elapsed());
        assert_eq!(cache.outcome(), &outcome);
        assert!(pixels(&cache, &source) == decoded(&source, 224));
    }
}
