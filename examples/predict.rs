//! Probabilities of every label for X-rays, and heat maps of where the evidence lies.
//!
//! ```text
//! cargo run --example predict -- --weights runs/train_chexnet/best.safetensors scan.png scans/
//! ```

use std::io::{IsTerminal, Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use burn_chexnet::predict::{
    HeatMapLabels, HeatMaps, ImageFiles, OutputFile, OutputFormat, PredictOptions,
    PredictionWriter, predict,
};
use burn_chexnet::train::DeviceName;
use burn_chexnet::weights::Network;
use burn_dist::progress::{Progress, write_line};
use chest_datasets::OnBadImage;
use clap::Parser;

/// Predict the findings of chest X-rays (PNG or JPEG) with trained weights.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// Images, or folders with images
    #[arg(required = true, value_name = "FILE|DIR")]
    images: Vec<PathBuf>,
    /// Weights, such as the best.safetensors of a run
    #[arg(
        long,
        value_name = "FILE",
        default_value = "runs/train_chexnet/best.safetensors"
    )]
    weights: PathBuf,
    /// table, csv or json
    #[arg(long, default_value_t)]
    format: OutputFormat,
    /// Where the probabilities go [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write heat maps (class activation maps over the images) into this folder
    #[arg(long, value_name = "DIR")]
    cam: Option<PathBuf>,
    /// The labels of each image that get a heat map: highest, all, or names between commas
    #[arg(
        long,
        value_name = "LABELS",
        default_value = "highest",
        requires = "cam"
    )]
    cam_labels: HeatMapLabels,
    /// Images that the network computes at once
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=4096))]
    batch_size: u16,
    /// stop or skip an image that cannot be decoded
    #[arg(long, value_name = "stop|skip", default_value_t)]
    on_bad_image: OnBadImage,
    /// Threads [default: the CPU limit of the cgroup]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Where to compute: cpu
    #[arg(long, default_value_t)]
    device: DeviceName,
}

fn main() -> ExitCode {
    chexnet::main(run)
}

fn run(options: Options) -> Result<ExitCode, Box<dyn std::error::Error>> {
    chexnet::thread_pool(options.threads.map(usize::from), 1)?;
    let device = options.device.device();
    let network = Network::open(&options.weights, &device)?;
    let images = ImageFiles::find(&options.images)?;
    if let Some(path) = &options.output {
        ensure_no_input(path, &options.weights, &images)?;
    }
    write_line(&format!(
        "{}: {} ({} tensors) at {} pixels on {} images{}",
        options.weights.display(),
        network.metadata().architecture,
        network.report().loaded,
        network.metadata().preprocessing.image_size,
        images.files.len(),
        match images.others {
            0 => String::new(),
            others => format!("; {others} files that are no PNG or JPEG are left out"),
        }
    ));
    let settings = PredictOptions {
        batch_size: options.batch_size.into(),
        on_bad_image: options.on_bad_image,
        heat_maps: options.cam.clone().map(|folder| HeatMaps {
            folder,
            labels: options.cam_labels,
        }),
    };
    // A bar between the lines of a table would make both unreadable.
    let shown = options.output.is_some() || !stdout().is_terminal();
    let mut progress = shown.then(|| Progress::new("predict", images.files.len(), "images"));
    let advance = |behind| {
        if let Some(progress) = &mut progress {
            progress.set(behind);
        }
    };
    let (mut terminal, mut file) = (stdout(), None);
    let output: &mut dyn Write = match &options.output {
        None => &mut terminal,
        Some(path) => file.insert(
            OutputFile::create(path)
                .map_err(|error| format!("--output {}: {error}", path.display()))?,
        ),
    };
    let labels = &network.metadata().labels;
    let mut writer = PredictionWriter::new(output, options.format, labels)?;
    let files = &images.files;
    let summary = predict(&network, files, &settings, &device, &mut writer, advance)?;
    writer.finish()?;
    if let Some(file) = file {
        file.commit()?;
    }
    if let Some(progress) = progress {
        progress.finish("");
    }
    for skipped in &summary.skipped {
        write_line(&format!("left out: {skipped}"));
    }
    if let Some(folder) = options.cam {
        write_line(&format!(
            "{} heat maps in {}",
            summary.heat_maps,
            folder.display()
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// A slip of the hand must not replace the weights or an X-ray by a table.
fn ensure_no_input(output: &Path, weights: &Path, images: &ImageFiles) -> Result<(), String> {
    let Ok(output) = output.canonicalize() else {
        return Ok(()); // It is not there yet.
    };
    let inputs = images.files.iter().map(|image| image.path.as_path());
    let same = |input: &Path| input.canonicalize().is_ok_and(|input| input == output);
    match inputs.chain([weights]).find(|input| same(input)) {
        None => Ok(()),
        Some(input) => Err(format!(
            "--output: {} is read as input: name another file",
            input.display()
        )),
    }
}
