//! The full tables of ChestX-ray14: every published count.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod real_data;

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Instant;

use chest_datasets::{ChestXray14, Pathology, Sex, Side, Split, View};
use flate2::read::GzDecoder;
use tempfile::TempDir;

/// Positive images, patients with one, positives of train_val and of test, and boxes.
const COUNTS: [(Pathology, usize, usize, usize, usize, usize); 14] = [
    (Pathology::Atelectasis, 11_559, 4_981, 8_280, 3_279, 180),
    (Pathology::Cardiomegaly, 2_776, 1_566, 1_707, 1_069, 146),
    (Pathology::Effusion, 13_317, 4_275, 8_659, 4_658, 153),
    (Pathology::Infiltration, 19_894, 8_035, 13_782, 6_112, 123),
    (Pathology::Mass, 5_782, 2_568, 4_034, 1_748, 85),
    (Pathology::Nodule, 6_331, 3_394, 4_708, 1_623, 79),
    (Pathology::Pneumonia, 1_431, 1_008, 876, 555, 120),
    (Pathology::Pneumothorax, 5_302, 1_487, 2_637, 2_665, 98),
    (Pathology::Consolidation, 4_667, 2_150, 2_852, 1_815, 0),
    (Pathology::Edema, 2_303, 1_073, 1_378, 925, 0),
    (Pathology::Emphysema, 2_516, 1_046, 1_423, 1_093, 0),
    (Pathology::Fibrosis, 1_686, 1_260, 1_251, 435, 0),
    (Pathology::PleuralThickening, 3_385, 2_006, 2_242, 1_143, 0),
    (Pathology::Hernia, 227, 134, 141, 86, 0),
];

/// The tables, unpacked. A subset of `names` may be taken.
fn unpack(data: &Path, names: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        let packed = File::open(data.join(format!("nih-labels/{name}.gz"))).unwrap();
        let mut plain = File::create(folder.path().join(name)).unwrap();
        io::copy(&mut GzDecoder::new(packed), &mut plain).unwrap();
    }
    folder
}

const ALL: [&str; 4] = [
    "Data_Entry_2017_v2020.csv",
    "train_val_list.txt",
    "test_list.txt",
    "BBox_List_2017.csv",
];

#[test]
fn every_published_count_is_met() {
    let Some(data) = real_data::folder() else {
        return;
    };
    let folder = unpack(&data, &ALL);
    let begin = Instant::now();
    let nih = ChestXray14::open(folder.path()).unwrap();
    println!("all tables read in {:?}", begin.elapsed());

    let records = nih.dataset.records();
    assert_eq!(nih.dataset.len(), 112_120);
    assert_eq!(nih.dataset.patients(), 30_805);
    let findings = |labels: &[chest_datasets::LabelValue]| -> usize {
        labels
            .iter()
            .filter(|value| value.target() == Some(1.0))
            .count()
    };
    let with = |least: usize| {
        records
            .iter()
            .filter(|r| findings(&r.labels) >= least)
            .count()
    };
    assert_eq!(112_120 - with(1), 60_361);
    assert_eq!(with(2), 20_796);
    let count = |holds: &dyn Fn(&chest_datasets::Record) -> bool| {
        records.iter().filter(|record| holds(record)).count()
    };
    assert_eq!(count(&|r| r.view == Some(View::PosteroAnterior)), 67_310);
    assert_eq!(count(&|r| r.view == Some(View::AnteroPosterior)), 44_810);
    assert_eq!(count(&|r| r.sex == Some(Sex::Male)), 63_340);
    assert_eq!(count(&|r| r.sex == Some(Sex::Female)), 48_780);
    let ages = records.iter().map(|record| record.age.unwrap());
    assert_eq!(ages.fold(0.0, f32::max), 95.0);
    assert_eq!(records[2].follow_up, Some(2));
    assert_eq!(records[112_119].row, 112_121);

    let lists = nih.lists.as_ref().unwrap();
    assert_eq!(lists.train_val.images.len(), 86_524);
    assert_eq!(lists.test.images.len(), 25_596);
    let test: HashSet<&str> = lists.test.images.iter().map(String::as_str).collect();
    let positives = nih.dataset.positives();
    for (pathology, images, patients, train_val, in_test, boxes) in COUNTS {
        let label = pathology as usize;
        assert_eq!(positives[label], images, "{pathology}");
        let positive: Vec<_> = records
            .iter()
            .filter(|record| record.labels[label].target() == Some(1.0))
            .collect();
        let of: HashSet<&str> = positive.iter().map(|record| &*record.patient).collect();
        assert_eq!(of.len(), patients, "{pathology}");
        let tested = positive.iter().filter(|r| test.contains(&*r.image)).count();
        assert_eq!(
            (positive.len() - tested, tested),
            (train_val, in_test),
            "{pathology}"
        );
        let boxed = nih.boxes.iter().filter(|b| b.label == pathology).count();
        assert_eq!(boxed, boxes, "{pathology}");
    }

    assert_eq!(nih.boxes.len(), 984);
    let boxed: HashSet<&str> = nih.boxes.iter().map(|b| &*b.image).collect();
    assert_eq!(boxed.len(), 880);
    let positions = nih.dataset.positions();
    for b in &nih.boxes {
        assert!(test.contains(&*b.image));
        let record = &records[positions[&*b.image]];
        assert_eq!(record.labels[b.label as usize].target(), Some(1.0));
        assert!(b.x + b.width <= 1024.5 && b.y + b.height <= 1024.5, "{b:?}");
    }
}

