//! What each launcher leaves in the environment. In the order in which they are asked.

use std::fmt::{Display, Formatter};

use super::environment::Environment;
use super::host_list;
use super::identity::{Identity, IdentityError, MeetingPoint};
use super::run;

/// Who starts processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Launcher {
    /// `burn-dist launch`, or a person: `BURN_DIST_RANK`, `BURN_DIST_WORLD_SIZE`.
    BurnDist,
    /// torchrun and what imitates it: `RANK`, `WORLD_SIZE`, `MASTER_ADDR`, `MASTER_PORT`.
    Torchrun,
    /// Kubeflow's trainer, which starts one process on each node: `PET_NODE_RANK`, `PET_NNODES`.
    Kubeflow,
    /// Open MPI: `OMPI_COMM_WORLD_RANK`.
    OpenMpi,
    /// MPICH, Intel MPI and others with Hydra: `PMI_RANK`.
    Pmi,
    /// A step of Slurm: `SLURM_PROCID`.
    Slurm,
    /// A JobSet of Kubernetes: `JOBSET_NAME` and `JOB_INDEX`, which its manifest takes from labels, `JOB_COMPLETION_INDEX`,
    /// and `BURN_DIST_WORLD_SIZE` in its manifest.
    KubernetesJobSet,
    /// An indexed job of Kubernetes: `JOB_COMPLETION_INDEX`, and `BURN_DIST_WORLD_SIZE` in its manifest.
    KubernetesJob,
    /// Nobody: one process alone.
    None,
}

impl Display for Launcher {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::BurnDist => "BURN_DIST",
            Self::Torchrun => "torchrun",
            Self::Kubeflow => "Kubeflow (PET_)",
            Self::OpenMpi => "Open MPI",
            Self::Pmi => "PMI",
            Self::Slurm => "Slurm",
            Self::KubernetesJobSet => "the Kubernetes JobSet",
            Self::KubernetesJob => "the Kubernetes job",
            Self::None => "no launcher",
        })
    }
}

/// torchrun's.
const DEFAULT_PORT: u16 = 29_500;

/// Ports for jobs that are known by a name only: below those that Linux hands out itself.
const PORTS: std::ops::Range<u64> = 20_000..32_000;

impl Launcher {
    /// All that leave something behind, in the order in which they are asked.
    pub(super) const ALL: [Self; 8] = [
        Self::BurnDist,
        Self::Torchrun,
        Self::Kubeflow,
        Self::OpenMpi,
        Self::Pmi,
        Self::Slurm,
        Self::KubernetesJobSet,
        Self::KubernetesJob,
    ];

    /// What this launcher says, if it has started the process.
    pub(super) fn identity(
        self,
        environment: &Environment,
    ) -> Result<Option<Identity>, IdentityError> {
        let variables = Variables {
            launcher: self,
            environment,
        };
        let found = match self {
            Self::BurnDist => variables.identity(
                ["BURN_DIST_RANK", "BURN_DIST_WORLD_SIZE"],
                ["BURN_DIST_LOCAL_RANK", "BURN_DIST_LOCAL_WORLD_SIZE"],
            )?,
            Self::Torchrun => {
                variables.identity(["RANK", "WORLD_SIZE"], ["LOCAL_RANK", "LOCAL_WORLD_SIZE"])?
            }
            Self::Kubeflow => variables.kubeflow()?,
            Self::OpenMpi => variables.identity(
                ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"],
                ["OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"],
            )?,
            Self::Pmi => variables.identity(
                ["PMI_RANK", "PMI_SIZE"],
                ["MPI_LOCALRANKID", "MPI_LOCALNRANKS"],
            )?,
            Self::Slurm => variables.slurm()?,
            Self::KubernetesJobSet => variables.job_set()?,
            Self::KubernetesJob => variables.job()?,
            Self::None => None,
        };
        let Some(found) = found else { return Ok(None) };
        if found.rank >= found.world_size {
            return Err(IdentityError::Rank {
                launcher: self,
                rank: found.rank,
                world_size: found.world_size,
            });
        }
        let meeting_point = variables.meeting_point(&found)?;
        Ok(Some(Identity {
            meeting_point,
            run: run::of_launcher(self, environment),
            ..found
        }))
    }

