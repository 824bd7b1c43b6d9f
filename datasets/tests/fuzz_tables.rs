//! Damaged tables and lists: no reader may panic; it refuses a file in one line that names it, or
//! accepts it and makes sound records of it.
//!
//! `CHEXNET_FUZZ_CASES` is the number of cases of all tests together (default: 20,000), numbered from
//! `CHEXNET_FUZZ_FIRST` (default: 0). A case depends on its number alone, so that one which fails can
//! be run again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod mutation;

use std::collections::HashSet;
use std::env;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

use chest_datasets::{
    CheXpert, ChestXray14, Dataset, ImageList, LabelSet, LabelValue, OfficialLists, Record, Side,
    Split,
};
use rand::SeedableRng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use tempfile::TempDir;

/// The tests of this file.
const READERS: u64 = 7;

/// The number that the environment variable `name` holds.
fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().expect(name))
}

/// A folder in memory where there is one.
fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}

/// Damages one of `files`, each a name and its content, and `read`s the folder that they lie in, twice.
/// What `read` returns is compared; an error has to name the damaged file.
fn fuzz<T: PartialEq + std::fmt::Debug>(
    test: &str,
    files: &[(&str, &str)],
    read: impl Fn(&Path) -> Result<T, String>,
) {
    let folder = folder();
    let first = number("CHEXNET_FUZZ_FIRST", 0);
    let cases = number("CHEXNET_FUZZ_CASES", 20_000).div_ceil(READERS);
    let (mut accepted, mut refused) = (0, 0);
    for case in first..first + cases {
        let mut random = ChaCha8Rng::seed_from_u64(case);
        let (name, content) = files.choose(&mut random).unwrap();
        let damaged = mutation::mutate(content.as_bytes(), &mut random);
        let check = || {
            for (name, content) in files {
                fs::write(folder.path().join(name), content).unwrap();
            }
            fs::write(folder.path().join(name), &damaged).unwrap();
            let result = read(folder.path());
            if let Err(message) = &result {
                assert!(!message.contains(['\r', '\n']), "{message:?}");
                assert!(message.contains(name), "{message:?}");
            }
            assert_eq!(read(folder.path()), result, "read again, it is another");
            result.is_ok()
        };
        match catch_unwind(AssertUnwindSafe(check)) {
            Ok(true) => accepted += 1,
            Ok(false) => refused += 1,
            Err(panic) => {
                eprintln!(
                    "{name}: {}\ncase {case}: run it again with CHEXNET_FUZZ_FIRST={case} \
                     CHEXNET_FUZZ_CASES=1 cargo test -p chest-datasets --test fuzz_tables {test}",
                    damaged.escape_ascii()
                );
                resume_unwind(panic);
            }
        }
    }
    println!("{accepted} accepted, {refused} refused");
    assert!(
        cases < 100 || accepted > cases / 50 && refused > cases / 50,
        "only {accepted} accepted and {refused} refused: the damages are too heavy or too light"
    );
}

