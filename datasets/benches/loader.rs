//! The loader against PyTorch's `DataLoader`: 8-bit grey PNGs of 1024 by 1024 pixels to batches of
//! 224 by 224, by two threads or two workers, in images per second; and the loader from its cache
//! against itself, decoding.
//!
//! All run in turn, in every round in the same order, and ratios are taken within a round: so what
//! else the machine does meets all of them. No start of a process or of a worker is counted.
//!
//! - `CHEXNET_TEST_DATA`: real images are taken from its folder `nih-originals`; else made ones.
//! - `CHEXNET_PEER_PYTHON`: a Python with torch, torchvision, Pillow and NumPy; else `python3`.
#![allow(missing_docs)]

use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use chest_datasets::{
    Dataset, ImageSource, LabelSet, LabelValue, Loader, LoaderConfig, OnBadImage, PackedCache,
    Record, epoch_order,
};
use image::codecs::png::{CompressionType, FilterType, PngEncoder};

const SIZE: usize = 224;
const BATCH: usize = 16;
const WORKERS: usize = 2;
const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../benches/peers/loader.py");

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// One that loads every image once and says how many it loaded per second.
type Epoch = Box<dyn FnMut() -> Result<f64>>;

fn main() -> Result<()> {
    // `cargo bench` says `--bench`; `cargo test` does not, and only wants to see it run.
    let (images, rounds) = if std::env::args().any(|argument| argument == "--bench") {
        (105, 11)
    } else {
        (4, 1)
    };
    rayon::ThreadPoolBuilder::new()
        .num_threads(WORKERS)
        .build_global()?;

    let folder = tempfile::tempdir()?;
    write_images(folder.path(), images)?;
    let loader = loader(folder.path(), images)?;
    let grey = mean_grey(&loader)?;
    let mut epoch = 0;
    let cached = cached(&loader, &folder.path().join("cache"))?;
    let own: Epoch = Box::new(move || {
        epoch += 1;
        load(&loader, epoch, 1)
    });
    // An epoch from the cache takes less than a millisecond: many, to be measured.
    let cached: Epoch = Box::new(move || load(&cached, 0, 200));
    let mut all = vec![("this loader", own), ("this loader, cache", cached)];
    if let Some(python) = peer_python() {
        for (name, decoder) in [
            ("DataLoader, PIL", "pil"),
            ("DataLoader, torchvision", "torchvision"),
        ] {
            let mut peer = Peer::start(&python, folder.path(), decoder)?;
            // Who loads other pixels does other work.
            if peer.images != images || (peer.grey - grey).abs() > 0.1 {
                return Err(format!(
                    "{name}: {} images of mean grey {}, not {images} of {grey}",
                    peer.images, peer.grey
                )
                .into());
            }
            all.push((name, Box::new(move || peer.epoch())));
        }
    }

    // By loader, then by round.
    let mut speeds = vec![Vec::new(); all.len()];
    for _ in 0..rounds {
        for ((_, epoch), speeds) in all.iter_mut().zip(&mut speeds) {
            speeds.push(epoch()?);
        }
    }
    println!("{images} PNGs to {SIZE}x{SIZE}, {WORKERS} threads or workers, {rounds} rounds");
    for ((name, _), own) in all.iter().zip(&speeds) {
        println!("{name:24} {} images/s", Spread::of(own.clone()));
    }
    let ratio = |own: usize, other: usize| {
        let rounds = speeds[own].iter().zip(&speeds[other]);
        let ratios = rounds.map(|(own, other)| own / other).collect();
        println!(
            "{:24} {} times {}",
            all[own].0,
            Spread::of(ratios),
            all[other].0
        );
    };
    ratio(1, 0);
    (2..all.len()).for_each(|peer| ratio(0, peer));
    Ok(())
}

/// The median of some values and their range.
struct Spread {
    least: f64,
    median: f64,
    greatest: f64,
}

impl Spread {
    /// Of an odd number of values.
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self {
            least: values[0],
            median: values[values.len() / 2],
            greatest: values[values.len() - 1],
        }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            least,
            median,
            greatest,
        } = self;
        write!(formatter, "{median:8.2} ({least:.2} to {greatest:.2})")
    }
}

/// The file of the image `index`.
fn file(folder: &Path, index: usize) -> PathBuf {
    folder.join(format!("{index:03}.png"))
}

/// Writes so many images: the real ones over and over, or made ones.
fn write_images(folder: &Path, images: usize) -> Result<()> {
    let mut originals = Vec::new();
    if let Some(data) = std::env::var_os("CHEXNET_TEST_DATA") {
        for entry in fs::read_dir(Path::new(&data).join("nih-originals"))? {
            originals.push(entry?.path());
        }
        originals.sort();
    }
    if originals.is_empty() {
        println!("CHEXNET_TEST_DATA is not set: made images instead of real ones");
    }
    for index in 0..images {
        let path = file(folder, index);
        match originals.get(index % originals.len().max(1)) {
            Some(original) => {
                fs::copy(original, path)?;
            }
            None if index < 8 => made_image(&path, index)?,
            None => {
                fs::copy(file(folder, index % 8), path)?;
            }
        }
    }
    Ok(())
}

