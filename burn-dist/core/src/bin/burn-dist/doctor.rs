//! `burn-dist doctor`: what is detected and why, and how fast each pair of ranks is.

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use burn_dist_core::host::{Bytes, HostFacts, resolve};
use burn_dist_core::rendezvous::{
    Environment, Identity, InterfaceFilter, Launcher, MeetingPoint, interfaces,
};
use burn_dist_core::{Options as WorldOptions, World};

/// Say what a rank would find here: launcher, network, limits; and how fast each pair of ranks is.
///
/// Alone it looks at this host. To measure pairs of ranks, launch it as a job is launched:
/// `burn-dist launch --hosts a:2,b:2 -- burn-dist doctor`, `srun burn-dist doctor`, ...
#[derive(clap::Args)]
pub struct Options {}

/// What the lanes of two ranks need of /dev/shm, and lent memory beside it.
const SHARED: Bytes = Bytes(64 << 20);
/// What verbs need to lock, at least.
const LOCKED: Bytes = Bytes(64 << 20);

impl Options {
    /// Looks and measures.
    pub fn run(self) -> ExitCode {
        match examine() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                super::complain(error);
                ExitCode::FAILURE
            }
        }
    }
}

fn examine() -> Result<(), Box<dyn Error>> {
    let environment = Environment::of_process();
    let identity = Identity::of(&environment);
    // One of each host speaks for it, or each where nobody says who that is.
    let speaks = identity
        .as_ref()
        .map_or(true, |identity| identity.local_rank.unwrap_or(0) == 0);
    if speaks {
        println!("launcher");
        match &identity {
            Ok(identity) => show_identity(identity),
            Err(error) => println!("  {error}"),
        }
        show_host(identity.as_ref().ok());
        show_network(&environment, identity.as_ref().ok());
    }
    let identity = identity?;
    let options = WorldOptions::of(&environment)?;
    if identity.world_size == 1 {
        return Ok(());
    }
    let world = World::connect(&identity, options)?;
    show_pairs(&world)
}

fn show_identity(identity: &Identity) {
    match identity.launcher {
        Launcher::None => println!("  none: one process; its variables would say more"),
        launcher => println!(
            "  {launcher}: rank {} of {}, local rank {}",
            identity.rank,
            identity.world_size,
            identity
                .local_rank
                .map_or("unknown".to_owned(), |rank| rank.to_string())
        ),
    }
    if let Some(point) = &identity.meeting_point {
        println!("  ranks meet at {point}");
    }
}

fn show_host(identity: Option<&Identity>) {
    let facts = HostFacts::gather();
    let ranks = identity
        .and_then(|identity| identity.local_world_size)
        .unwrap_or(1);
    println!("host");
    println!("  name                {}", facts.name);
    println!("  container           {}", facts.container);
    println!("  cores               {}", facts.cores.available);
    println!("  core quota          {}", facts.cores.quota);
    println!("  memory limit        {}", facts.memory_limit.bytes);
    println!(
        "  /dev/shm            {}, free {}",
        facts.shared_memory.total, facts.shared_memory.free
    );
    println!("  locked memory       {}", facts.memory_lock.soft);
    println!("  open files          {}", facts.open_files.soft);
    println!("  IPC namespace       {}", facts.namespaces.ipc);
    println!("  network namespace   {}", facts.namespaces.network);
    let remedies = [
        facts.cores.remedy(ranks),
        facts.shared_memory.remedy(SHARED),
        facts.memory_lock.remedy(LOCKED),
    ];
    for remedy in remedies.into_iter().flatten() {
        println!("  ! {remedy}");
    }
}

fn show_network(environment: &Environment, identity: Option<&Identity>) {
    println!("network");
    let interfaces = match interfaces() {
        Ok(interfaces) => interfaces,
        Err(error) => return println!("  no interfaces: {error}"),
    };
    for interface in &interfaces {
        let state = if interface.is_up { "" } else { ", down" };
        println!("  {interface}{state}");
    }
    let host = match identity.and_then(|identity| identity.meeting_point.as_ref()) {
        Some(MeetingPoint::Tcp { host, .. }) => Some(host.clone()),
        _ => None,
    };
    let resolved = host.map(|host| resolve(&host));
    if let Some(resolved) = &resolved {
        println!("  {} is {:?}", resolved.host, resolved.addresses);
        if let Some(remedy) = resolved.remedy() {
            println!("  ! {remedy}");
        }
    }
    let peer = resolved.and_then(|resolved| resolved.addresses.first().copied());
    match InterfaceFilter::of(environment) {
        Ok(None) => println!("  BURN_DIST_IFNAME is not set: the route to rank 0 decides"),
        Ok(Some(filter)) => match filter.choose(&interfaces, peer.as_ref()) {
            Ok(chosen) => println!("  BURN_DIST_IFNAME={filter} means {chosen}"),
            Err(error) => println!("  ! {error}"),
        },
        Err(error) => println!("  ! {error}"),
    }
}

/// Latency and bandwidth of each pair, one after the other.
fn show_pairs(world: &World) -> Result<(), Box<dyn Error>> {
    const LARGE: usize = 4 << 20;
    let root = world.rank() == 0;
    if root {
        println!("pairs");
        println!("  ranks      transport   latency µs   bandwidth GB/s");
    }
    for one in 0..world.size() {
        for other in one + 1..world.size() {
            let latency = best(world, one, other, 8, 50)?;
            let time = best(world, one, other, LARGE, 5)?;
            // Known to `one`; zero elsewhere.
            let transport = world.transport(other).filter(|_| world.rank() == one);
            let mut figures = [
                latency.as_secs_f64() / 2.0 * 1e6,
                if time.is_zero() {
                    0.0
                } else {
                    2.0 * LARGE as f64 / time.as_secs_f64() / 1e9
                },
                transport.map_or(0.0, |transport| f64::from(transport as u8)),
            ];
            world.broadcast(&mut figures, one)?;
            if root {
                let name = if figures[2] == 0.0 { "tcp" } else { "shm" };
                println!(
                    "  {:<10} {name:<9} {:>12.1} {:>16.2}",
                    format!("{one} - {other}"),
                    figures[0],
                    figures[1]
                );
            }
        }
    }
    Ok(())
}

/// The shortest of some round trips; zero on all ranks but `one`.
fn best(
    world: &World,
    one: usize,
    other: usize,
    bytes: usize,
    times: usize,
) -> Result<Duration, Box<dyn Error>> {
    let mut best = Duration::MAX;
    for _ in 0..times {
        best = best.min(world.round_trip(one, other, bytes)?.unwrap_or_default());
    }
    Ok(best)
}
