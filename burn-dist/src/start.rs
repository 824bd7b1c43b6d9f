//! A program as one of several processes: [`start`] at its beginning is all that it needs.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use burn_dist_core::launch::{Launch, LaunchError};
use burn_dist_core::rendezvous::{Environment, Identity, IdentityError, Launcher};
use burn_dist_core::{Options, OptionsError, World, WorldError};

/// What this process has become.
pub enum Started {
    /// One that does the work: a rank of a world, or alone.
    Rank(Option<Arc<World>>),
    /// The one that had started the ranks, which have ended. Its exit code is theirs.
    Launcher(ExitCode),
}

/// Why a program cannot be started as several processes.
#[derive(thiserror::Error)]
pub enum StartError {
    /// Ranks are asked for where a launcher has started some.
    #[error(
        "{option}: this process is one of several already, started by {launcher}: leave it out"
    )]
    StartedAlready {
        /// The option that asks for ranks.
        option: &'static str,
        /// Who has started this process.
        launcher: Launcher,
    },
    /// No rank is asked for.
    #[error("{option}: 0 is too small: give at least 1")]
    NoRanks {
        /// The option that asks for ranks.
        option: &'static str,
    },
    /// The environment does not say who this process is.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// An option of the environment cannot be used.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// Ranks cannot be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The ranks do not come together.
    #[error(transparent)]
    World(#[from] WorldError),
    /// This program does not find itself.
    #[error("the path of this program is not known: {0}")]
    Program(#[from] io::Error),
}

burn_dist_core::debug_as_display!(StartError);

/// Starts this program anew as `ranks` processes of this host, if it is to be several; takes its place among others, if
/// a launcher has started it: `burn-dist launch`, mpirun, srun, torchrun, Kubernetes.
///
/// `option` is what a user gives the number of `ranks` by; the processes that are started get the same arguments.
/// `configuration`, options of the program by name, has to be the same in all processes.
///
/// ```no_run
/// use burn_dist::start::{Started, start};
///
/// let world = match start("--nproc", Some(2), Vec::new())? {
///     Started::Launcher(code) => std::process::exit(i32::from(code != std::process::ExitCode::SUCCESS)),
///     Started::Rank(world) => world,
/// };
/// if let Some(world) = world {
///     println!("rank {} of {}", world.rank(), world.size());
/// }
/// # Ok::<(), burn_dist::start::StartError>(())
/// ```
///
/// # Errors
///
/// If the ranks cannot be started, do not come together, or differ.
pub fn start(
    option: &'static str,
    ranks: Option<usize>,
    configuration: Vec<(String, String)>,
) -> Result<Started, StartError> {
    let environment = Environment::of_process();
    let identity = Identity::of(&environment)?;
    let launcher = identity.launcher;
    // Those that it has started have its arguments.
    match ranks.filter(|_| std::env::var_os(STARTED).is_none()) {
        Some(_) if launcher != Launcher::None => {
            return Err(StartError::StartedAlready { option, launcher });
        }
        Some(0) => return Err(StartError::NoRanks { option }),
        Some(ranks) if ranks > 1 => {
            let launch = Launch::new(std::env::current_exe()?, std::env::args_os().skip(1));
            let outcome = launch.variable(STARTED, "1").ranks(ranks).run()?;
            outcome.print_failure();
            return Ok(Started::Launcher(outcome.exit_code().into()));
        }
        _ => {}
    }
    if identity.world_size == 1 {
        return Ok(Started::Rank(None));
    }
    let mut options = Options::of(&environment)?;
    options.configuration = configuration;
    let world = World::connect(&identity, options)?;
    Ok(Started::Rank(Some(Arc::new(world))))
}

/// The variable by which a process knows that [`start`] has started it.
const STARTED: &str = "BURN_DIST_STARTED_BY_ITSELF";

/// Processes of `world` on this host, among which its cores are shared.
pub fn ranks_of_host(world: Option<&World>) -> usize {
    world.map_or(1, |world| {
        let own = &world.members()[world.rank()].host;
        let near = world.members().iter();
        near.filter(|member| member.host.is(own)).count()
    })
}
