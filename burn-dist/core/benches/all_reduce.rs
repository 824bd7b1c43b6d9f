//! All-reduce between processes of this machine, against Gloo and Open MPI, by size.
//!
//! All contenders run in turn in each round, each time in another order, and ratios are taken within a round. A
//! peer that is not there is said to be skipped.
//!
//! - `CHEXNET_PEER_PYTHON`: a Python with torch, for Gloo; else `python3`.
//! - `BURN_DIST_PEER_MPI`: a folder with `bin/mpirun` of Open MPI and `bin/python` with mpi4py and NumPy.
//!
//! Options behind `--`: `--ranks N`, `--rounds N`, `--seconds S` of each size, `--output FOLDER` for JSON and figures,
//! `--require` to fail where a goal is missed.
#![allow(missing_docs)]

#[path = "../../../benches/report/mod.rs"]
mod report;

use std::error::Error;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use report::{Report, Sample};

const PEER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../benches/peers/all_reduce.py"
);

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
    let bus = move |size: u64, seconds: f64| size as f64 / seconds / 1e9 * factor;
    report.print("median time, µs", |_, seconds| seconds * 1e6);
    report.print("bus bandwidth, GB/s", bus);
    limits(&settings)?;
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
            |_, s| s * 1e6,
        )?;
    }
    let missed = goals(&report);
    match missed {
        0 => Ok(()),
        missed if settings.require => Err(format!("{missed} goals are missed").into()),
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

fn contenders(settings: &Settings) -> Result<Vec<Contender>> {
    let example = example()?;
    let own = |name, transport: &'static str, poll: &'static str| {
        let example = example.clone();
        let measure = move |settings: &Settings| own(&example, transport, poll, settings);
        Contender {
            name,
            measure: Box::new(measure),
        }
    };
    let mut all = vec![
        own("tcp spin", "tcp", "spin"),
        own("tcp block", "tcp", "block"),
        own("shm spin", "shm", "spin"),
        own("shm block", "shm", "block"),
    ];
    let python = std::env::var("CHEXNET_PEER_PYTHON").unwrap_or_else(|_| "python3".into());
    if has(&python, "torch, numpy") {
        let measure = move |settings: &Settings| gloo(&python, settings);
        all.push(Contender {
            name: "Gloo tcp",
            measure: Box::new(measure),
        });
    } else {
        println!("skipped: Gloo, since {python} has no torch (CHEXNET_PEER_PYTHON)");
    }
    let folder = std::env::var("BURN_DIST_PEER_MPI").unwrap_or_default();
    let python = format!("{folder}/bin/python");
    if !folder.is_empty() && has(&python, "mpi4py, numpy") {
        for (name, layers) in [("Open MPI tcp", "self,tcp"), ("Open MPI shm", "self,sm")] {
            let folder = PathBuf::from(&folder);
            let measure = move |settings: &Settings| open_mpi(&folder, layers, settings);
            all.push(Contender {
                name,
                measure: Box::new(measure),
            });
        }
    } else {
        println!(
            "skipped: Open MPI, since BURN_DIST_PEER_MPI names no folder with bin/mpirun, mpi4py and numpy"
        );
    }
    println!("{} ranks, {} rounds", settings.ranks, settings.rounds);
    Ok(all)
}

fn has(python: &str, modules: &str) -> bool {
    let mut command = Command::new(python);
    command
        .args(["-c", &format!("import {modules}")])
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// The example `allreduce`, built as this bench was.
fn example() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let folder = own.ancestors().nth(2).ok_or("this bench has no folder")?;
    let mut build = Command::new(env!("CARGO"));
    build.args([
        "build",
        "--quiet",
        "-p",
        "burn-dist-core",
        "--example",
        "allreduce",
    ]);
    build.current_dir(env!("CARGO_MANIFEST_DIR"));
    if folder.ends_with("release") {
        build.arg("--release");
    }
    // Where this bench is, whatever the environment says by now.
    build
        .arg("--target-dir")
        .arg(folder.parent().ok_or("no target folder")?);
    run(&mut build)?;
    Ok(folder.join("examples/allreduce"))
}

fn own(example: &Path, transport: &str, poll: &str, settings: &Settings) -> Result<Times> {
    let folder = tempfile::tempdir()?;
    let results = folder.path().join("results.json");
    let mut all = Vec::new();
    // One process for each run of sizes with one factor between them.
    let factor = settings.sizes[1] / settings.sizes[0];
    let mut command = Command::new(example);
    command.args(["--ranks", &settings.ranks.to_string()]);
    command.args(["--transport", transport, "--poll", poll]);
    command.args(["--min", &settings.sizes[0].to_string()]);
    command.args([
        "--max",
        &settings.sizes[settings.sizes.len() - 1].to_string(),
    ]);
    command.args(["--factor", &factor.to_string()]);
    command.args(["--seconds", &settings.seconds.to_string()]);
    command.arg("--json").arg(&results);
    run(&mut command)?;
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&std::fs::read(&results)?)?;
    for row in rows {
        let bytes = row["bytes"].as_u64().ok_or("no bytes")?;
        all.push((bytes, row["median_us"].as_f64().ok_or("no time")? / 1e6));
    }
    Ok(all)
}

fn open_mpi(folder: &Path, layers: &str, settings: &Settings) -> Result<Times> {
    let mut command = Command::new(folder.join("bin/mpirun"));
    command.envs([
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
    ]);
    command.args(["-n", &settings.ranks.to_string()]);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    command.args([
        "--bind-to",
        if settings.ranks <= cores {
            "core"
        } else {
            "none"
        },
    ]);
    command.args(["--mca", "pml", "ob1", "--mca", "btl", layers]);
    command.args(["--mca", "btl_tcp_if_include", "lo"]);
    command.arg(folder.join("bin/python")).arg(PEER).arg("mpi");
    lines(&run(with_sizes(&mut command, settings))?)
}

