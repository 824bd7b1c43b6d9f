//! All-reduce between processes of this machine, against Gloo and Open MPI, by size.
//!
//! All contenders run in turn in each round, each time in another order, and ratios are taken within a round; so do the
//! limits of the machine. A peer that is not there is said to be skipped.
//!
//! - `CHEXNET_PEER_PYTHON`: a Python with torch, for Gloo; else `python3`.
//! - `PEER_MPI`: a folder with `bin/mpirun` of Open MPI and `bin/python` with mpi4py and NumPy.
//!
//! Options behind `--`: `--ranks N`, `--rounds N`, `--seconds S` of each size, `--output FOLDER` for JSON and figures,
//! `--require` to fail where a goal is missed.
#![allow(missing_docs)]

mod contenders;
mod goals;
mod limits;
mod over_bytes;
#[path = "../../../../benches/report/mod.rs"]
mod report;

use std::error::Error;
use std::path::PathBuf;

use contenders::contenders;
use report::{Report, Sample};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

struct Settings {
    ranks: usize,
    rounds: usize,
    seconds: f64,
    sizes: Vec<u64>,
    output: Option<PathBuf>,
    require: bool,
}

/// One that measures all sizes.
struct Contender {
    name: &'static str,
    measure: Box<Measure>,
}

/// Bytes and seconds of each size.
type Times = Vec<(u64, f64)>;
type Measure = dyn Fn(&Settings) -> Result<Times>;

fn main() -> Result<()> {
    report::self_check();
    let settings = settings()?;
    let contenders = contenders(&settings)?;
    let mut report = Report::new();
    for round in 0..settings.rounds {
        for place in 0..contenders.len() {
            let contender = &contenders[(place + round) % contenders.len()];
            let measured = (contender.measure)(&settings);
            for (size, seconds) in
                measured.map_err(|error| format!("{}: {error}", contender.name))?
            {
                report.samples.push(Sample {
                    contender: contender.name.into(),
                    size,
                    round,
                    seconds,
                });
            }
        }
        println!("round {} of {}", round + 1, settings.rounds);
    }
    report.close();
    // In the order in which they are listed, whatever the order of the rounds.
    let place = |sample: &Sample| contenders.iter().position(|c| c.name == sample.contender);
    report
        .samples
        .sort_by_key(|sample| (place(sample), sample.size, sample.round));
    println!("{}", report.machine.join(", "));
    let factor = 2.0 * (settings.ranks - 1) as f64 / settings.ranks as f64;
    // Limits carry the bytes once, whatever the number of ranks.
    let bus = move |contender: &str, size: u64, seconds: f64| {
        let factor = if limits::NAMES.contains(&contender) {
            1.0
        } else {
            factor
        };
        size as f64 / seconds / 1e9 * factor
    };
    let microseconds = |_: &str, _, seconds: f64| seconds * 1e6;
    report.print("median time, µs", microseconds);
    report.print("bus bandwidth, GB/s", bus);
    if let Some(folder) = &settings.output {
        std::fs::create_dir_all(folder)?;
        report.write_json(&folder.join("all_reduce.json"))?;
        let title = format!("all-reduce of {} processes of one machine", settings.ranks);
        report.draw(
            &folder.join("bandwidth.svg"),
            &title,
            "bus bandwidth, GB/s",
            bus,
        )?;
        report.draw(
            &folder.join("time.svg"),
            &title,
            "median time, µs",
            microseconds,
        )?;
    }
    // Goals are of two ranks: spinning, more ranks than cores would measure the scheduler.
    match settings.ranks {
        2 => match goals::missed(&report) {
            missed @ 1.. if settings.require => Err(format!("{missed} goals are missed").into()),
            _ => Ok(()),
        },
        _ if settings.require => Err("goals are of 2 ranks".into()),
        _ => Ok(()),
    }
}

fn settings() -> Result<Settings> {
    let mut arguments = std::env::args().skip(1);
    // `cargo bench` says `--bench`; `cargo test` does not, and only wants to see it run.
    let (rounds, seconds, sizes) = if std::env::args().any(|argument| argument == "--bench") {
        (7, 0.4, (5..14).map(|power| 1 << (2 * power)).collect())
    } else {
        (1, 0.01, vec![1 << 10, 1 << 20])
    };
    let mut settings = Settings {
        ranks: 2,
        rounds,
        seconds,
        sizes,
        output: None,
        require: false,
    };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--ranks" => settings.ranks = value()?.parse()?,
            "--rounds" => settings.rounds = value()?.parse()?,
            "--seconds" => settings.seconds = value()?.parse()?,
            "--output" => settings.output = Some(value()?.into()),
            "--require" => settings.require = true,
            // Of the test harness that this is not.
            _ => {}
        }
    }
    Ok(settings)
}