/// An image whose PNG is like a radiograph's: smooth, with noise in the last bits, and compressed
/// as zlib does by default.
fn made_image(path: &Path, index: usize) -> Result<()> {
    let mut state = index as u32;
    let made = image::GrayImage::from_fn(1024, 1024, |x, y| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let wave = (x as f32 / 90.0).sin() * (y as f32 / 130.0 + index as f32).cos();
        image::Luma([(120.0 + 100.0 * wave) as u8 + (state >> 30) as u8])
    });
    let encoder = PngEncoder::new_with_quality(
        BufWriter::new(fs::File::create(path)?),
        CompressionType::Level(6),
        FilterType::Adaptive,
    );
    made.write_with_encoder(encoder)?;
    Ok(())
}

fn loader(folder: &Path, images: usize) -> Result<Loader> {
    let records = (0..images)
        .map(|index| {
            let image = format!("{index:03}.png");
            let row = index as u64 + 2;
            Record::new(image, "1", [LabelValue::Negative], row)
        })
        .collect();
    let dataset = Dataset::new("table.csv", LabelSet::new(["Mass"])?, records)?;
    let used: Vec<usize> = (0..images).collect();
    let source = ImageSource::new(Arc::new(dataset), folder, &used)?;
    Ok(Loader::new(
        Arc::new(source),
        LoaderConfig::new(SIZE, BATCH),
    )?)
}

/// The same loader from a cache in `folder`.
fn cached(loader: &Loader, folder: &Path) -> Result<Loader> {
    let source = loader.source();
    let cache = PackedCache::open_or_build(folder, source, SIZE, OnBadImage::Stop, &|_| ())?;
    Ok(loader.clone().with_cache(Arc::new(cache))?)
}

/// So many epochs of the loader in one order, in images per second.
fn load(loader: &Loader, epoch: u64, times: usize) -> Result<f64> {
    let used: Vec<usize> = (0..loader.source().dataset().len()).collect();
    let order = epoch_order(&used, 42, epoch).repeat(times);
    let begin = Instant::now();
    let mut images = 0;
    for batch in loader.batches(order) {
        images += batch?.indices.len();
    }
    Ok(images as f64 / begin.elapsed().as_secs_f64())
}

/// The mean of all grey values that the loader makes.
fn mean_grey(loader: &Loader) -> Result<f64> {
    let (mut sum, mut count) = (0, 0);
    for batch in loader.batches((0..loader.source().dataset().len()).collect()) {
        let pixels = batch?.pixels;
        sum += pixels.iter().copied().map(u64::from).sum::<u64>();
        count += pixels.len();
    }
    Ok(sum as f64 / count as f64)
}

/// The Python of the peers; `None` where it has not what they need.
fn peer_python() -> Option<OsString> {
    let python = std::env::var_os("CHEXNET_PEER_PYTHON").unwrap_or("python3".into());
    let found = Command::new(&python)
        .args(["-c", "import numpy, PIL, torch, torchvision"])
        .output();
    if found.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    println!(
        "skipped: the PyTorch peers, {} has not all of torch, torchvision, Pillow and NumPy: name \
         a Python that has in CHEXNET_PEER_PYTHON",
        python.display()
    );
    None
}

/// A process of `benches/peers/loader.py`, its workers started.
struct Peer {
    process: Child,
    answers: BufReader<ChildStdout>,
    /// What it loaded in its first epoch.
    images: usize,
    /// The mean of the grey values of these images.
    grey: f64,
}

impl Peer {
    fn start(python: &OsStr, folder: &Path, decoder: &str) -> Result<Self> {
        let mut process = Command::new(python)
            .arg(PEER)
            .arg(folder)
            .args([&SIZE.to_string(), &WORKERS.to_string(), decoder])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let answers = process.stdout.take().ok_or("the peer has no output")?;
        let mut peer = Self {
            process,
            answers: BufReader::new(answers),
            images: 0,
            grey: 0.0,
        };
        let (images, grey) = peer.answer()?;
        (peer.images, peer.grey) = (images.parse()?, grey.parse()?);
        Ok(peer)
    }

    /// One epoch, in images per second.
    fn epoch(&mut self) -> Result<f64> {
        let requests = self.process.stdin.as_mut().ok_or("the peer has no input")?;
        writeln!(requests)?;
        let (images, seconds) = self.answer()?;
        Ok(images.parse::<f64>()? / seconds.parse::<f64>()?)
    }

    /// The two numbers of a line.
    fn answer(&mut self) -> Result<(String, String)> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let numbers = line.trim_end().split_once(' ');
        let (first, second) = numbers.ok_or_else(|| format!("the peer says {line:?}"))?;
        Ok((first.to_owned(), second.to_owned()))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Closes its input, and with it the peer and its workers end.
        let _ = self.process.wait();
    }
}
