//! Who this process is among those of its job, from what its launcher has left in the environment.

use std::fmt::{Display, Formatter};
use std::path::PathBuf;

use super::environment::Environment;
use super::launcher::Launcher;
use super::run;

/// Where the processes of a job meet first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MeetingPoint {
    /// Rank 0 listens there.
    Tcp {
        /// Name or address of the host of rank 0.
        host: String,
        /// Its port.
        port: u16,
    },
    /// A file in a folder that all processes share; it must not be there before.
    File(PathBuf),
}

impl Display for MeetingPoint {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            // An address of IPv6 has colons of its own.
            Self::Tcp { host, port } if host.contains(':') => write!(f, "tcp://[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "tcp://{host}:{port}"),
            Self::File(path) => write!(f, "file://{}", path.display()),
        }
    }
}

/// Rank and place of a process in a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Number of the process, from 0.
    pub rank: usize,
    /// Processes of the job.
    pub world_size: usize,
    /// Number of the process on its host, from 0; `None` if the launcher does not say.
    pub local_rank: Option<usize>,
    /// Processes of the job on this host; `None` if the launcher does not say.
    pub local_world_size: Option<usize>,
    /// Where the processes meet; `None` if there is one only.
    pub meeting_point: Option<MeetingPoint>,
    /// What tells this run of the job from others: `BURN_DIST_RUN`, or what the launcher says of it. Processes of another
    /// run are turned away. `None` if nobody says.
    pub run: Option<String>,
    /// Who has said so.
    pub launcher: Launcher,
}

/// Why an environment does not say who a process is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// A launcher has set one variable and not another.
    #[error("{found} is set, as by {launcher}, but not {missing}: set it, or unset the other")]
    Missing {
        /// The launcher.
        launcher: Launcher,
        /// The variable that is there.
        found: &'static str,
        /// The one that is not.
        missing: &'static str,
    },
    /// A variable has a value that it cannot have.
    #[error("{name} is {value:?}: expected {expected}")]
    Value {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        expected: &'static str,
    },
    /// The manifest of a JobSet does not pass on what its pods need.
    #[error(
        "JOBSET_NAME is set, but not {name}: add it to env in the manifest, with valueFrom: fieldRef: fieldPath: metadata.labels['{label}'], or unset JOBSET_NAME"
    )]
    Label {
        /// The variable that is missing.
        name: &'static str,
        /// The label of the pod that has its value.
        label: &'static str,
    },
    /// A rank that its world has not.
    #[error(
        "{launcher} says rank {rank} of {world_size}: a job has at least one rank, and they count from 0"
    )]
    Rank {
        /// The launcher.
        launcher: Launcher,
        /// The rank.
        rank: usize,
        /// Processes of the job.
        world_size: usize,
    },
    /// Two launchers say different things.
    #[error(
        "{} says rank {} of {}, {} says rank {} of {}: unset the variables of one, or say which by BURN_DIST_RANK and BURN_DIST_WORLD_SIZE",
        one.0, one.1, one.2, other.0, other.1, other.2
    )]
    Conflict {
        /// A launcher with its rank and world size.
        one: (Launcher, usize, usize),
        /// Another.
        other: (Launcher, usize, usize),
    },
    /// Nobody says where several processes are to meet.
    #[error(
        "{launcher} starts {world_size} processes, but nothing says where they meet: set BURN_DIST_RDZV to tcp://HOST:PORT of rank 0, or to file:///PATH in a shared folder"
    )]
    NoMeetingPoint {
        /// The launcher.
        launcher: Launcher,
        /// Processes of the job.
        world_size: usize,
    },
}

impl Identity {
    /// The identity of this process; rank 0 of 1 where no launcher has started it.
    ///
    /// ```
    /// use burn_dist_core::rendezvous::{Environment, Identity};
    ///
    /// let variables = [("RANK", "1"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "a"), ("MASTER_PORT", "29500")];
    /// let identity = Identity::of(&variables.into_iter().collect::<Environment>())?;
    /// assert_eq!((identity.rank, identity.world_size), (1, 2));
    /// # Ok::<(), burn_dist_core::rendezvous::IdentityError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If what launchers have left is incomplete, makes no sense, or disagrees.
    pub fn of(environment: &Environment) -> Result<Self, IdentityError> {
        let mut found: Vec<Self> = Vec::new();
        for launcher in Launcher::ALL {
            found.extend(launcher.identity(environment)?);
        }
        let Some(first) = found.first().cloned() else {
            return Ok(Self::alone());
        };
        for other in &found[1..] {
            let same = (first.rank, first.world_size) == (other.rank, other.world_size);
            if !same && !first.launcher.may_run_inside(other.launcher, environment) {
                return Err(IdentityError::Conflict {
                    one: (first.launcher, first.rank, first.world_size),
                    other: (other.launcher, other.rank, other.world_size),
                });
            }
        }
        // Launchers that say the same speak of the same processes.
        let same = |other: &&Self| (first.rank, first.world_size) == (other.rank, other.world_size);
        let run = environment.text(run::VARIABLE).map(ToOwned::to_owned);
        let run = run.or_else(|| found.iter().filter(same).find_map(|one| one.run.clone()));
        let named = super::launcher::named_meeting_point(environment)?;
        let others = found.into_iter().map(|identity| identity.meeting_point);
        let meeting_point = named.or_else(|| others.flatten().next());
        if first.world_size > 1 && meeting_point.is_none() {
            return Err(IdentityError::NoMeetingPoint {
                launcher: first.launcher,
                world_size: first.world_size,
            });
        }
        Ok(Self {
            meeting_point: meeting_point.filter(|_| first.world_size > 1),
            run,
            ..first
        })
    }

    fn alone() -> Self {
        Self {
            rank: 0,
            world_size: 1,
            local_rank: Some(0),
            local_world_size: Some(1),
            meeting_point: None,
            run: None,
            launcher: Launcher::None,
        }
    }
}
