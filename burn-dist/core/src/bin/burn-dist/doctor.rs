//! `burn-dist doctor`: what is detected and why, and how fast each pair of ranks is.

use std::error::Error;
use std::io;
use std::net::IpAddr;
use std::process::ExitCode;
use std::time::Duration;

use burn_dist_core::host::{Bytes, Cores, HostFacts, load_average, resolve};
use burn_dist_core::rendezvous::{
    Environment, Identity, InterfaceFilter, Launcher, MeetingPoint, TlsError, interfaces,
};
use burn_dist_core::transport::{Poll, Transport};
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
    let options = WorldOptions::of(&environment);
    // One of each host speaks for it, or each where nobody says who that is.
    let speaks = identity
        .as_ref()
        .map_or(true, |identity| identity.local_rank.unwrap_or(0) == 0);
    if speaks {
        super::say(format_args!("launcher"))?;
        match &identity {
            Ok(identity) => show_identity(identity)?,
            Err(error) => super::say(format_args!("  {error}"))?,
        }
        let (identity, options) = (identity.as_ref().ok(), options.as_ref().ok());
        show_host(identity, options)?;
        show_network(&environment, identity)?;
        options.map_or(Ok(()), show_encryption)?;
    }
    let (identity, options) = (identity?, options?);
    if identity.world_size == 1 {
        return Ok(());
    }
    let world = World::connect(&identity, options)?;
    show_pairs(&world)
}

fn show_identity(identity: &Identity) -> io::Result<()> {
    match identity.launcher {
        Launcher::None => super::say(format_args!(
            "  none: one process; its variables would say more"
        ))?,
        launcher => super::say(format_args!(
            "  {launcher}: rank {} of {}, local rank {}",
            identity.rank,
            identity.world_size,
            identity
                .local_rank
                .map_or("unknown".to_owned(), |rank| rank.to_string())
        ))?,
    }
    if let Some(point) = &identity.meeting_point {
        super::say(format_args!("  ranks meet at {point}"))?;
    }
    Ok(())
}

fn show_host(identity: Option<&Identity>, options: Option<&WorldOptions>) -> io::Result<()> {
    let facts = HostFacts::gather();
    let ranks = identity
        .and_then(|identity| identity.local_world_size)
        .unwrap_or(1);
    super::say(format_args!("host"))?;
    super::say(format_args!("  name                {}", facts.name))?;
    super::say(format_args!("  container           {}", facts.container))?;
    super::say(format_args!(
        "  cores               {}",
        facts.cores.available
    ))?;
    super::say(format_args!("  core quota          {}", facts.cores.quota))?;
    super::say(format_args!("  load                {}", load_average()))?;
    super::say(format_args!(
        "  memory              {}, available {}",
        facts.memory.total, facts.memory.available
    ))?;
    super::say(format_args!(
        "  memory limit        {}",
        facts.memory_limit.bytes
    ))?;
    super::say(format_args!(
        "  /dev/shm            {}, free {}",
        facts.shared_memory.total, facts.shared_memory.free
    ))?;
    super::say(format_args!(
        "  locked memory       {}",
        facts.memory_lock.soft
    ))?;
    super::say(format_args!(
        "  open files          {}",
        facts.open_files.soft
    ))?;
    super::say(format_args!(
        "  IPC namespace       {}",
        facts.namespaces.ipc
    ))?;
    super::say(format_args!(
        "  network namespace   {}",
        facts.namespaces.network
    ))?;
    let remedies = [
        facts.cores.remedy(ranks),
        facts.shared_memory.remedy(SHARED),
        facts.memory_lock.remedy(LOCKED),
        poll_remedy(
            options.and_then(|options| options.poll),
            ranks,
            &facts.cores,
        ),
        load_remedy(load_average().value, &facts.cores),
    ];
    for remedy in remedies.into_iter().flatten() {
        super::say(format_args!("  ! {remedy}"))?;
    }
    Ok(())
}

