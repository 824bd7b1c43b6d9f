//! Why nothing was launched, or a launch was given up.

use std::io;
use std::path::PathBuf;

use super::host::HostError;

/// Why nothing was launched, or a launch was given up. No process is left behind.
#[derive(thiserror::Error)]
pub enum LaunchError {
    /// No ranks are asked for.
    #[error("0 ranks are none to launch: ask for 1 or more")]
    NoRanks,
    /// More ranks than any job has.
    #[error("{ranks} ranks are more than a job may have: ask for 65535 or fewer")]
    TooManyRanks {
        /// What is asked for.
        ranks: usize,
    },
    /// The hosts cannot make a job.
    #[error(transparent)]
    Hosts(#[from] HostError),
    /// The program is not there.
    #[error(
        "cannot start {}: {source}: give the path of a program, or a name that PATH leads to",
        program.display()
    )]
    NotFound {
        /// The program.
        program: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The program is there, but is none or may not be executed.
    #[error("cannot start {}: {source}: it must be a file that may be executed", program.display())]
    NotExecutable {
        /// The program.
        program: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A process cannot be started.
    #[error("cannot start {}: {source}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// What connects to hosts cannot be started.
    #[error(
        "cannot start {} for --hosts: {source}: install ssh, or name another command by --ssh or BURN_DIST_SSH",
        program.display()
    )]
    SshNotStarted {
        /// The program in place of ssh.
        program: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A variable is given that the launcher itself sets.
    #[error(
        "{name} cannot be given by --env, since it is the launcher that says it: -n or --hosts set the ranks, --port where they meet, --ssh the command for ssh"
    )]
    OwnVariable {
        /// The variable.
        name: &'static str,
    },
    /// The file or folder for the output cannot be made.
    #[error("cannot write the output of ranks to {}: {source}", path.display())]
    Output {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// What ssh is to be is no command.
    #[error("{command:?} is no command for ssh: quotes have to be closed, and a program named")]
    Ssh {
        /// The command.
        command: String,
    },
    /// What a node reads first did not come.
    #[error(
        "standard input says nothing of a job: `burn-dist node` is for `burn-dist launch` to start"
    )]
    NoJob,
    /// The system refuses something else.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system says.
        source: io::Error,
    },
}

crate::debug_as_display!(LaunchError);

impl LaunchError {
    /// What a shell would exit with: 127 for a program that is not there, 126 for one that cannot be
    /// executed, 2 for a variable that cannot be given, else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound { .. } => 127,
            Self::NotExecutable { .. } => 126,
            Self::OwnVariable { .. } => 2,
            _ => 1,
        }
    }

    pub(super) fn start(program: impl Into<PathBuf>, source: io::Error) -> Self {
        let program = program.into();
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound { program, source },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ExecutableFileBusy => {
                Self::NotExecutable { program, source }
            }
            // An executable of another kind of machine: the system's error has no kind of its own.
            _ if source.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) => {
                Self::NotExecutable { program, source }
            }
            _ => Self::Start { program, source },
        }
    }

    pub(super) fn start_ssh(program: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::SshNotStarted {
            program: program.into(),
            source,
        }
    }

    pub(super) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }

    pub(super) fn random(error: getrandom::Error) -> Self {
        Self::System {
            what: "cannot make a random token",
            source: io::Error::other(error),
        }
    }
}
