//! `burn-dist tune`: which algorithm is the fastest up to which size.

use std::error::Error;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use burn_dist_core::collective::{Algorithm, Operation, Reduction, Table, Timing, Topology};
use burn_dist_core::host::load_average;
use burn_dist_core::rendezvous::{Environment, Identity};
use burn_dist_core::{Collective, Options as WorldOptions, World};

/// Measure the algorithms between these ranks, and write a table for BURN_DIST_TUNE.
///
/// Launch it as the job will be launched, on machines that do nothing else: `burn-dist launch -n 4 -- burn-dist tune
/// table.json`. All ranks of a job need the same table. Its limits are those by default, unless others are faster by a
/// tenth in three of four rounds.
#[derive(clap::Args)]
pub struct Options {
    /// File for the table; rank 0 writes it.
    table: PathBuf,
    /// Rounds, in each of which everything is measured.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Repetitions of each size in a round.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
}

/// Bytes that are measured: up to where the choice has long been made.
const SIZES: [usize; 9] = [
    1 << 10,
    4 << 10,
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
    4 << 20,
];

/// What is measured.
const OPERATIONS: [(Operation, Collective); 2] = [
    (Operation::AllReduce, Collective::AllReduce(Reduction::Sum)),
    (Operation::Broadcast, Collective::Broadcast { root: 0 }),
];

impl Options {
    /// Measures and writes.
    pub fn run(self) -> ExitCode {
        match self.tune() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                super::complain(error);
                ExitCode::FAILURE
            }
        }
    }

    fn tune(&self) -> Result<(), Box<dyn Error>> {
        let environment = Environment::of_process();
        let identity = Identity::of(&environment)?;
        if identity.world_size < 2 {
            return Err("one rank has nothing to tune: launch it as the job, as by burn-dist launch -n 4 -- burn-dist tune table.json".into());
        }
        let unwritable = |error| format!("cannot write {}: {error}", self.table.display());
        if identity.rank == 0 {
            check(&self.table).map_err(unwritable)?;
        }
        // A world of its own for each algorithm: all ranks have to take the same.
        let world = |algorithm| -> Result<World, Box<dyn Error>> {
            let mut options = WorldOptions::of(&environment)?;
            options.algorithm = Some(algorithm);
            Ok(World::connect(&identity, options)?)
        };
        let mut worlds = vec![(Algorithm::Doubling, world(Algorithm::Doubling)?)];
        let topology = worlds[0].1.topology();
        warn_of_load(&worlds[0].1);
        let contends = |algorithm| {
            let mut operations = OPERATIONS.iter();
            operations.any(|(one, _)| Table::contenders(*one, topology).contains(&algorithm))
        };
        for algorithm in Algorithm::ALL {
            if algorithm != Algorithm::Doubling && contends(algorithm) {
                worlds.push((algorithm, world(algorithm)?));
            }
        }
        let timings = self.measure(&worlds, topology)?;
        if identity.rank != 0 {
            return Ok(());
        }
        for timing in &timings {
            show(timing)?;
        }
        let table = Table::of(&timings, topology);
        let text = serde_json::to_string_pretty(&table)? + "\n";
        std::fs::write(&self.table, &text).map_err(unwritable)?;
        super::say(text.trim_end())?;
        if table == Table::default() {
            super::say("no limit is faster beyond doubt than that by default")?;
        }
        super::say(format_args!(
            "written to {}: set BURN_DIST_TUNE to it on all ranks",
            self.table.display()
        ))?;
        Ok(())
    }

    /// All algorithms at all sizes in each round, each in another place than in the round before.
    fn measure(
        &self,
        worlds: &[(Algorithm, World)],
        topology: Topology,
    ) -> Result<Vec<Timing>, Box<dyn Error>> {
        let mut timings = Vec::new();
        for (operation, collective) in OPERATIONS {
            let contenders = Table::contenders(operation, topology);
            let worlds = worlds.iter();
            let worlds = worlds.filter(|(algorithm, _)| contenders.contains(algorithm));
            for (algorithm, world) in worlds {
                for bytes in SIZES {
                    let timing = Timing {
                        operation,
                        algorithm: *algorithm,
                        bytes: bytes as u64,
                        seconds: Vec::new(),
                    };
                    timings.push((timing, collective, world));
                }
            }
        }
        timings
            .sort_by_key(|(timing, ..)| (timing.operation == Operation::Broadcast, timing.bytes));
        for round in 1..=self.rounds {
            for of_size in timings.chunk_by_mut(|(one, ..), (other, ..)| {
                (one.operation, one.bytes) == (other.operation, other.bytes)
            }) {
                of_size.rotate_left(1);
                for (timing, collective, world) in of_size {
                    let seconds = self.median(world, *collective, timing.bytes as usize)?;
                    timing.seconds.push(seconds);
                }
            }
            if worlds[0].1.rank() == 0 {
                super::say(format_args!("round {round} of {}", self.rounds))?;
            }
        }
        Ok(timings.into_iter().map(|(timing, ..)| timing).collect())
    }

    /// Seconds of the slowest rank, the median of all repetitions.
    fn median(
        &self,
        world: &World,
        collective: Collective,
        bytes: usize,
    ) -> Result<f64, Box<dyn Error>> {
        let mut data = world.alloc::<f32>(bytes / 4)?;
        let mut times = Vec::new();
        for _ in 0..=self.repetitions {
            world.barrier()?;
            let began = Instant::now();
            world.run(collective, &mut data)?;
            let mut time = [began.elapsed().as_secs_f64()];
            world.all_reduce(&mut time, Reduction::Max)?;
            times.push(time[0]);
        }
        // The first finds memory cold.
        times.swap_remove(0);
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 2])
    }
}

/// Whether a table can be written there, before minutes are spent on it. What is there stays as it is.
fn check(path: &Path) -> io::Result<()> {
    match File::options().write(true).create_new(true).open(path) {
        Ok(_) => std::fs::remove_file(path),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            File::options().write(true).open(path).map(drop)
        }
        Err(error) => Err(error),
    }
}

/// Says on each host if other processes take the cores of its ranks.
fn warn_of_load(world: &World) {
    let own = &world.members()[world.rank()].host;
    let of_host = world.members().iter().filter(|member| member.host.is(own));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let idle = cores.saturating_sub(of_host.count());
    let load = load_average().value;
    let load = load.filter(|load| world.local_rank() == 0 && *load > idle as f64 + 0.5);
    if let Some(load) = load {
        super::complain(format_args!(
            "warning: the load of this host is {load}, so other processes take the cores of its ranks: wait until it is quiet, or the table says little"
        ));
    }
}

fn show(timing: &Timing) -> io::Result<()> {
    let Timing {
        operation,
        algorithm,
        bytes,
        seconds,
    } = timing;
    let mut rounds = seconds.clone();
    rounds.sort_by(f64::total_cmp);
    let microseconds = |at: usize| rounds[at] * 1e6;
    super::say(format_args!(
        "{operation:<10} {algorithm:<13} {bytes:>9} bytes {:>10.1} µs ({:.1} to {:.1})",
        microseconds(rounds.len() / 2),
        microseconds(0),
        microseconds(rounds.len() - 1)
    ))
}