/// What to do where ranks are told to spin and have no core each; they block there, if nothing else is said.
fn poll_remedy(poll: Option<Poll>, ranks: usize, cores: &Cores) -> Option<String> {
    let poll = poll.filter(|poll| *poll != Poll::Block)?;
    let cores = cores.available.value.filter(|cores| ranks > *cores)?;
    Some(format!(
        "BURN_DIST_POLL is {poll}, with {ranks} ranks on {cores} cores: ranks that spin stop each other: unset it, so that they block"
    ))
}

/// What to do where others take the cores. Before a job its own ranks take none.
fn load_remedy(load: Option<f64>, cores: &Cores) -> Option<String> {
    let (load, cores) = (load?, cores.available.value?);
    let others = load > cores as f64 / 2.0;
    others.then(|| {
        format!(
            "the load is {load}, with {cores} cores: other processes take them, and a job waits for its slowest rank: look for them by top, and see to it that they end"
        )
    })
}

fn show_network(environment: &Environment, identity: Option<&Identity>) -> io::Result<()> {
    super::say(format_args!("network"))?;
    let interfaces = match interfaces() {
        Ok(interfaces) => interfaces,
        Err(error) => return super::say(format_args!("  no interfaces: {error}")),
    };
    for interface in &interfaces {
        let state = if interface.is_up { "" } else { ", down" };
        super::say(format_args!("  {interface}{state}"))?;
    }
    let host = match identity.and_then(|identity| identity.meeting_point.as_ref()) {
        Some(MeetingPoint::Tcp { host, .. }) => Some(host.clone()),
        _ => None,
    };
    let resolved = host.map(|host| resolve(&host));
    if let Some(resolved) = &resolved {
        let addresses: Vec<_> = resolved.addresses.iter().map(IpAddr::to_string).collect();
        // An address is no name.
        if !addresses.is_empty() && addresses != [resolved.host.as_str()] {
            super::say(format_args!(
                "  {} is {}",
                resolved.host,
                addresses.join(", ")
            ))?;
        }
        if let Some(remedy) = resolved.remedy() {
            super::say(format_args!("  ! {remedy}"))?;
        }
    }
    let peer = resolved.and_then(|resolved| resolved.addresses.first().copied());
    match InterfaceFilter::of(environment) {
        Ok(None) => super::say(format_args!(
            "  BURN_DIST_IFNAME is not set: the route to rank 0 decides"
        ))?,
        Ok(Some(filter)) => match filter.choose(&interfaces, peer.as_ref()) {
            Ok(chosen) => super::say(format_args!("  BURN_DIST_IFNAME={filter} means {chosen}"))?,
            Err(error) => super::say(format_args!("  ! {error}"))?,
        },
        Err(error) => super::say(format_args!("  ! {error}"))?,
    }
    Ok(())
}

fn show_encryption(options: &WorldOptions) -> io::Result<()> {
    if !options.tls {
        return super::say("  BURN_DIST_TLS is not 1: connections are not encrypted");
    }
    match TlsError::of(&options.token) {
        Some(error) => super::say(format_args!("  ! {error}")),
        None => super::say("  BURN_DIST_TLS is 1: connections are encrypted"),
    }
}

/// Latency and bandwidth of each pair, one after the other.
fn show_pairs(world: &World) -> Result<(), Box<dyn Error>> {
    const LARGE: usize = 4 << 20;
    let root = world.rank() == 0;
    if root {
        super::say(format_args!("pairs"))?;
        super::say(format_args!(
            "  ranks      transport   latency µs   bandwidth GB/s"
        ))?;
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
                f64::from(u8::from(transport == Some(Transport::Shm))),
            ];
            world.broadcast(&mut figures, one)?;
            if root {
                let name = if figures[2] == 0.0 { "tcp" } else { "shm" };
                super::say(format_args!(
                    "  {:<10} {name:<9} {:>12.1} {:>16.2}",
                    format!("{one} - {other}"),
                    figures[0],
                    figures[1]
                ))?;
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
