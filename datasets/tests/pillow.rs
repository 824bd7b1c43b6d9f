//! Resized and cropped images against Pillow's: the same grey, the same anti-aliased bilinear filter
//! and the same centre.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod real_data;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use chest_datasets::GrayImage;

const REFERENCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/reference");

/// The mean and the greatest difference of grey levels.
fn difference(own: &[u8], reference: &[u8]) -> (f64, u8) {
    assert_eq!(own.len(), reference.len());
    let differences = own.iter().zip(reference).map(|(a, b)| a.abs_diff(*b));
    let sum: f64 = differences.clone().map(f64::from).sum();
    (sum / own.len() as f64, differences.max().unwrap())
}

#[test]
fn originals_are_resized_as_pillow_does() {
    let Some(data) = real_data::folder() else {
        return;
    };
    for size in [224, 256] {
        let mut table = csv::Reader::from_path(format!("{REFERENCE}/resize_{size}.csv")).unwrap();
        let positions: Vec<usize> = table
            .headers()
            .unwrap()
            .iter()
            .skip(3)
            .map(|name| name.parse().unwrap())
            .collect();
        let mut images = 0;
        let mut worst = (0.0, 0);
        for row in table.records() {
            let row = row.unwrap();
            let image = GrayImage::open(data.join("nih-originals").join(&row[0])).unwrap();
            let pixels = image.resize(size).unwrap();

            let count = pixels.len() as f64;
            let mean = pixels.iter().copied().map(f64::from).sum::<f64>() / count;
            let squares = pixels
                .iter()
                .map(|&pixel| (f64::from(pixel) - mean).powi(2));
            let deviation = (squares.sum::<f64>() / count).sqrt();
            assert!(
                (mean - row[1].parse::<f64>().unwrap()).abs() < 0.1,
                "{row:?}: {mean}"
            );
            assert!(
                (deviation - row[2].parse::<f64>().unwrap()).abs() < 0.1,
                "{row:?}: {deviation}"
            );

            let own: Vec<u8> = positions.iter().map(|&position| pixels[position]).collect();
            let reference: Vec<u8> = row
                .iter()
                .skip(3)
                .map(|value| value.parse().unwrap())
                .collect();
            let (average, greatest) = difference(&own, &reference);
            assert!(
                average <= 0.05 && greatest <= 2,
                "{}: {average}, {greatest}",
                &row[0]
            );
            worst = (f64::max(worst.0, average), worst.1.max(greatest));
            images += 1;
        }
        println!(
            "{images} originals at {size}: mean difference at most {:.3}, any at most {}",
            worst.0, worst.1
        );
        assert_eq!(images, 21);
    }
}

/// Every pixel that the reference makes of `images` with `arguments`, by Pillow; `None` where Python
/// has no Pillow.
fn pillow(arguments: &[&str], images: &[PathBuf]) -> Option<Vec<u8>> {
    let found = Command::new("python3")
        .args(["-c", "import PIL, numpy"])
        .output();
    if !found.is_ok_and(|output| output.status.success()) {
        println!("skipped: python3 with Pillow and NumPy is not installed");
        return None;
    }
    let output = Command::new("python3")
        .arg(format!("{REFERENCE}/resize_pil.py"))
        .args(arguments)
        .args(images)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(output.stdout)
}

/// Compares what `own` makes of `images`, `size` by `size` pixels, with what the reference makes of
/// them with `arguments`.
fn compare(
    images: &[PathBuf],
    arguments: &[&str],
    size: usize,
    own: impl Fn(&GrayImage) -> Vec<u8>,
) {
    let Some(reference) = pillow(arguments, images) else {
        return;
    };
    let mut worst = (0.0, 0);
    assert_eq!(reference.len(), images.len() * size * size);
    for (path, reference) in images.iter().zip(reference.chunks(size * size)) {
        let own = own(&GrayImage::open(path).unwrap());
        let (average, greatest) = difference(&own, reference);
        assert!(
            average <= 0.05 && greatest <= 2,
            "{}: {average}, {greatest}",
            path.display()
        );
        worst = (f64::max(worst.0, average), worst.1.max(greatest));
    }
    println!(
        "{} images, {}: mean difference at most {:.4}, any at most {}",
        images.len(),
        arguments.join(" "),
        worst.0,
        worst.1
    );
}

fn compare_resized(images: &[PathBuf], size: usize) {
    let arguments = ["pixels", &size.to_string()];
    compare(images, &arguments, size, |image| {
        image.resize(size).unwrap()
    });
}

fn compare_cropped(images: &[PathBuf], short_side: usize, size: usize) {
    let arguments = ["crops", &short_side.to_string(), &size.to_string()];
    compare(images, &arguments, size, |image| {
        image.resize_and_crop(short_side, size).unwrap()
    });
}

fn pngs(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths
}

#[test]
fn every_pixel_of_real_images_is_pillows() {
    let Some(data) = real_data::folder() else {
        return;
    };
    let originals = pngs(&data.join("nih-originals"));
    let sample = pngs(&data.join("nih-sample/images_001/images"));
    for size in [224, 256, 320] {
        compare_resized(&originals, size);
    }
    compare_resized(&sample[..40], 224);
}

#[test]
fn every_pixel_of_crops_of_real_images_is_pillows() {
    let Some(data) = real_data::folder() else {
        return;
    };
    let originals = pngs(&data.join("nih-originals"));
    let folder = tempfile::tempdir().unwrap();
    let mut elongated = Vec::new();
    for (path, (width, height)) in originals.iter().zip(
        [(1024, 841), (838, 1022), (1001, 250), (77, 640)]
            .into_iter()
            .cycle(),
    ) {
        let part = image::open(path).unwrap().crop_imm(0, 2, width, height);
        elongated.push(folder.path().join(path.file_name().unwrap()));
        part.save(elongated.last().unwrap()).unwrap();
    }
    for (short_side, size) in [(256, 224), (224, 224), (255, 224), (320, 299)] {
        compare_cropped(&originals, short_side, size);
        compare_cropped(&elongated, short_side, size);
    }
}

#[test]
fn every_pixel_of_made_images_is_pillows() {
    let folder = tempfile::tempdir().unwrap();
    // Waves of many lengths, in three colours, with hard edges.
    let colored = image::RgbImage::from_fn(531, 317, |x, y| {
        let wave = |length: f32| 127.0 + 127.0 * ((x * x + 3 * y) as f32 / length).sin();
        let edge = if (x / 40 + y / 25) % 2 == 0 { 60 } else { 0 };
        image::Rgb([wave(9000.0) as u8, wave(700.0) as u8 / 2 + edge, edge * 4])
    });
    let paths = ["rgb.png", "grey.png", "rgba.png", "rgb.jpg", "grey.jpg"]
        .map(|name| folder.path().join(name));
    let [rgb, grey, rgba, rgb_jpeg, grey_jpeg] = &paths;
    let dynamic = image::DynamicImage::from(colored);
    dynamic.save(rgb).unwrap();
    dynamic.to_luma8().save(grey).unwrap();
    dynamic.to_rgba8().save(rgba).unwrap();
    dynamic.save(rgb_jpeg).unwrap();
    dynamic.to_luma8().save(grey_jpeg).unwrap();
    for size in [64, 224, 600] {
        compare_resized(&paths, size);
    }
    for (short_side, size) in [(64, 63), (224, 224), (317, 200), (600, 333)] {
        compare_cropped(&paths, short_side, size);
    }
}