    /// Whether this launcher can have been started by `outer`, whose numbers are then those of launchers
    /// and not of processes.
    pub(super) fn may_run_inside(self, outer: Self, environment: &Environment) -> bool {
        match (self, outer) {
            (Self::BurnDist, _) => true,
            // One torchrun on each node of a step, a pod or an MPI job; it says that it is elastic.
            (Self::Torchrun, _) => environment.text("TORCHELASTIC_RUN_ID").is_some(),
            // mpirun starts its daemons as a step of Slurm.
            (Self::OpenMpi | Self::Pmi, Self::Slurm) => true,
            // Pods of an indexed job, with a launcher of their own inside.
            (_, Self::KubernetesJob | Self::KubernetesJobSet) => true,
            _ => false,
        }
    }
}

/// `BURN_DIST_RDZV`, which stands above all launchers.
pub(super) fn named_meeting_point(
    environment: &Environment,
) -> Result<Option<MeetingPoint>, IdentityError> {
    const NAME: &str = "BURN_DIST_RDZV";
    let Some(value) = environment.text(NAME) else {
        return Ok(None);
    };
    let tcp = |address: &str| {
        let (host, port) = address.rsplit_once(':')?;
        let host = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        let port = port.parse().ok().filter(|port| *port > 0)?;
        (!host.is_empty()).then(|| MeetingPoint::Tcp {
            host: host.to_string(),
            port,
        })
    };
    let found = match (value.strip_prefix("tcp://"), value.strip_prefix("file://")) {
        (Some(address), _) => tcp(address),
        (_, Some(path)) if path.starts_with('/') => Some(MeetingPoint::File(path.into())),
        _ => None,
    };
    found.map(Some).ok_or_else(|| IdentityError::Value {
        name: NAME,
        value: value.to_string(),
        expected: "tcp://HOST:PORT or file:///PATH",
    })
}

/// The environment as one launcher has left it.
pub(super) struct Variables<'a> {
    launcher: Launcher,
    environment: &'a Environment,
}

