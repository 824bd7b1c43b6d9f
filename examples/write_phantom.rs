//! Writes a synthetic data set of chest X-rays in NIH's layout, and a sheet to look at.
//!
//! ```text
//! cargo run --example write_phantom -- --output phantom --images 2000 --image-size 256
//! ```

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use burn_dist::progress::Progress;
use chest_datasets::{
    ChestXray14, GrayImage, ImageSource, LabelValue, PhantomConfig, PhantomOutcome,
};
use clap::Parser;
use image::{GrayImage as Sheet, Luma, imageops};

type Error = Box<dyn std::error::Error>;

/// Write a synthetic data set of chest X-rays in the layout of NIH ChestX-ray14.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// Folder of the data set; a phantom that is there is replaced
    #[arg(long, value_name = "DIR", default_value = "phantom")]
    output: PathBuf,
    /// Images in all
    #[arg(long, value_name = "N", default_value_t = PhantomConfig::default().images)]
    images: usize,
    /// Height and width of an image in pixels, 32 to 4096
    #[arg(long, value_name = "N", default_value_t = 256)]
    image_size: usize,
    /// Share of the patients on the test list
    #[arg(long, value_name = "SHARE", default_value_t = PhantomConfig::default().test_share)]
    test_share: f32,
    /// Equal seeds give equal files
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Also write a contact sheet: a row of images for each pathology, and one without any
    #[arg(long, value_name = "PNG")]
    contact_sheet: Option<PathBuf>,
    /// Threads [default: the CPU limit of the cgroup]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

fn main() -> ExitCode {
    chexnet::main(|options: Options| -> Result<ExitCode, Error> {
        chexnet::thread_pool(options.threads.map(usize::from), 1)?;
        let config = PhantomConfig {
            images: options.images,
            image_size: options.image_size,
            test_share: options.test_share,
            seed: options.seed,
        };
        let progress = Mutex::new(Progress::new("phantom", config.images, "images"));
        let outcome = config.write(&options.output, |done| {
            let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
            progress.set(done);
        })?;
        let progress = progress.into_inner();
        progress.unwrap_or_else(PoisonError::into_inner).finish("");
        chexnet::print(format_args!(
            "{} {}",
            match outcome {
                PhantomOutcome::Written => "written into",
                PhantomOutcome::Kept => "already in",
            },
            options.output.display()
        ))?;
        if let Some(path) = &options.contact_sheet {
            contact_sheet(&options.output)?
                .save(path)
                .map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Images of a row.
const COLUMNS: usize = 8;
/// Height and width of an image on the sheet, in pixels.
const THUMBNAIL: usize = 128;

/// For each of the 14 pathologies, in the order of the CheXNet paper, the first images with it and
/// as few others as possible; in the last row images without any.
fn contact_sheet(folder: &Path) -> Result<Sheet, Error> {
    let dataset = std::sync::Arc::new(ChestXray14::open(folder)?.dataset);
    let everything: Vec<usize> = (0..dataset.len()).collect();
    let source = ImageSource::new(dataset.clone(), folder, &everything)?;
    let findings = |index: usize| {
        let labels = dataset.records()[index].labels.iter();
        labels
            .filter(|value| **value == LabelValue::Positive)
            .count()
    };
    let rows = dataset.labels().len() + 1;
    let mut sheet = Sheet::new((COLUMNS * THUMBNAIL) as u32, (rows * THUMBNAIL) as u32);
    for row in 0..rows {
        let mut shown: Vec<usize> = everything.clone();
        shown.retain(|&index| match dataset.records()[index].labels.get(row) {
            Some(value) => *value == LabelValue::Positive,
            None => findings(index) == 0,
        });
        shown.sort_by_key(|&index| findings(index));
        for (column, &index) in shown.iter().take(COLUMNS).enumerate() {
            let path = source.path(index).ok_or("an image is not in use")?;
            let pixels = GrayImage::open(path)?.resize(THUMBNAIL)?;
            let side = THUMBNAIL as u32;
            let thumbnail = Sheet::from_fn(side, side, |x, y| {
                Luma([pixels[y as usize * THUMBNAIL + x as usize]])
            });
            let (x, y) = (column * THUMBNAIL, row * THUMBNAIL);
            imageops::replace(&mut sheet, &thumbnail, x as i64, y as i64);
        }
    }
    Ok(sheet)
}
