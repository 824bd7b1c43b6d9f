//! The phantom: what a data set of it holds, that it repeats, and that it is neither trivial nor
//! blank.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod logistic_regression;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use chest_datasets::{
    ChestXray14, GrayImage, ImageSource, LabelValue, Pathology, PhantomConfig, PhantomOutcome,
    Pixels, Split,
};
use tempfile::TempDir;

fn written(config: &PhantomConfig) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let outcome = config.write(folder.path(), |_| ()).unwrap();
    assert_eq!(outcome, PhantomOutcome::Written);
    folder
}

fn small(images: usize) -> PhantomConfig {
    PhantomConfig {
        images,
        image_size: 64,
        ..PhantomConfig::default()
    }
}

/// The content of every file below a folder, by its path there.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in walkdir(folder) {
        let name = entry.strip_prefix(folder).unwrap();
        files.insert(name.display().to_string(), fs::read(&entry).unwrap());
    }
    files
}

fn walkdir(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(walkdir(&path)),
            false => found.push(path),
        }
    }
    found
}

#[test]
fn equal_seeds_give_equal_files_on_any_number_of_threads() {
    let of_threads = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let folder = tempfile::tempdir().unwrap();
        let write = || small(30).write(folder.path(), |_| ()).unwrap();
        pool.unwrap().install(write);
        files(folder.path())
    };
    let one = of_threads(1);
    assert_eq!(one.len(), 30 + 5);
    for threads in [2, 3, 8] {
        assert!(of_threads(threads) == one, "{threads} threads");
    }
    let other = written(&PhantomConfig {
        seed: 1,
        ..small(30)
    });
    assert!(files(other.path()) != one);
}

#[test]
fn a_longer_data_set_begins_as_a_shorter_one() {
    let (short, long) = (written(&small(12)), written(&small(25)));
    let (short, long) = (files(short.path()), files(long.path()));
    let images = short.iter().filter(|(name, _)| name.ends_with(".png"));
    for (name, content) in images {
        assert!(long[name] == *content, "{name}");
    }
}

#[test]
fn the_reader_of_nih_finds_patients_labels_lists_and_boxes() {
    let folder = written(&small(400));
    let nih = ChestXray14::open(folder.path()).unwrap();
    let records = nih.dataset.records();
    assert_eq!(records.len(), 400);

    let mut by_patient: HashMap<&str, Vec<u32>> = HashMap::new();
    for record in records {
        let follow_ups = by_patient.entry(&record.patient).or_default();
        follow_ups.push(record.follow_up.unwrap());
        assert!(record.age.is_some() && record.sex.is_some() && record.view.is_some());
    }
    assert!(by_patient.values().any(|images| images.len() == 1));
    assert!(by_patient.values().any(|images| *images == [0, 1, 2]));
    let findings = |index: usize| {
        let labels = records[index].labels.iter();
        labels
            .filter(|value| **value == LabelValue::Positive)
            .count()
    };
    assert!((0..400).any(|index| findings(index) == 0));
    assert!((0..400).any(|index| findings(index) >= 3));

    let lists = nih.lists.unwrap();
    assert_eq!(lists.train_val.images.len() + lists.test.images.len(), 400);
    let split = Split::official(&nih.dataset, &lists, 0).unwrap();
    split.ensure_disjoint(&nih.dataset).unwrap();
    assert!(
        (60..=140).contains(&split.test().len()),
        "{}",
        split.test().len()
    );

    // A box for each finding that has a place, within the image, and for no other.
    let diffuse = [Pathology::Edema, Pathology::Emphysema, Pathology::Fibrosis];
    let positions = nih.dataset.positions();
    let mut boxed = HashSet::new();
    for found in &nih.boxes {
        let record = &records[positions[found.image.as_str()]];
        assert_eq!(record.labels[found.label as usize], LabelValue::Positive);
        assert!(found.x + found.width <= 1024.0 && found.y + found.height <= 1024.0);
        assert!(!diffuse.contains(&found.label));
        boxed.insert((found.image.as_str(), found.label));
    }
    for record in records {
        for label in Pathology::ALL {
            let present = record.labels[label as usize] == LabelValue::Positive;
            if present && !diffuse.contains(&label) {
                assert!(
                    boxed.contains(&(record.image.as_str(), label)),
                    "{record:?} {label:?}"
                );
            }
        }
    }
}

