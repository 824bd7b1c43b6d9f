//! All ranks of a job, as one of them sees them.
//!
//! | module | what it is for |
//! |---|---|
//! | `operations` | what a world can do |
//! | `execution` | how an operation is carried out |
//! | `options` | what may be chosen |
//! | `connection` | which transport two ranks take |
//! | `engine` | connections, and memory on the way |
//! | `turn` | operations take turns |
//! | `memory` | where memory for operations comes from |
//! | `buffer` | memory that operations work on |
//! | `pending` | an operation that was started |

mod buffer;
mod connection;
mod engine;
mod execution;
mod memory;
mod operations;
mod options;
mod pending;
mod turn;

use std::fmt::{Debug, Formatter};
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, Once};
use std::thread::JoinHandle;

pub use buffer::Buffer;
pub use connection::ConnectionError;
pub use operations::{Collective, Gathered};
pub use options::{Options, OptionsError};
pub use pending::Pending;

use crate::collective::Topology;
use crate::rendezvous::{
    Assembly, Credentials, Environment, Host, Identity, IdentityError, Member, Rendezvous,
    RendezvousError, Roster, Terms, TimeLimit, TlsError, build_of_process,
};
use crate::report::Report;
use crate::supervision::{CollectiveError, Supervisor, Writings};
use crate::transport::{Heap, Inbox, Poll, Transport};
use engine::Engine;
use turn::Turns;

/// All ranks of a job.
///
/// Operations are called on all ranks in the same order. A blocking one works on a slice; [`start`](Self::start) takes a
/// [`Buffer`] and goes on in a thread of the world. After the first failure every operation returns its cause.
///
/// When it is dropped this rank leaves: it first waits for what was started, and not for the others. Rank 0, which finds
/// out why an operation fails, also waits until the others have done what it took part in, as long as any of them waits for
/// another, and five seconds for those that have not called it.
/// An operation that another rank calls later, and for which it needs this one, fails with [`CollectiveError::Left`].
///
/// ```
/// use burn_dist_core::World;
/// use burn_dist_core::collective::Reduction;
///
/// // A world of one, where no launcher has started the process.
/// let world = World::init()?;
/// let mut gradients = vec![1.0f32, 2.0];
/// world.all_reduce(&mut gradients, Reduction::Mean)?;
/// assert_eq!(gradients, [1.0, 2.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct World {
    shared: Arc<Shared>,
    /// Operations that were started, for the thread that carries them out.
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

type Job = Box<dyn FnOnce() + Send>;

/// What the thread of a world shares with it.
struct Shared {
    identity: Identity,
    members: Vec<Member>,
    topology: Topology,
    transports: Vec<Option<Transport>>,
    poll: Poll,
    /// Memory that the other ranks of this host read in place.
    heap: Option<Arc<Heap>>,
    group: u32,
    options: Options,
    report: Report,
    has_warned_of_memory: Once,
    supervisor: Arc<Supervisor>,
    turns: Turns,
    engine: Mutex<Engine>,
}

