//! Time of an all-reduce by size, as `all_reduce_perf` of nccl-tests reports it.
//!
//! ```text
//! cargo run --release -p burn-dist-core --example allreduce -- --ranks 2 --transport shm
//! ```

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use burn_dist_core::collective::Reduction;
use burn_dist_core::launch::Launch;
use burn_dist_core::rendezvous::{Environment, Identity, Launcher};
use burn_dist_core::transport::{Poll, Transport};
use burn_dist_core::{Options, World};
use clap::Parser;
use serde::Serialize;

#[path = "../src/bin/burn-dist/options.rs"]
mod options;

#[derive(Parser)]
#[command(about = "Time of an all-reduce by size")]
struct Arguments {
    /// Processes to start on this host; none where a launcher has started this one.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..))]
    ranks: u16,
    /// tcp or shm; where two ranks are decides, if it is not given.
    #[arg(long)]
    transport: Option<Transport>,
    /// spin, block or hybrid; the number of cores decides, if it is not given.
    #[arg(long)]
    poll: Option<Poll>,
    /// Smallest size in bytes; K, M and G are 2^10, 2^20 and 2^30.
    #[arg(long, default_value = "1K", value_parser = bytes)]
    min: usize,
    /// Largest size in bytes.
    #[arg(long, default_value = "256M", value_parser = bytes)]
    max: usize,
    /// Factor between two sizes.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..))]
    factor: u32,
    /// Repetitions of each size; as many as take some seconds, if it is not given.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: Option<u32>,
    /// Seconds of each size, about.
    #[arg(long, default_value = "1", value_parser = seconds)]
    seconds: f64,
    /// File for the results.
    #[arg(long)]
    json: Option<PathBuf>,
}

fn bytes(text: &str) -> Result<usize, String> {
    const UNITS: [([char; 2], usize); 3] = [
        (['K', 'k'], 1 << 10),
        (['M', 'm'], 1 << 20),
        (['G', 'g'], 1 << 30),
    ];
    let unit = |(names, unit): ([char; 2], usize)| Some((text.strip_suffix(names)?, unit));
    let (number, unit) = UNITS.into_iter().find_map(unit).unwrap_or((text, 1));
    let bytes = number
        .parse::<usize>()
        .ok()
        .and_then(|n| n.checked_mul(unit));
    bytes
        .filter(|bytes| (4..=1 << 34).contains(bytes))
        .ok_or_else(|| "expected a size of 4 bytes to 16G, as 64K".to_owned())
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text
        .parse()
        .ok()
        .filter(|seconds| (1e-3..=1e6).contains(seconds));
    seconds.ok_or_else(|| "expected seconds from 0.001 to 1000000".to_owned())
}

/// One size.
#[derive(Serialize)]
struct Row {
    bytes: usize,
    repetitions: usize,
    /// Microseconds of the slowest rank.
    min_us: f64,
    median_us: f64,
    p99_us: f64,
    /// Bytes by median time, in GB/s.
    algorithm_gb_s: f64,
    /// The same times 2(n-1)/n: comparable with the speed of a link whatever the number of ranks.
    bus_gb_s: f64,
    /// Elements with another result than expected.
    wrong: usize,
}

