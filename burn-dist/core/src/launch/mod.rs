//! Starting the processes of a job: ranks on this host, or on several by ssh.
//!
//! ```no_run
//! use burn_dist_core::launch::Launch;
//! use burn_dist_core::rendezvous::{Environment, Identity, Launcher};
//!
//! // What a launcher has started is a rank already, and must not start others.
//! if Identity::of(&Environment::of_process())?.launcher == Launcher::None {
//!     // This program once more, as two ranks.
//!     let program = std::env::current_exe()?;
//!     let outcome = Launch::new(program, ["--epochs", "4"]).ranks(2).run()?;
//!     outcome.print_failure();
//!     std::process::exit(outcome.exit_code().into());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | what it is for |
//! |---|---|
//! | `builder` | what to launch, and how |
//! | `host` | lists of hosts |
//! | `variables` | what a rank finds in its environment |
//! | `process` | a process and its descendants, until they are gone |
//! | `orphans` | descendants that have lost their parent |
//! | `watchdog` | what kills descendants when the launcher was killed |
//! | `supervisor` | all processes of a launch, until the last has ended |
//! | `signals` | those that this process is sent |
//! | `lines` | lines from bytes |
//! | `output` | where lines go |
//! | `pump` | lines from a process to there |
//! | `remote` | a host, seen from the launcher |
//! | `node` | the launcher, seen from a host |
//! | `wire` | what the two say to each other |
//! | `outcome` | how a launch has ended |
//! | `error` | why nothing was launched |
//!
//! Knows of rendezvous what a process finds in its environment, and no transport and no collective.

mod builder;
mod error;
mod host;
mod lines;
mod node;
mod orphans;
mod outcome;
mod output;
mod process;
mod pump;
mod remote;
mod signals;
mod supervisor;
mod variables;
mod watchdog;
mod wire;

pub use builder::Launch;
pub use error::LaunchError;
pub use host::{Host, HostError};
pub use node::Node;
pub use outcome::{Cause, Failure, Outcome};
pub use output::Output;