/// Why there is no world.
#[derive(thiserror::Error)]
pub enum WorldError {
    /// The environment does not say who this process is.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// An option cannot be used.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// TLS is wanted and cannot be had.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The processes did not come together.
    #[error(transparent)]
    Rendezvous(#[from] RendezvousError),
    /// Two ranks have no connection.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// Several ranks, and nowhere to meet.
    #[error("{0} ranks, but no meeting point: set BURN_DIST_RDZV")]
    NoMeetingPoint(usize),
    /// The system refuses something.
    #[error("{0}")]
    Io(#[from] io::Error),
}

crate::debug_as_display!(WorldError);

impl World {
    /// The world that the environment of this process says: its launcher who it is, `BURN_DIST_*` the
    /// [`Options`]. Waits for the other ranks.
    ///
    /// # Errors
    ///
    /// If the environment makes no sense, or the ranks do not come together in time or do not fit together.
    pub fn init() -> Result<Self, WorldError> {
        let environment = Environment::of_process();
        let options = Options::of(&environment)?;
        Self::connect(&Identity::of(&environment)?, options)
    }

    /// The world of a process that knows who it is.
    ///
    /// # Errors
    ///
    /// If the ranks do not come together in time or do not fit together.
    pub fn connect(identity: &Identity, options: Options) -> Result<Self, WorldError> {
        let report = options.report.clone();
        let report = report.unwrap_or_else(|| Report::of_rank(identity.rank));
        // Before anything that may fail for want of it.
        let leads = identity
            .local_rank
            .map_or(identity.rank == 0, |local| local == 0);
        for name in options.unknown.iter().filter(|_| leads) {
            report.warn(&format!(
                "{name} is no variable of burn-dist and changes nothing: look for its name in the documentation of Options, or unset it"
            ));
        }
        let host = Host::of_process(options.host.as_deref());
        let time = TimeLimit::of(options.timeout);
        let assembly = match identity.world_size {
            1 => alone(identity, host),
            _ => assemble(identity, host, &options, time, &report)?,
        };
        let Assembly {
            roster,
            control,
            links,
        } = assembly;
        let rank = identity.rank;
        warn_of_strangers(&roster, &options, rank, &report);
        // What all ranks of a host would say alike, one says.
        let report_of_host = if roster.is_first_of_host(rank) {
            report.clone()
        } else {
            Report::silent()
        };
        let (links, inbox) = connection::connect(rank, &roster, links, &options, time, &report)?;
        let topology = Topology::new(&host_numbers(&roster));
        let poll = options.poll.unwrap_or_else(|| poll_of(&roster, rank));
        let transports = links.iter().map(|lanes| Some(lanes.first()?.transport()));
        let transports = transports.collect();
        let doorbell = inbox.as_ref().map(Inbox::doorbell);
        let engine = Engine::new(rank, topology, links, doorbell, poll)?;
        let flights = options.flight_recorder.clone().unwrap_or_else(|| {
            let folder: PathBuf = std::env::temp_dir();
            folder.join(format!("burn-dist-{}", &roster.world))
        });
        let supervisor = Supervisor::start(
            rank,
            roster.members.clone(),
            control,
            options.operation_timeout,
            Writings {
                flights,
                trace: options.trace.clone(),
                report: report_of_host,
            },
        )?;
        let (jobs, queue) = channel::<Job>();
        let thread = std::thread::Builder::new().name("communication".into());
        let thread = thread.spawn(move || {
            for job in queue {
                // Who waits for this one finds it gone. Those behind it have to fail, not to wait for its turn for ever.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
            }
        })?;
        Ok(Self {
            shared: Arc::new(Shared {
                identity: identity.clone(),
                group: roster.group(),
                members: roster.members,
                topology,
                transports,
                poll,
                heap: inbox.as_ref().and_then(Inbox::heap).cloned(),
                options,
                report,
                has_warned_of_memory: Once::new(),
                supervisor,
                turns: Turns::default(),
                engine: Mutex::new(engine),
            }),
            jobs: Some(jobs),
            thread: Some(thread),
        })
    }

    /// Number of this process, from 0.
    pub fn rank(&self) -> usize {
        self.shared.identity.rank
    }

    /// Number of processes.
    pub fn size(&self) -> usize {
        self.shared.members.len()
    }

    /// Number of this process among those of its host, from 0.
    pub fn local_rank(&self) -> usize {
        let own = &self.shared.members[self.rank()];
        let before = self.shared.members[..self.rank()].iter();
        let counted = before.filter(|member| member.host.is(&own.host)).count();
        self.shared.identity.local_rank.unwrap_or(counted)
    }

    /// How the processes are spread over hosts.
    pub fn topology(&self) -> Topology {
        self.shared.topology
    }

    /// All processes, in the order of their ranks.
    pub fn members(&self) -> &[Member] {
        &self.shared.members
    }

    /// What carries the bytes to and from a rank; `None` for this one itself.
    pub fn transport(&self, rank: usize) -> Option<Transport> {
        self.shared.transports.get(rank).copied().flatten()
    }

    /// What this rank does while nothing arrives.
    pub fn poll(&self) -> Poll {
        self.shared.poll
    }

    /// The file with the last operations of this rank, written when it fails.
    pub fn flight_recorder(&self) -> PathBuf {
        self.shared.supervisor.flight()
    }

    /// The failure of this world, if it has failed.
    pub fn failure(&self) -> Option<CollectiveError> {
        self.shared.supervisor.failure().err()
    }
}

impl Debug for World {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "World(rank {} of {})", self.rank(), self.size())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // What was started is done before, or has failed.
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // It ends with its queue; if it has panicked, that was reported.
            let _ = thread.join();
        }
        self.shared.supervisor.leave(self.shared.turns.called());
    }
}

fn alone(identity: &Identity, host: Host) -> Assembly {
    let member = Member {
        rank: identity.rank,
        address: IpAddr::from([127, 0, 0, 1]),
        port: 0,
        host,
        process: std::process::id(),
    };
    Assembly {
        roster: Roster {
            world: format!("{:032x}", std::process::id()),
            members: vec![member],
        },
        control: std::collections::BTreeMap::new(),
        links: vec![Vec::new()],
    }
}

fn assemble(
    identity: &Identity,
    host: Host,
    options: &Options,
    time: TimeLimit,
    report: &Report,
) -> Result<Assembly, WorldError> {
    let point = identity.meeting_point.as_ref();
    let point = point.ok_or(WorldError::NoMeetingPoint(identity.world_size))?;
    let build = if options.any_build {
        None
    } else {
        Some(build_of_process()?)
    };
    let rendezvous = Rendezvous {
        identity,
        point,
        credentials: &Credentials::new(&options.token, identity.run.as_deref(), options.tls)?,
        terms: Terms {
            build,
            options: options.terms(),
        },
        host,
        time,
        interface: options.interface.as_ref(),
        ports: options.ports.clone(),
        lanes: &|one, other| connection::streams(options, one, other),
        report,
    };
    Ok(rendezvous.assemble()?)
}

/// Says once what it means that no token is set.
fn warn_of_strangers(roster: &Roster, options: &Options, rank: usize, report: &Report) {
    let own = &roster.members[rank].host;
    let far = roster.members.iter().any(|member| !member.host.is(own));
    if rank == 0 && far && !options.token.is_set() {
        report.warn(
            "BURN_DIST_TOKEN is not set: whoever reaches this network can join the job, and its data with it; give all processes one secret token",
        );
    }
}

/// A number for the host of each rank.
fn host_numbers(roster: &Roster) -> Vec<u64> {
    let first = |member: &Member| {
        let same = roster
            .members
            .iter()
            .position(|other| other.rank == member.rank || other.host.is(&member.host));
        same.unwrap_or(member.rank) as u64
    };
    roster.members.iter().map(first).collect()
}

/// Ranks that have a core each may use it while they wait; a short while.
fn poll_of(roster: &Roster, rank: usize) -> Poll {
    let own = &roster.members[rank].host;
    let ranks = roster
        .members
        .iter()
        .filter(|member| member.host.is(own))
        .count();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if ranks < cores {
        Poll::Hybrid
    } else {
        Poll::Block
    }
}
