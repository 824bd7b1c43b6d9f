//! What a rank does: a script from its environment.
//!
//! Commands are divided by `;`. After the first that fails a rank says why and ends with exit code 1; after the last it
//! leaves the world and ends with 0.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use burn_dist_core::collective::Reduction;
use burn_dist_core::rendezvous::{Environment, Identity};
use burn_dist_core::{Collective, Options, World};
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit,
};

use crate::{agreement, orphan, soak};

/// The variable with the script.
pub const SCRIPT: &str = "FAULT_SCRIPT";
/// The variable with an option of the program: `batch_size=16`.
pub const CONFIGURATION: &str = "FAULT_CONFIGURATION";

/// The variable with the bytes that a file of this process may have: `ulimit -f`.
pub const FILE_SIZE: &str = "FAULT_FILE_SIZE";
/// The variable with the files that this process may have open: `ulimit -n`.
pub const OPEN_FILES: &str = "FAULT_OPEN_FILES";
/// The variable that closes the open files of this process to others.
pub const CLOSED: &str = "FAULT_CLOSED";

/// The variable with a folder that the test sees.
const FOLDER: &str = "BURN_DIST_FLIGHT_RECORDER";
/// The file in it that ends a `hold`.
pub const RELEASE: &str = "release";

type Failure = Box<dyn std::error::Error>;

/// Runs the script of this process and ends it; does nothing where there is none.
pub fn run() {
    let Ok(script) = std::env::var(SCRIPT) else {
        return;
    };
    // No rank outlives the test that has started it.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
    let code = match join().and_then(|world| follow(world, &script)) {
        Ok(()) => {
            say("ok");
            0
        }
        Err(error) => {
            say(&format!("error {error}"));
            1
        }
    };
    std::process::exit(code);
}

/// Makes this process what its environment says.
fn restrict() -> Result<(), Failure> {
    if let Ok(bytes) = std::env::var(FILE_SIZE) {
        let limit = Some(bytes.parse()?);
        let limit = Rlimit {
            current: limit,
            maximum: limit,
        };
        setrlimit(Resource::Fsize, limit)?;
    }
    if let Ok(files) = std::env::var(OPEN_FILES) {
        let current = Some(files.parse()?);
        let maximum = getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current, maximum })?;
    }
    if std::env::var_os(CLOSED).is_some() {
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    }
    Ok(())
}

fn join() -> Result<World, Failure> {
    restrict()?;
    let environment = Environment::of_process();
    let mut options = Options::of(&environment)?;
    if let Ok(text) = std::env::var(CONFIGURATION) {
        let (name, value) = text.split_once('=').unwrap();
        options.configuration.push((name.into(), value.into()));
    }
    let world = World::connect(&Identity::of(&environment)?, options)?;
    say("joined");
    Ok(world)
}

/// A line for the test, apart from what the test harness of this process writes.
pub fn say(line: &str) {
    let mut output = std::io::stdout().lock();
    // A test that is gone hears nothing.
    let _ = writeln!(output, "\n> {line}").and_then(|()| output.flush());
}

fn follow(world: World, script: &str) -> Result<(), Failure> {
    let mut pending = Vec::new();
    for command in script.split(';') {
        let words: Vec<&str> = command.split_whitespace().collect();
        let number = |index: usize| words[index].parse::<usize>().unwrap();
        let pause = |index: usize| Duration::from_millis(number(index) as u64);
        match words[0] {
            "say" => say(words[1]),
            "sleep" => std::thread::sleep(pause(1)),
            // Until the test says so.
            "hold" => {
                let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
                while !folder.join(RELEASE).exists() {
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
            // Until the world has failed, without calling anything.
            "watch" => loop {
                if let Some(error) = world.failure() {
                    return Err(error.into());
                }
                std::thread::sleep(Duration::from_millis(2));
            },
            "orphan" => orphan::leave(Duration::from_millis(number(1) as u64))?,
            "barrier" => world.barrier()?,
            "all_reduce" => reduce(&world, &words)?,
            "broadcast" => world.broadcast(&mut vec![1f32; number(1)], number(2))?,
            "reduce" => world.reduce(&mut vec![1f32; number(1)], Reduction::Sum, number(2))?,
            "reduce_scatter" => {
                world.reduce_scatter(&mut vec![1f32; number(1)], Reduction::Sum)?;
            }
            "all_gather" => drop(world.all_gather(&vec![1f32; number(1)])?),
            "start" => {
                let buffer = world.alloc::<f32>(number(1))?;
                pending.push(world.start(Collective::AllReduce(Reduction::Sum), buffer)?);
            }
            // For as long as it goes well.
            "forever" => loop {
                reduce(&world, &words[1..])?;
            },
            "leave" => {
                drop(world);
                return Ok(());
            }
            "stay" => {
                drop(world);
                std::thread::sleep(pause(1));
                return Ok(());
            }
            "panic" => panic!("as the script says"),
            // Without a word to anybody.
            "exit" => std::process::exit(words[1].parse().unwrap()),
            "addresses" => {
                let members = world.members().iter();
                let addresses: Vec<String> = members.map(|m| m.address.to_string()).collect();
                say(&format!("addresses {}", addresses.join(" ")));
            }
            "topology" => say(&format!("{:?}", world.topology())),
            "agreement" => agreement::check(&world),
            "soak" => soak::run(&world, pause(1))?,
            other => panic!("{other:?} is no command"),
        }
    }
    Ok(())
}

/// `all_reduce COUNT [sum|max] [f32|i64]`.
fn reduce(world: &World, words: &[&str]) -> Result<(), Failure> {
    let count = words[1].parse().unwrap();
    let reduction = match words.get(2) {
        Some(&"max") => Reduction::Max,
        _ => Reduction::Sum,
    };
    match words.get(3) {
        Some(&"i64") => world.all_reduce(&mut vec![1i64; count], reduction)?,
        _ => world.all_reduce(&mut vec![1f32; count], reduction)?,
    }
    Ok(())
}
