//! What a rank does: this test binary once more, with the name of a program.

use std::time::{Duration, Instant};

use burn_dist_core::collective::Reduction;
use burn_dist_core::rendezvous::{Environment, Identity};
use burn_dist_core::report::{Level, Report};
use burn_dist_core::supervision::CollectiveError;
use burn_dist_core::{Collective, Options, World};

/// The variable that names a program.
pub const PROGRAM: &str = "FAULT_PROGRAM";

/// Not a test of its own: the process of a rank, which other tests start.
#[test]
#[ignore = "the process of a rank, started by other tests"]
fn rank_process() {
    let Ok(program) = std::env::var(PROGRAM) else {
        return;
    };
    let environment = Environment::of_process();
    let identity = Identity::of(&environment).unwrap();
    let mut options = Options::of(&environment).unwrap();
    options.report = Some(Report::new(|level, line| {
        let level = if level == Level::Warning {
            "warning"
        } else {
            "note"
        };
        println!("{level} {line}");
    }));
    if let Ok(batch) = std::env::var("FAULT_BATCH") {
        options.configuration.push(("batch_size".into(), batch));
    }
    let began = Instant::now();
    let world = match World::connect(&identity, options) {
        Ok(world) => world,
        Err(error) => end(began, &error.to_string()),
    };
    println!("joined");
    let (name, argument) = program.split_once(' ').unwrap_or((&program, ""));
    let mut rank = Rank {
        world,
        began: Instant::now(),
    };
    let outcome = match name {
        "loop" => rank.repeat(usize::MAX, argument.parse().unwrap()),
        "pause" => rank
            .repeat(5, 1_000)
            .map(|()| std::thread::sleep(Duration::from_secs(600))),
        "pause-then-loop" => rank.repeat(5, 1_000).and_then(|()| {
            let pause = Duration::from_millis(argument.parse().unwrap());
            std::thread::sleep(pause);
            rank.repeat(usize::MAX, 1_000)
        }),
        "leave" => rank.repeat(argument.parse().unwrap(), 1_000),
        "exit" => rank.repeat(5, 1_000).map(|()| std::process::exit(7)),
        "panic" => rank
            .repeat(5, 1_000)
            .map(|()| panic!("a mistake of the program")),
        "calls" => argument.split(',').try_for_each(|call| rank.call(call)),
        "start-and-leave" => rank.start_and_leave(),
        "soak" => rank.soak(Duration::from_secs(argument.parse().unwrap())),
        other => panic!("no program {other}"),
    };
    match outcome {
        Ok(()) => {
            drop(rank);
            println!("outcome 0 done");
        }
        Err(error) => {
            let flight = rank.world.flight_recorder();
            println!("flight {}", flight.display());
            end(rank.began, &error.to_string());
        }
    }
}

/// Says how an operation ended, how long after it began, and ends as a program does that reports an error.
fn end(began: Instant, text: &str) -> ! {
    println!("outcome {} {text}", began.elapsed().as_millis());
    std::process::exit(1);
}

struct Rank {
    world: World,
    /// When the last operation began.
    began: Instant,
}

impl Rank {
    fn repeat(&mut self, times: usize, count: usize) -> Result<(), CollectiveError> {
        let ranks = self.world.size();
        let mut data = self.world.alloc::<f32>(count).unwrap();
        for index in 0..times {
            data.fill(1.0);
            self.began = Instant::now();
            self.world.all_reduce(&mut data, Reduction::Sum)?;
            assert!(data.iter().all(|sum| *sum == ranks as f32));
            if index == 4 {
                println!("at work");
            }
        }
        Ok(())
    }

    /// One operation, named as `all_reduce`, `all_reduce:sum:f64:7`, `broadcast:1`, `sleep:500`, ...
    fn call(&mut self, call: &str) -> Result<(), CollectiveError> {
        let parts: Vec<&str> = call.split(':').collect();
        self.began = Instant::now();
        let world = &self.world;
        match parts.as_slice() {
            ["barrier"] => world.barrier(),
            ["all_reduce", "sum", "f64", count] => {
                world.all_reduce(&mut vec![1f64; count.parse().unwrap()], Reduction::Sum)
            }
            ["all_reduce", reduction, "f32", count] => {
                let reduction = if *reduction == "sum" {
                    Reduction::Sum
                } else {
                    Reduction::Max
                };
                world.all_reduce(&mut vec![1f32; count.parse().unwrap()], reduction)
            }
            ["broadcast", root] => world.broadcast(&mut [0f32; 10], root.parse().unwrap()),
            ["reduce", root] => {
                world.reduce(&mut [0f32; 10], Reduction::Sum, root.parse().unwrap())
            }
            ["gather"] => world.all_gather(&[1f32; 3]).map(|_| ()),
            ["sleep", milliseconds] => {
                std::thread::sleep(Duration::from_millis(milliseconds.parse().unwrap()));
                Ok(())
            }
            _ => panic!("no call {call}"),
        }
    }

    /// Operations of all kinds and sizes, each checked, for a time that rank 0 watches.
    fn soak(&mut self, time: Duration) -> Result<(), CollectiveError> {
        let (rank, ranks) = (self.world.rank(), self.world.size());
        let (began, mut memory) = (Instant::now(), 0);
        for round in 0usize.. {
            // The same on all ranks: from nothing to a megabyte.
            let count = (round.wrapping_mul(2_654_435_761) % 262_144) >> (round % 12);
            let root = round % ranks;
            let mut data = self.world.alloc::<f32>(count).unwrap();
            data.fill(rank as f32 + 1.0);
            let pending = self
                .world
                .start(Collective::AllReduce(Reduction::Sum), data)?;
            let mut own = vec![(rank * round) as i64; count / 7 + 1];
            self.world.broadcast(&mut own, root)?;
            assert!(own.iter().all(|value| *value == (root * round) as i64));
            let gathered = self
                .world
                .all_gather(&vec![rank as u8; (count / 3 * rank) % 1_000])?;
            for rank in 0..ranks {
                assert!(
                    gathered
                        .of(rank)
                        .iter()
                        .all(|value| usize::from(*value) == rank)
                );
            }
            let mut least = vec![rank as f64 - 7.0; count / 5 + 3];
            self.world.reduce(&mut least, Reduction::Min, root)?;
            assert!(rank != root || least.iter().all(|value| *value == -7.0));
            let sum = (ranks * (ranks + 1) / 2) as f32;
            assert!(pending.wait()?.iter().all(|value| *value == sum));
            let mut over = [u8::from(rank == 0 && began.elapsed() > time)];
            self.world.all_reduce(&mut over, Reduction::Max)?;
            if round == 200 {
                memory = resident();
            }
            if over == [1] {
                println!("rounds {round}");
                // What was used after a while is what is used in the end; the allocator may keep some more.
                assert!(
                    round < 200 || resident() < memory + (16 << 20),
                    "{memory} {}",
                    resident()
                );
                return Ok(());
            }
        }
        Ok(())
    }

    /// Starts operations and leaves without waiting for them.
    fn start_and_leave(&mut self) -> Result<(), CollectiveError> {
        for _ in 0..5 {
            let buffer = self.world.alloc::<f32>(100_000).unwrap();
            drop(
                self.world
                    .start(Collective::AllReduce(Reduction::Sum), buffer)?,
            );
        }
        Ok(())
    }
}

/// Bytes of memory that this process has.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}
