//! Which run of a job a process belongs to. A process that an earlier run has left has the same token, host and port, and
//! must not take a place in the next one.

use super::environment::Environment;
use super::launcher::Launcher;

/// The run that stands above what launchers say. `burn-dist launch` draws one; a person may name one.
pub(crate) const VARIABLE: &str = "BURN_DIST_RUN";

/// What `launcher` says of the run, the same in all processes that it has started; `None` if it says nothing that tells
/// one from another.
pub(super) fn of_launcher(launcher: Launcher, environment: &Environment) -> Option<String> {
    let text = |name: &str| environment.text(name);
    let restarted = |run: String, restarts: Option<&str>| match restarts {
        Some(restarts) => format!("{run}, restart {restarts}"),
        None => run,
    };
    match launcher {
        Launcher::Torchrun => {
            let run = text("TORCHELASTIC_RUN_ID")?.to_owned();
            // Each agent counts its own restarts, and not those that others have asked for: they agree if there is one.
            let alone = text("GROUP_WORLD_SIZE") == Some("1");
            let restarts = text("TORCHELASTIC_RESTART_COUNT").filter(|_| alone);
            Some(restarted(run, restarts))
        }
        Launcher::OpenMpi | Launcher::Pmi => text("PMIX_NAMESPACE").map(ToOwned::to_owned),
        Launcher::Slurm => {
            let (job, step) = (text("SLURM_JOB_ID")?, text("SLURM_STEP_ID")?);
            Some(restarted(
                format!("{job}.{step}"),
                text("SLURM_RESTART_COUNT"),
            ))
        }
        Launcher::KubernetesJobSet => {
            let set = text("JOBSET_UID").or(text("JOBSET_NAME"))?.to_owned();
            Some(restarted(set, text("JOBSET_RESTART_ATTEMPT")))
        }
        // The name of a job is that of the next one too.
        Launcher::BurnDist | Launcher::Kubeflow | Launcher::KubernetesJob | Launcher::None => None,
    }
}