/// The middle of a mass's box is brighter than the strip of the same picture right above the box.
#[test]
fn a_mass_is_brighter_than_what_is_around_its_box() {
    let folder = written(&PhantomConfig {
        images: 300,
        image_size: 128,
        ..PhantomConfig::default()
    });
    let nih = ChestXray14::open(folder.path()).unwrap();
    let positions = nih.dataset.positions();
    let all: Vec<usize> = (0..nih.dataset.len()).collect();
    let source = ImageSource::new(Arc::new(nih.dataset.clone()), folder.path(), &all).unwrap();
    let mut brighter = Vec::new();
    for found in nih
        .boxes
        .iter()
        .filter(|found| found.label == Pathology::Mass)
    {
        let image = GrayImage::open(source.path(positions[found.image.as_str()]).unwrap()).unwrap();
        let Pixels::U8(pixels) = image.pixels() else {
            panic!("8 bit are written");
        };
        let mean = |[left, top, right, bottom]: [f32; 4]| {
            let range = |low: f32, high: f32| {
                (low.max(0.0) / 8.0) as usize..((high / 8.0) as usize).min(128)
            };
            let rows = range(top, bottom).flat_map(|row| {
                let columns = range(left, right);
                columns.map(move |column| row * 128 + column)
            });
            let values: Vec<f32> = rows.map(|pixel| f32::from(pixels[pixel])).collect();
            values.iter().sum::<f32>() / values.len() as f32
        };
        let [right, bottom] = [found.x + found.width, found.y + found.height];
        let middle = [
            found.x + 0.25 * found.width,
            found.y + 0.25 * found.height,
            right - 0.25 * found.width,
            bottom - 0.25 * found.height,
        ];
        let above = [found.x, found.y - 0.4 * found.height, right, found.y];
        brighter.push(mean(middle) > mean(above));
    }
    assert!(brighter.len() >= 15, "{}", brighter.len());
    let share =
        brighter.iter().filter(|brighter| **brighter).count() as f32 / brighter.len() as f32;
    // Above a mass there may be a rib, the clavicle or the shoulder.
    assert!(share > 0.8, "{share}");
}

#[test]
fn the_default_has_twenty_held_out_positives_of_every_class() {
    let folder = written(&PhantomConfig {
        image_size: 32,
        ..PhantomConfig::default()
    });
    let nih = ChestXray14::open(folder.path()).unwrap();
    let lists = nih.lists.unwrap();
    let test: HashSet<&String> = lists.test.images.iter().collect();
    for label in Pathology::ALL {
        let records = nih.dataset.records().iter();
        let positives = records
            .filter(|record| test.contains(&record.image))
            .filter(|record| record.labels[label as usize] == LabelValue::Positive)
            .count();
        assert!(positives >= 20, "{label:?}: {positives}");
    }
}

#[test]
fn a_phantom_is_kept_or_replaced_and_nothing_else_is_touched() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("phantom");
    assert_eq!(
        small(12).write(&folder, |_| ()).unwrap(),
        PhantomOutcome::Written
    );
    let table = folder.join("Data_Entry_2017_v2020.csv");
    let written = fs::metadata(&table).unwrap().modified().unwrap();
    assert_eq!(
        small(12).write(&folder, |_| ()).unwrap(),
        PhantomOutcome::Kept
    );
    assert_eq!(fs::metadata(&table).unwrap().modified().unwrap(), written);

    assert_eq!(
        small(14).write(&folder, |_| ()).unwrap(),
        PhantomOutcome::Written
    );
    assert_eq!(ChestXray14::open(&folder).unwrap().dataset.len(), 14);
    // An image that is gone is drawn again.
    let image = folder.join("images_001/images/90000001_000.png");
    fs::remove_file(&image).unwrap();
    assert_eq!(
        small(14).write(&folder, |_| ()).unwrap(),
        PhantomOutcome::Written
    );
    assert!(image.exists());
}