fn main() -> ExitCode {
    let arguments: Arguments = match options::parse(|_| None) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    match run(&arguments) {
        Ok(code) => code,
        Err(error) => {
            // In one piece, since other ranks may write too; there is nobody left to tell if that fails.
            let line = format!("error: {error}\n");
            let _ = std::io::stderr().write_all(line.as_bytes());
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    if arguments.min > arguments.max {
        return Err(format!(
            "--min is {} bytes and --max {}: there is no size",
            arguments.min, arguments.max
        )
        .into());
    }
    let environment = Environment::of_process();
    let identity = Identity::of(&environment)?;
    let file = arguments.json.as_ref().filter(|_| identity.rank == 0);
    // Before minutes are spent on it; what is there stays as it is.
    let file = file.map(|path| open(path)).transpose()?;
    if identity.launcher == Launcher::None && arguments.ranks > 1 {
        return launch(arguments);
    }
    let mut options = Options::of(&environment)?;
    options.transport = arguments.transport.or(options.transport);
    options.poll = arguments.poll.or(options.poll);
    measure_all(&World::connect(&identity, options)?, arguments, file)?;
    Ok(ExitCode::SUCCESS)
}

/// A file for results, which is made if it is not there.
fn open(path: &Path) -> Result<File, String> {
    let file = File::options().create(true).append(true).open(path);
    file.map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// This program once more, as the ranks.
fn launch(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let words = std::env::args_os().skip(1);
    let launch = Launch::new(std::env::current_exe()?, words).ranks(arguments.ranks.into());
    let outcome = launch.run()?;
    outcome.print_failure();
    Ok(outcome.exit_code().into())
}

fn measure_all(
    world: &World,
    arguments: &Arguments,
    file: Option<File>,
) -> Result<(), Box<dyn Error>> {
    let ranks = world.size();
    let root = world.rank() == 0;
    if root {
        let peers: Vec<String> = (0..ranks)
            .map(|rank| world.transport(rank).map_or("-".into(), |t| t.to_string()))
            .collect();
        writeln!(
            std::io::stdout(),
            "# {ranks} ranks, from rank 0: {}, poll {}",
            peers.join(" "),
            world.poll()
        )?;
        writeln!(
            std::io::stdout(),
            "#     bytes    count  type  redop   min µs  median µs     p99 µs  algbw GB/s  busbw GB/s  wrong"
        )?;
    }
    let mut rows = Vec::new();
    let mut size = arguments.min;
    while size <= arguments.max {
        let row = measure(world, size, arguments)?;
        if root {
            writeln!(
                std::io::stdout(),
                "{:>11} {:>8} float    sum {:>8.1} {:>10.1} {:>10.1} {:>11.3} {:>11.3} {:>6}",
                row.bytes,
                row.bytes / 4,
                row.min_us,
                row.median_us,
                row.p99_us,
                row.algorithm_gb_s,
                row.bus_gb_s,
                row.wrong
            )?;
            std::io::stdout().flush()?;
        }
        rows.push(row);
        size = size.saturating_mul(arguments.factor as usize);
    }
    if let Some(mut file) = file {
        file.set_len(0)?;
        file.write_all(serde_json::to_string_pretty(&rows)?.as_bytes())?;
    }
    let wrong: usize = rows.iter().map(|row| row.wrong).sum();
    if wrong > 0 {
        return Err(format!("{wrong} elements are wrong").into());
    }
    Ok(())
}

/// An element of a rank: so small that the sum of the most ranks that there can be is exact.
fn contribution(rank: usize, index: usize) -> usize {
    index % 64 + rank % 4
}

fn measure(world: &World, size: usize, arguments: &Arguments) -> Result<Row, Box<dyn Error>> {
    const WARM_UP: usize = 3;
    let count = size / 4;
    let mut data = world.alloc::<f32>(count)?;
    let ranks = world.size();
    let mut times = Vec::new();
    let mut repetitions = arguments.repetitions.unwrap_or(0) as usize;
    let mut index = 0;
    while index < WARM_UP + repetitions.max(1) {
        for (index, value) in data.iter_mut().enumerate() {
            *value = contribution(world.rank(), index) as f32;
        }
        world.barrier()?;
        let began = Instant::now();
        world.all_reduce(&mut data, Reduction::Sum)?;
        let mut time = [began.elapsed().as_secs_f64()];
        world.all_reduce(&mut time, Reduction::Max)?;
        if index >= WARM_UP {
            times.push(time[0]);
        } else if index + 1 == WARM_UP && repetitions == 0 {
            repetitions = ((arguments.seconds / time[0]) as usize).clamp(5, 2_000);
        }
        index += 1;
    }
    // That of rank 0 apart from what ranks differ in.
    let differences: usize = (0..ranks).map(|rank| contribution(rank, 0)).sum();
    let expected = |index| ranks * contribution(0, index) + differences;
    let wrong = data
        .iter()
        .enumerate()
        .filter(|(index, value)| **value != expected(*index) as f32)
        .count();
    let mut wrong = [wrong as i64];
    world.all_reduce(&mut wrong, Reduction::Sum)?;
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
    let speed = size as f64 / at(0.5) / 1e9;
    Ok(Row {
        bytes: size,
        repetitions: times.len(),
        min_us: times[0] * 1e6,
        median_us: at(0.5) * 1e6,
        p99_us: at(0.99) * 1e6,
        algorithm_gb_s: speed,
        bus_gb_s: speed * 2.0 * (ranks - 1) as f64 / ranks as f64,
        wrong: wrong[0] as usize,
    })
}
