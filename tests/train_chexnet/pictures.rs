//! A folder in NIH's layout with pictures that take milliseconds to make.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use image::{GrayImage, Luma};

const FINDINGS: [&str; 4] = ["No Finding", "Mass", "Effusion|Mass", "Hernia"];

/// `images` X-rays of 40×48 pixels, two a patient, every fourth patient on the test list. A Mass
/// is a bright left half, an Effusion a bright lower half.
pub fn write(folder: &Path, images: usize) {
    let pixels = folder.join("images_001/images");
    fs::create_dir_all(&pixels).unwrap();
    let mut table = "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,View Position\n".to_string();
    let mut lists = [String::new(), String::new()];
    for index in 0..images {
        let patient = index / 2;
        let name = format!("{patient:08}_{:03}.png", index % 2);
        let finding = FINDINGS[index % FINDINGS.len()];
        writeln!(table, "{name},{finding},{},{patient},50,F,PA", index % 2).unwrap();
        writeln!(lists[usize::from(patient % 4 == 0)], "{name}").unwrap();
        let image = GrayImage::from_fn(40, 48, |x, y| {
            let noise = (x * 7 + y * 13 + index as u32 * 31) % 50;
            let mass = if finding.contains("Mass") && x < 20 {
                120
            } else {
                0
            };
            let effusion = if finding.contains("Effusion") && y > 24 {
                80
            } else {
                0
            };
            Luma([(noise + mass + effusion).min(255) as u8])
        });
        image.save(pixels.join(name)).unwrap();
    }
    fs::write(folder.join("Data_Entry_2017_v2020.csv"), table).unwrap();
    fs::write(folder.join("train_val_list.txt"), &lists[0]).unwrap();
    fs::write(folder.join("test_list.txt"), &lists[1]).unwrap();
}
