//! Who takes part: ours over each transport, Gloo through PyTorch, Open MPI through mpi4py, and the limits.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Contender, Result, Settings, Times, limits};

const PEER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../benches/peers/all_reduce.py"
);

/// Those that are there, in the order of the table.
pub fn contenders(settings: &Settings) -> Result<Vec<Contender>> {
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
    let folder = std::env::var("PEER_MPI").unwrap_or_default();
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
            "skipped: Open MPI, since PEER_MPI names no folder with bin/mpirun, mpi4py and numpy"
        );
    }
    all.extend(limits::contenders());
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
    ]);
    command.args(["-n", &settings.ranks.to_string()]);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    command.args(if settings.ranks <= cores {
        ["--bind-to", "core"].as_slice()
    } else {
        &["--oversubscribe", "--bind-to", "none"]
    });
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