#[test]
fn what_is_of_no_phantom_is_never_removed() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("phantom");
    small(12).write(&folder, |_| ()).unwrap();
    let before = files(&folder);
    for foreign in [
        "thesis.txt",
        "images_001/scan.png",
        "images_001/images/00000001_000.png",
    ] {
        let foreign = folder.join(foreign);
        fs::write(&foreign, "years").unwrap();
        let error = small(14).write(&folder, |_| ()).unwrap_err().to_string();
        assert_eq!(
            error,
            format!(
                "{} holds {foreign:?}, which is of no phantom: name another folder",
                folder.display()
            )
        );
        assert_eq!(fs::read(&foreign).unwrap(), b"years");
        fs::remove_file(&foreign).unwrap();
        assert!(files(&folder) == before);
    }
    // NIH's own files have the same names.
    fs::remove_file(folder.join("phantom.json")).unwrap();
    let error = small(14).write(&folder, |_| ()).unwrap_err().to_string();
    assert!(error.contains("which is of no phantom"), "{error}");
}

#[test]
fn a_write_that_was_broken_off_is_finished_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    small(12).write(folder.path(), |_| ()).unwrap();
    let whole = files(folder.path());
    // As a process leaves it that is killed while it moves the files.
    let aside = folder.path().join("phantom.partial");
    fs::create_dir_all(aside.join("images_001/images")).unwrap();
    fs::write(aside.join("images_001/images/90000001_000.png"), "half").unwrap();
    fs::remove_file(folder.path().join("phantom.json")).unwrap();
    fs::remove_file(folder.path().join("test_list.txt")).unwrap();
    small(12).write(folder.path(), |_| ()).unwrap();
    assert!(files(folder.path()) == whole);
}

#[test]
fn several_writers_of_one_folder_leave_one_phantom() {
    let folder = tempfile::tempdir().unwrap();
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let write = || small(12).write(folder.path(), |_| ()).unwrap();
        let writers: Vec<_> = (0..4).map(|_| scope.spawn(write)).collect();
        writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .collect()
    });
    let written = outcomes
        .iter()
        .filter(|outcome| **outcome == PhantomOutcome::Written);
    assert_eq!(written.count(), 1);
    assert_eq!(ChestXray14::open(folder.path()).unwrap().dataset.len(), 12);
}

#[test]
fn the_fewest_images_fill_both_lists() {
    for seed in 0..20 {
        let folder = written(&PhantomConfig { seed, ..small(10) });
        let lists = ChestXray14::open(folder.path()).unwrap().lists.unwrap();
        assert!(!lists.test.images.is_empty() && !lists.train_val.images.is_empty());
    }
}

#[test]
fn what_cannot_be_written_is_one_line_and_leaves_nothing() {
    let parent = tempfile::tempdir().unwrap();
    fs::write(parent.path().join("file"), "").unwrap();
    let below = parent.path().join("file/phantom");
    let error = small(12).write(&below, |_| ()).unwrap_err().to_string();
    assert!(error.contains("file/phantom"), "{error}");
    assert!(!error.contains('\n'), "{error}");
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
}

#[test]
fn values_that_make_no_sense_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |config: PhantomConfig| {
        let error = config.write(folder.path().join("phantom"), |_| ());
        error.unwrap_err().to_string()
    };
    assert_eq!(
        refused(small(0)),
        "phantom: images is 0: it must be from 10 to 9000000"
    );
    let size = PhantomConfig {
        image_size: 31,
        ..small(12)
    };
    assert_eq!(
        refused(size),
        "phantom: image_size is 31: it must be from 32 to 4096"
    );
    for test_share in [0.0, 1.0, f32::NAN] {
        let share = PhantomConfig {
            test_share,
            ..small(12)
        };
        assert!(refused(share).contains("it must be above 0 and below 1"));
    }
}
