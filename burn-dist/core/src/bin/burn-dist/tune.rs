//! `burn-dist tune`: which algorithm is the fastest up to which size.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use burn_dist_core::collective::{Algorithm, Operation, Reduction, Table, Timing};
use burn_dist_core::rendezvous::{Environment, Identity};
use burn_dist_core::{Collective, Options as WorldOptions, World};

/// Measure the algorithms between these ranks, and write a table for BURN_DIST_TUNE.
///
/// Launch it as the job will be launched: `burn-dist launch -n 4 -- burn-dist tune table.json`. All ranks of a job
/// need the same table.
#[derive(clap::Args)]
pub struct Options {
    /// File for the table; rank 0 writes it.
    table: PathBuf,
    /// Repetitions of each size.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
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
        let mut timings = Vec::new();
        let mut topology = None;
        for algorithm in Algorithm::ALL {
            let mut options = WorldOptions::of(&environment)?;
            // A world of its own for each: all ranks have to take the same.
            options.algorithm = Some(algorithm);
            let world = World::connect(&identity, options)?;
            topology = Some(world.topology());
            self.measure(&world, algorithm, &mut timings)?;
        }
        let Some(topology) = topology.filter(|_| identity.rank == 0) else {
            return Ok(());
        };
        let table = Table::of(&timings, topology);
        let text = serde_json::to_string_pretty(&table)? + "\n";
        std::fs::write(&self.table, &text)
            .map_err(|error| format!("cannot write {}: {error}", self.table.display()))?;
        super::say(format_args!("{}", text.trim_end()))?;
        super::say(format_args!(
            "written to {}: set BURN_DIST_TUNE to it on all ranks",
            self.table.display()
        ))?;
        Ok(())
    }

    fn measure(
        &self,
        world: &World,
        algorithm: Algorithm,
        timings: &mut Vec<Timing>,
    ) -> Result<(), Box<dyn Error>> {
        let operations = [
            (Operation::AllReduce, Collective::AllReduce(Reduction::Sum)),
            (Operation::Broadcast, Collective::Broadcast { root: 0 }),
        ];
        for (operation, collective) in operations {
            if !algorithm.serves(operation, world.topology()) {
                continue;
            }
            for bytes in SIZES {
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
                let seconds = times[times.len() / 2];
                if world.rank() == 0 {
                    super::say(format_args!(
                        "{operation:<10} {algorithm:<13} {bytes:>9} bytes {:>10.1} µs",
                        seconds * 1e6
                    ))?;
                }
                timings.push(Timing {
                    operation,
                    algorithm,
                    bytes: bytes as u64,
                    seconds,
                });
            }
        }
        Ok(())
    }
}