fn gloo(python: &str, settings: &Settings) -> Result<Times> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut others = Vec::new();
    let rank = |rank: usize| {
        let mut command = Command::new(python);
        command.envs([
            ("GLOO_SOCKET_IFNAME", "lo"),
            ("OMP_NUM_THREADS", "1"),
            ("MASTER_ADDR", "127.0.0.1"),
        ]);
        command
            .env("MASTER_PORT", port.to_string())
            .env("RANK", rank.to_string());
        command
            .env("WORLD_SIZE", settings.ranks.to_string())
            .arg(PEER)
            .arg("gloo");
        with_sizes(&mut command, settings);
        command
    };
    for other in 1..settings.ranks {
        others.push(
            rank(other)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()?,
        );
    }
    let output = run(&mut rank(0));
    for mut other in others {
        // Without rank 0 the others wait for long.
        if output.is_err() {
            other.kill()?;
        }
        other.wait()?;
    }
    lines(&output?)
}

fn with_sizes<'a>(command: &'a mut Command, settings: &Settings) -> &'a mut Command {
    command.arg(settings.seconds.to_string());
    command.args(settings.sizes.iter().map(u64::to_string))
}

fn run(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn lines(output: &str) -> Result<Times> {
    let mut all = Vec::new();
    for line in output.lines().filter(|line| line.starts_with('{')) {
        let row: serde_json::Value = serde_json::from_str(line)?;
        let figures = row["bytes"].as_u64().zip(row["seconds"].as_f64());
        all.push(figures.ok_or("a line without figures")?);
    }
    Ok(all)
}

/// What the machine can do at most, on the same cores: a stream over loopback, and copies of memory.
fn limits(settings: &Settings) -> Result<()> {
    let total = if settings.rounds > 1 {
        2u64 << 30
    } else {
        16 << 20
    };
    println!("\nlimits: one loopback stream {:.2} GB/s", loopback(total)?);
    for size in settings.sizes.iter().filter(|size| **size >= 1 << 20) {
        let one = copies(*size as usize, 1);
        let two = copies(*size as usize, 2);
        println!(
            "  memory copy of {size} bytes: one core {one:.2} GB/s, each of two {two:.2} GB/s"
        );
    }
    Ok(())
}

fn loopback(total: u64) -> Result<f64> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut sending = TcpStream::connect(listener.local_addr()?)?;
    let mut receiving = listener.accept()?.0;
    let reader = std::thread::spawn(move || {
        let (mut block, mut read) = (vec![0; 1 << 20], 0u64);
        while let Ok(count @ 1..) = receiving.read(&mut block) {
            read += count as u64;
        }
        read
    });
    let block = vec![1; 1 << 20];
    let began = Instant::now();
    for _ in 0..total >> 20 {
        sending.write_all(&block)?;
    }
    drop(sending);
    let read = reader.join().map_err(|_| "the reader has panicked")?;
    Ok(read as f64 / began.elapsed().as_secs_f64() / 1e9)
}

/// GB/s of each of `threads` that copy `size` bytes.
fn copies(size: usize, threads: usize) -> f64 {
    let copy = || {
        let (from, mut to) = (vec![1u8; size], vec![0u8; size]);
        let times = ((1 << 28) / size).max(1);
        let began = Instant::now();
        for _ in 0..times {
            to.copy_from_slice(std::hint::black_box(&from));
            std::hint::black_box(&mut to);
        }
        (size * times) as f64 / began.elapsed().as_secs_f64() / 1e9
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(copy)).collect();
        let speeds = running.into_iter().filter_map(|thread| thread.join().ok());
        speeds.fold(f64::INFINITY, f64::min)
    })
}

/// Prints what was aimed at, and how many goals are missed.
fn goals(report: &Report) -> usize {
    const K: u64 = 1 << 10;
    const M: u64 = 1 << 20;
    let ratios = [
        ("tcp spin", "Gloo tcp", M, 2.0),
        ("tcp spin", "Gloo tcp", 16 * M, 2.0),
        ("tcp spin", "Gloo tcp", 64 * M, 1.5),
        ("tcp spin", "Open MPI tcp", M, 0.9),
        ("tcp spin", "Open MPI tcp", 16 * M, 0.9),
        ("tcp spin", "Open MPI tcp", 64 * M, 1.5),
        ("shm spin", "Open MPI shm", M, 1.0),
        ("shm spin", "Open MPI shm", 16 * M, 1.0),
        ("shm spin", "Open MPI shm", 64 * M, 2.0),
    ];
    let times = [
        ("tcp spin", K, 25e-6),
        ("tcp block", K, 100e-6),
        ("shm spin", K, 5e-6),
    ];
    let mut missed = 0;
    println!("\ngoals");
    for (own, peer, size, goal) in ratios {
        let Some(ratio) = report.ratio(own, peer, size) else {
            continue;
        };
        let met = ratio.median >= goal;
        missed += usize::from(!met);
        println!(
            "  {} {own} at {size} bytes: {:.2} ({:.2} to {:.2}) times as fast as {peer}, goal {goal}",
            if met { "met   " } else { "missed" },
            ratio.median,
            ratio.least,
            ratio.greatest
        );
    }
    for (own, size, goal) in times {
        let Some(time) = report.spread(own, size) else {
            continue;
        };
        let met = time.median <= goal;
        missed += usize::from(!met);
        println!(
            "  {} {own} at {size} bytes: {:.1} ({:.1} to {:.1}) µs, goal {:.0}",
            if met { "met   " } else { "missed" },
            time.median * 1e6,
            time.least * 1e6,
            time.greatest * 1e6,
            goal * 1e6
        );
    }
    missed
}