#[test]
fn the_official_split_is_disjoint_and_a_random_one_as_well() {
    let Some(data) = real_data::folder() else {
        return;
    };
    let folder = unpack(&data, &ALL);
    let nih = ChestXray14::open(folder.path()).unwrap();

    let begin = Instant::now();
    let official = Split::official(&nih.dataset, nih.lists.as_ref().unwrap(), 42).unwrap();
    let report = official.check(&nih.dataset);
    println!(
        "official split and its check in {:?}\n{report}",
        begin.elapsed()
    );
    official.ensure_disjoint(&nih.dataset).unwrap();
    assert_eq!(official.train().len() + official.validation().len(), 86_524);
    assert_eq!(
        report.sides.map(|side| side.patients),
        [25_207, 2_801, 2_797]
    );
    assert_eq!(report.sides[2].images, 25_596);
    assert_eq!(report.left_out, 0);

    let random = Split::random(&nih.dataset, 42);
    let report = random.check(&nih.dataset);
    println!("{report}");
    assert!(report.is_disjoint());
    assert_eq!(
        report.sides.map(|side| side.patients),
        [21_563, 3_081, 6_161]
    );
    assert_eq!(report.left_out, 0);
    for side in Side::ALL {
        assert_ne!(
            random.side(side),
            Split::random(&nih.dataset, 43).side(side)
        );
    }

    // A split of images, as published code has it, leaks.
    let (train, rest): (Vec<usize>, Vec<usize>) = (0..nih.dataset.len()).partition(|i| i % 10 > 0);
    let by_image = Split::new(&nih.dataset, train, rest, vec![]).unwrap();
    let error = by_image
        .ensure_disjoint(&nih.dataset)
        .unwrap_err()
        .to_string();
    assert!(error.contains("patients and 0 images of"), "{error}");
}

#[test]
fn lists_and_boxes_are_optional_and_no_image_is_needed() {
    let Some(data) = real_data::folder() else {
        return;
    };
    let folder = unpack(&data, &ALL[..1]);
    let nih = ChestXray14::open(folder.path()).unwrap();
    assert_eq!(nih.lists, None);
    assert!(nih.boxes.is_empty());
}

#[test]
fn a_folder_without_tables_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display();
    assert_eq!(
        ChestXray14::open(folder.path()).unwrap_err().to_string(),
        format!(
            "{path}: there is no Data_Entry_2017_v2020.csv in this folder, nor a \
             Data_Entry_2017.csv: name the folder that the files of NIH ChestX-ray14 are in, or \
             the CSV table itself for other data"
        )
    );
    assert_eq!(
        ChestXray14::open(folder.path().join("absent"))
            .unwrap_err()
            .to_string(),
        format!("{path}/absent: cannot be read: No such file or directory (os error 2)")
    );
}

#[test]
fn the_table_of_2017_is_read_where_that_of_2020_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("Data_Entry_2017.csv"),
        "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,\
         View Position,OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y],\n\
         00000001_000.png,Cardiomegaly,0,1,058Y,M,PA,2682,2749,0.143,0.143,\n",
    )
    .unwrap();
    let nih = ChestXray14::open(folder.path()).unwrap();
    assert_eq!(nih.dataset.records()[0].age, Some(58.0));
    assert!(nih.dataset.table().ends_with("Data_Entry_2017.csv"));
}