/// `result` with its error as text.
fn text<T>(result: Result<T, impl std::error::Error>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

/// Whatever a table holds, its records are sound.
fn assert_sound(dataset: &Dataset) {
    assert!(!dataset.is_empty());
    let mut images = HashSet::new();
    for (index, record) in dataset.records().iter().enumerate() {
        assert_eq!(record.labels.len(), dataset.labels().len());
        assert!(images.insert(&record.image), "{:?}", record.image);
        for name in [&record.image, &record.patient] {
            assert!(
                !name.trim().is_empty() && !name.contains(['\r', '\n']),
                "{name:?}"
            );
        }
        assert!(record.age.is_none_or(|age| age.is_finite() && age >= 0.0));
        assert!(record.row > 1);
        if index > 0 {
            let (before, place) = (dataset.place(index - 1), dataset.place(index));
            assert!(
                before.table != place.table || before.row < place.row,
                "{place}"
            );
        }
    }
    for label in dataset.labels() {
        assert!(
            !label.trim().is_empty() && !label.contains(['\r', '\n']),
            "{label:?}"
        );
    }
}

/// `dataset` as a table `image,patient,<label>...`.
fn write_csv(dataset: &Dataset, path: &Path) {
    let mut writer = csv::Writer::from_path(path).unwrap();
    let labels = dataset.labels().names().iter().map(String::as_str);
    writer
        .write_record(labels.chain(["image", "patient"]))
        .unwrap();
    for record in dataset.records() {
        let values = record.labels.iter().map(|value| match value {
            LabelValue::Negative => "0",
            LabelValue::Positive => "1",
            LabelValue::Uncertain => "-1",
            LabelValue::Missing => "",
        });
        let names = [record.image.as_str(), record.patient.as_str()];
        writer.write_record(values.chain(names)).unwrap();
    }
    writer.flush().unwrap();
}

#[test]
fn any_table() {
    let table = "image,patient,Mass,Pleural Effusion\n\
        p1/a.png,p1,1,0\np1/b.png,p1,-1.0,\n\"c, d.png\",p 2,0.0,1.0\ne.png,p3,,-1\n";
    let other = folder();
    fuzz("any_table", &[("table.csv", table)], |folder| {
        let dataset = text(Dataset::from_csv(folder.join("table.csv"), None))?;
        assert_sound(&dataset);
        let written = other.path().join("written.csv");
        write_csv(&dataset, &written);
        let copy = Dataset::from_csv(&written, None).unwrap();
        assert_eq!(copy.labels(), dataset.labels());
        let without_row = |record: &Record| Record {
            row: 0,
            ..record.clone()
        };
        assert!(
            copy.records()
                .iter()
                .map(without_row)
                .eq(dataset.records().iter().map(without_row))
        );
        Ok(dataset)
    });
}

const ENTRIES: &str = "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,\
    View Position,OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y]\n\
    00000001_000.png,Cardiomegaly,0,1,57,M,PA,2682,2749,0.143,0.143\n\
    00000001_001.png,Cardiomegaly|Emphysema,1,1,58,M,PA,2894,2729,0.143,0.143\n\
    00000002_000.png,No Finding,0,2,80,F,AP,2500,2048,0.171,0.171\n\
    00000003_000.png,Hernia|Pleural_Thickening,0,3,74,F,PA,2500,2048,0.168,0.168\n";

fn nih(folder: &Path) -> Result<ChestXray14, String> {
    let nih = text(ChestXray14::open(folder))?;
    assert_sound(&nih.dataset);
    Ok(nih)
}

#[test]
fn nih_entries_of_2020() {
    fuzz(
        "nih_entries_of_2020",
        &[("Data_Entry_2017_v2020.csv", ENTRIES)],
        nih,
    );
}

#[test]
fn nih_entries_of_2017() {
    let table = "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,\
        View Position,OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y],\r\n\
        00000001_000.png,Cardiomegaly,000,00001,058Y,M,PA,2682,2749,0.143,0.143,\r\n\
        00000002_000.png,Infiltrate|Mass,000,00002,006M,F,AP,2500,2048,0.171,0.171,\r\n\
        00000003_000.png,No Finding,000,00003,,,,2500,2048,0.168,0.168,\r\n";
    fuzz(
        "nih_entries_of_2017",
        &[("Data_Entry_2017.csv", table)],
        nih,
    );
}

#[test]
fn nih_boxes() {
    let list = "Image Index,Finding Label,Bbox [x,y,w,h],,,\r\n\
        00013118_008.png,Atelectasis,225.084745762712,547.019216763771,86.7796610169491,79.1864406779661,,,\r\n\
        00014716_007.png,Infiltrate,686.101694915254,131.543498111512,185.491525423729,313.491525423729,,,\r\n\
        00029817_009.png,Mass,0,317,155.118644067797,216.949152542373,,,\r\n";
    fuzz("nih_boxes", &[("BBox_List_2017.csv", list)], |folder| {
        fs::write(folder.join("Data_Entry_2017.csv"), ENTRIES).unwrap();
        let boxes = nih(folder)?.boxes;
        assert!(!boxes.is_empty());
        for b in &boxes {
            assert!(
                [b.x, b.y, b.width, b.height]
                    .iter()
                    .all(|pixels| pixels.is_finite())
            );
            assert!(
                b.x >= 0.0 && b.y >= 0.0 && b.width > 0.0 && b.height > 0.0,
                "{b:?}"
            );
        }
        Ok(boxes)
    });
}

/// Ten images of five patients.
fn dataset() -> Dataset {
    let records = (0..10).map(|row: u64| {
        let patient = (row / 2).to_string();
        Record::new(
            format!("{row}.png"),
            patient,
            [LabelValue::Negative],
            row + 2,
        )
    });
    Dataset::new(
        "table.csv",
        LabelSet::new(["Mass"]).unwrap(),
        records.collect(),
    )
    .unwrap()
}

fn assert_sound_split(split: &Split, dataset: &Dataset) {
    for side in Side::ALL {
        let indices = split.side(side);
        assert!(
            indices.is_sorted_by(|first, second| first < second),
            "{indices:?}"
        );
        assert!(indices.iter().all(|index| *index < dataset.len()));
    }
    split.check(dataset);
}

#[test]
fn image_lists() {
    let files = [
        ("train_val_list.txt", "0.png\n1.png\n2.png\n3.png\n4.png\n"),
        ("test_list.txt", "6.png\n7.png\n8.png\n9.png"),
    ];
    let dataset = dataset();
    fuzz("image_lists", &files, |folder| {
        let [train_val, test] = files.map(|(name, _)| ImageList::open(folder.join(name)));
        let lists = OfficialLists {
            train_val: text(train_val)?,
            test: text(test)?,
        };
        for list in [&lists.train_val, &lists.test] {
            assert!(!list.images.is_empty());
            let blank = |image: &String| image.trim().is_empty() || image.contains(['\r', '\n']);
            assert!(!list.images.iter().any(blank), "{:?}", list.images);
        }
        let split = text(Split::official(&dataset, &lists, 42))?;
        assert_sound_split(&split, &dataset);
        Ok(split)
    });
}

#[test]
fn splits() {
    let table = "image,patient,split\n0.png,0,train\n1.png,0,train\n2.png,1,train\n\
        4.png,2,validation\n5.png,2,val\n6.png,3,test\n8.png,4,test\n";
    let (dataset, other) = (dataset(), folder());
    fuzz("splits", &[("split.csv", table)], |folder| {
        let split = text(Split::from_csv(folder.join("split.csv"), &dataset))?;
        assert_sound_split(&split, &dataset);
        let written = other.path().join("written.csv");
        split.write_csv(&written, &dataset).unwrap();
        assert_eq!(Split::from_csv(&written, &dataset).unwrap(), split);
        Ok(split)
    });
}

#[test]
fn chexpert() {
    const HEADER: &str = "Path,Sex,Age,Frontal/Lateral,AP/PA,No Finding,Edema,Support Devices\n";
    let row = |path: &str, rest: &str| format!("CheXpert-v1.0-small/{path},{rest}\n");
    let train = [
        HEADER,
        &row(
            "train/patient00001/study1/view1_frontal.jpg",
            "Female,68,Frontal,AP,1.0,,1.0",
        ),
        &row(
            "train/patient00002/study2/view1_frontal.jpg",
            "Male,87,Frontal,PA,,-1.0,",
        ),
        &row(
            "train/patient00002/study2/view2_lateral.jpg",
            "Male,87,Lateral,,,-1.0,0.0",
        ),
        &row(
            "train/patient00003/study1/view1_frontal.jpg",
            "Unknown,0,Frontal,LL,,,",
        ),
    ];
    let valid = [
        HEADER,
        &row(
            "valid/patient64541/study1/view1_frontal.jpg",
            "Male,73,Frontal,AP,0.0,1.0,0.0",
        ),
        &row(
            "valid/patient64542/study1/view1_frontal.jpg",
            "Male,70,Frontal,PA,0.0,0.0,1.0",
        ),
    ];
    let (train, valid) = (train.concat(), valid.concat());
    let files = [("train.csv", train.as_str()), ("valid.csv", valid.as_str())];
    fuzz("chexpert", &files, |folder| {
        let chexpert = text(CheXpert::open(folder))?;
        assert_sound(&chexpert.dataset);
        assert_eq!(chexpert.train.end, chexpert.valid.start);
        assert_eq!(chexpert.valid.end, chexpert.dataset.len());
        for record in chexpert.dataset.records() {
            assert!(
                record.image.starts_with(&format!("{}/", record.patient)),
                "{record:?}"
            );
        }
        Ok(chexpert)
    });
}
