//! DenseNet-121 on the CPU beside PyTorch and ONNX Runtime: training steps and inference, in turn, in several rounds.
//!
//! `cargo bench --bench network`, with options behind `--`: the task (`train` or `infer`), batch, image size, threads, rounds.
//! Peers are there if `CHEXNET_PEER_PYTHON` names a Python that has them. Every contender is a process of its own, warm
//! before the first round and waiting while others are measured.
#![allow(missing_docs)]

mod contender;
mod own;

#[path = "../report/mod.rs"]
mod report;

use std::collections::BTreeMap;
use std::error::Error;

use clap::{Parser, ValueEnum};
use contender::Contender;
use report::{Report, Sample, Spread};

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Task {
    /// Forward, loss, backward, Adam.
    Train,
    /// Logits.
    Infer,
}

impl Task {
    fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Infer => "infer",
        }
    }

    /// Steps of a contender before the others' turn.
    fn steps(self) -> usize {
        match self {
            Self::Train => 3,
            Self::Infer => 8,
        }
    }
}

/// What is measured.
#[derive(Clone, Debug, Parser)]
pub struct Options {
    /// Both unless named
    #[arg(long)]
    task: Option<Task>,
    /// Images of a step [default: 8 and 16 in training, 1 and 8 otherwise]
    #[arg(long)]
    batch: Option<usize>,
    /// Pixels along a side
    #[arg(long, default_value_t = 224)]
    size: usize,
    /// Threads of each contender
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Rounds, in each of which every contender has a turn
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Only contenders whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Cargo's own
    #[arg(long, hide = true)]
    bench: bool,
}

/// One contender at one size.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub task: Task,
    pub batch: usize,
    pub size: usize,
    pub threads: usize,
}

fn main() -> Result<()> {
    if let Some(case) = own::case_from_environment()? {
        return own::run(case);
    }
    if std::env::args().any(|argument| argument == "--test") {
        report::self_check();
        return Ok(());
    }
    let options = Options::parse();
    let tasks = match options.task {
        Some(task) => vec![task],
        None => vec![Task::Train, Task::Infer],
    };
    for task in tasks {
        let batches = match (options.batch, task) {
            (Some(batch), _) => vec![batch],
            (None, Task::Train) => vec![8, 16],
            (None, Task::Infer) => vec![1, 8],
        };
        for batch in batches {
            let case = Case {
                task,
                batch,
                size: options.size,
                threads: options.threads,
            };
            measure(case, &options)?;
        }
    }
    Ok(())
}

fn measure(case: Case, options: &Options) -> Result<()> {
    println!(
        "\n{} with batches of {} at {} pixels, {} threads",
        case.task.name(),
        case.batch,
        case.size,
        case.threads
    );
    let mut contenders = Vec::new();
    for name in contender::all(case.task) {
        if name.contains(&options.only) {
            contenders.push(Contender::start(name, case)?);
        }
    }
    // The processes have just been at work: what is reported is the load without.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let mut report = Report::new();
    let mut peaks = BTreeMap::new();
    for round in 0..options.rounds {
        for contender in &mut contenders {
            let measured = contender.measure()?;
            peaks.insert(contender.name(), measured.peak_kib);
            if let Some(seconds) = Spread::of(measured.seconds) {
                report.samples.push(Sample {
                    contender: contender.name().to_string(),
                    size: case.batch as u64,
                    round,
                    seconds: seconds.median,
                });
            }
        }
        println!("round {} of {}", round + 1, options.rounds);
    }
    report.close();
    print(&report, case, &peaks);
    let folder = std::path::Path::new("target/network");
    std::fs::create_dir_all(folder)?;
    let name = format!("{}-{}-{}.json", case.task.name(), case.batch, case.size);
    report.write_json(&folder.join(name))
}

/// Images per second, and how many times as fast and as large this project is, round by round.
fn print(report: &Report, case: Case, peaks: &BTreeMap<&str, u64>) {
    let size = case.batch as u64;
    println!("{}", report.machine.join(", "));
    println!(
        "{:<24} {:>22} {:>24} {:>10} {:>8}",
        "", "images/s (spread)", "kernels : this (spread)", "peak MiB", "ratio"
    );
    let own = peaks.get(contender::KERNELS).copied().unwrap_or(0) as f64;
    for name in report.contenders() {
        let rate = |seconds: f64| case.batch as f64 / seconds;
        let rates = report.spread(&name, size).map_or(String::new(), |s| {
            let (least, greatest) = (rate(s.greatest), rate(s.least));
            format!("{:.2} ({least:.2}–{greatest:.2})", rate(s.median))
        });
        let ratio = report.ratio(contender::KERNELS, &name, size);
        let ratio = ratio.map_or(String::new(), |s| {
            format!("{:.2} ({:.2}–{:.2})", s.median, s.least, s.greatest)
        });
        let peak = peaks.get(name.as_str()).copied().unwrap_or(0) as f64;
        println!(
            "{name:<24} {rates:>22} {ratio:>24} {:>10.0} {:>8.2}",
            peak / 1024.0,
            own / peak
        );
    }
}