impl Variables<'_> {
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.environment.text(name)
    }

    pub(super) fn number(&self, name: &'static str) -> Result<Option<usize>, IdentityError> {
        let Some(value) = self.text(name) else {
            return Ok(None);
        };
        value.parse().map(Some).map_err(|_| IdentityError::Value {
            name,
            value: value.to_string(),
            expected: "a number from 0",
        })
    }

    /// Rank and world size, and the numbers on the host, which may be missing.
    pub(super) fn identity(
        &self,
        ranks: [&'static str; 2],
        [local_rank, local_world_size]: [&'static str; 2],
    ) -> Result<Option<Identity>, IdentityError> {
        let Some((rank, world_size)) = self.ranks(ranks)? else {
            return Ok(None);
        };
        Ok(Some(Identity {
            rank,
            world_size,
            local_rank: self.number(local_rank)?,
            local_world_size: self.number(local_world_size)?,
            meeting_point: None,
            run: None,
            launcher: self.launcher,
        }))
    }

    /// Rank and world size, of which neither may be missing if the other is there.
    fn ranks(
        &self,
        [rank, world_size]: [&'static str; 2],
    ) -> Result<Option<(usize, usize)>, IdentityError> {
        let missing = |found, missing| IdentityError::Missing {
            launcher: self.launcher,
            found,
            missing,
        };
        match (self.number(rank)?, self.number(world_size)?) {
            (None, None) => Ok(None),
            // The size of a Kubernetes job stands in its manifest.
            (None, Some(_)) if self.launcher == Launcher::BurnDist && self.in_indexed_job() => {
                Ok(None)
            }
            (Some(_), None) => Err(missing(rank, world_size)),
            (None, Some(_)) => Err(missing(world_size, rank)),
            (Some(rank), Some(world_size)) => Ok(Some((rank, world_size))),
        }
    }

    /// One process on each node; more are a launcher's to start.
    fn kubeflow(&self) -> Result<Option<Identity>, IdentityError> {
        const PROCESSES: &str = "PET_NPROC_PER_NODE";
        let node = self.identity(
            ["PET_NODE_RANK", "PET_NNODES"],
            ["PET_LOCAL_RANK", "PET_LOCAL_WORLD_SIZE"],
        )?;
        match self.text(PROCESSES) {
            None | Some("1" | "auto" | "cpu" | "gpu") => Ok(node.map(|node| Identity {
                local_rank: Some(0),
                local_world_size: Some(1),
                ..node
            })),
            Some(_) if node.is_none() => Ok(None),
            // torchrun, started in the pod, has said who is who.
            Some(_) if self.text("RANK").is_some() => Ok(None),
            Some(value) => Err(IdentityError::Value {
                name: PROCESSES,
                value: value.to_string(),
                expected: "1, since this program starts one process on a node",
            }),
        }
    }

    /// A task of a step. Outside of one, as in a batch script, Slurm has started no task, though its
    /// variables look like it.
    fn slurm(&self) -> Result<Option<Identity>, IdentityError> {
        if self.text("SLURM_STEP_ID").is_none() || self.text("SLURM_PROCID").is_none() {
            return Ok(None);
        }
        // That of the job holds where the step has none of its own.
        let size = match self.text("SLURM_STEP_NUM_TASKS") {
            Some(_) => "SLURM_STEP_NUM_TASKS",
            None => "SLURM_NTASKS",
        };
        let Some((rank, world_size)) = self.ranks(["SLURM_PROCID", size])? else {
            return Ok(None);
        };
        let tasks = self
            .text("SLURM_STEP_TASKS_PER_NODE")
            .or(self.text("SLURM_TASKS_PER_NODE"));
        let tasks = tasks.and_then(host_list::tasks).unwrap_or_default();
        let node = self.number("SLURM_NODEID")?;
        Ok(Some(Identity {
            rank,
            world_size,
            local_rank: self.number("SLURM_LOCALID")?,
            local_world_size: node.and_then(|node| tasks.get(node).copied()),
            meeting_point: None,
            run: None,
            launcher: self.launcher,
        }))
    }

    /// Where the processes of this launcher meet, as far as it says.
    fn meeting_point(&self, found: &Identity) -> Result<Option<MeetingPoint>, IdentityError> {
        let [address, port] = match self.launcher {
            Launcher::Kubeflow => ["PET_MASTER_ADDR", "PET_MASTER_PORT"],
            _ => ["MASTER_ADDR", "MASTER_PORT"],
        };
        let tcp = |host: &str, port| {
            Some(MeetingPoint::Tcp {
                host: host.to_string(),
                port,
            })
        };
        if let Some(host) = self.text(address) {
            let port = self.port(port)?.unwrap_or(DEFAULT_PORT);
            // Its agent listens there itself and says so: its neighbour is what all ranks can agree on.
            let taken = self.text("TORCHELASTIC_USE_AGENT_STORE") == Some("True");
            return Ok(tcp(host, if taken { port ^ 1 } else { port }));
        }
        Ok(match self.launcher {
            Launcher::Slurm => {
                let list = self
                    .text("SLURM_STEP_NODELIST")
                    .or(self.text("SLURM_JOB_NODELIST"));
                let hosts = list.and_then(host_list::hosts);
                let first = hosts.and_then(|hosts| hosts.into_iter().next());
                first.and_then(|host| tcp(&host, self.step_port()))
            }
            Launcher::KubernetesJobSet => {
                let port = self.port("MASTER_PORT")?.unwrap_or(DEFAULT_PORT);
                self.first_of_job_set().and_then(|host| tcp(&host, port))
            }
            // All on this host.
            Launcher::OpenMpi if found.local_world_size == Some(found.world_size) => {
                tcp("127.0.0.1", port_of(self.value("PMIX_NAMESPACE")))
            }
            Launcher::Pmi if found.local_world_size == Some(found.world_size) => {
                // Hydra leaves nothing that tells one job from another.
                tcp("127.0.0.1", DEFAULT_PORT)
            }
            _ => None,
        })
    }

    fn port(&self, name: &'static str) -> Result<Option<u16>, IdentityError> {
        let Some(value) = self.text(name) else {
            return Ok(None);
        };
        match value.parse::<u16>() {
            Ok(port) if port > 0 => Ok(Some(port)),
            _ => Err(IdentityError::Value {
                name,
                value: value.to_string(),
                expected: "a port from 1 to 65535",
            }),
        }
    }

    /// The port of a step of Slurm, which every task comes to by itself. Steps of one job may run at the same time, and jobs
    /// that were submitted one after the other: a prime keeps their ports apart.
    fn step_port(&self) -> u16 {
        let (job, step) = (self.value("SLURM_JOB_ID"), self.value("SLURM_STEP_ID"));
        port_of(job.wrapping_add(step.wrapping_mul(7_919)))
    }

    /// A number for the value of a variable: itself, if it is one.
    fn value(&self, name: &str) -> u64 {
        let text = self.text(name).unwrap_or_default();
        text.parse::<u64>().unwrap_or_else(|_| {
            // FNV-1a.
            text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            })
        })
    }
}

/// The port of a job that has this number.
fn port_of(number: u64) -> u16 {
    (PORTS.start + number % (PORTS.end - PORTS.start)) as u16
}
