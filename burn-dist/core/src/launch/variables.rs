//! What a rank finds in its environment: who it is, where all meet, their token, and the run.
//!
//! What other launchers have left is taken away: it speaks of the launcher, not of its ranks, and a
//! half of it would be an error.

use std::ffi::{OsStr, OsString};
use std::process::Command;

use super::error::LaunchError;
use crate::rendezvous::RUN;

/// A variable and its value.
pub(super) type Variable = (OsString, OsString);

pub(super) const RENDEZVOUS: &str = "BURN_DIST_RDZV";
const TOKEN: &str = "BURN_DIST_TOKEN";
const TOKEN_FILE: &str = "BURN_DIST_TOKEN_FILE";

/// What is said of each rank, and of the launcher.
const OWN: [&str; 7] = [
    "BURN_DIST_RANK",
    "BURN_DIST_WORLD_SIZE",
    "BURN_DIST_LOCAL_RANK",
    "BURN_DIST_LOCAL_WORLD_SIZE",
    RENDEZVOUS,
    RUN,
    "BURN_DIST_SSH",
];

/// By which other launchers say who a process is. What they say of a job stays, such as
/// `SLURM_JOB_ID`.
const OTHERS: [&str; 13] = [
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "JOB_COMPLETION_INDEX",
];
const PREFIXES: [&str; 7] = [
    "TORCHELASTIC_",
    "PET_",
    "OMPI_COMM_WORLD_",
    "PMI_",
    "PMIX_",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
];

/// None of `given` is one that the launcher itself says: that of the user would be lost without a word.
pub(super) fn check(given: &[Variable]) -> Result<(), LaunchError> {
    let own = |(name, _): &Variable| OWN.into_iter().find(|own| name == own);
    match given.iter().find_map(own) {
        Some(name) => Err(LaunchError::OwnVariable { name }),
        None => Ok(()),
    }
}

/// Number and place of a rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) rank: usize,
    pub(super) world_size: usize,
    pub(super) local_rank: usize,
    pub(super) local_world_size: usize,
}

/// Gives `command` the environment of this process with `variables`, as the rank at `place` needs it.
pub(super) fn give(command: &mut Command, variables: &[Variable], place: Place) {
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_another(name)) {
        command.env_remove(name);
    }
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    let numbers = [
        place.rank,
        place.world_size,
        place.local_rank,
        place.local_world_size,
    ];
    for (name, number) in OWN.into_iter().zip(numbers) {
        command.env(name, number.to_string());
    }
}

/// What of this process's environment the ranks on other hosts need too.
pub(super) fn for_hosts() -> Vec<Variable> {
    let own = std::env::vars_os().filter(|(name, _)| {
        let text = name.to_string_lossy();
        text.starts_with("BURN_DIST_") && !OWN.contains(&text.as_ref())
    });
    own.collect()
}

/// A new token of 32 random bytes, unless `variables` or the environment have one or name its file.
pub(super) fn token(variables: &[Variable]) -> Result<Option<Variable>, LaunchError> {
    let given = |name: &str| {
        let added = variables.iter().find(|(other, _)| other == name);
        let value = added.map(|(_, value)| value.clone());
        let value = value.or_else(|| std::env::var_os(name));
        value.is_some_and(|value| !value.to_string_lossy().trim().is_empty())
    };
    if given(TOKEN) || given(TOKEN_FILE) {
        return Ok(None);
    }
    Ok(Some((TOKEN.into(), random::<32>()?.into())))
}

/// What tells this run from others: ranks that an earlier one has left may know the same token.
pub(super) fn run() -> Result<Variable, LaunchError> {
    Ok((RUN.into(), random::<8>()?.into()))
}

/// So many random bytes, as text.
fn random<const BYTES: usize>() -> Result<String, LaunchError> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(LaunchError::random)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn is_of_another(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    OTHERS.contains(&name.as_ref()) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::rendezvous::{Environment, Identity, Launcher};

    /// Even where another launcher's variables are half there, or contradict.
    #[test]
    fn no_variable_of_another_launcher_gets_in_the_way() {
        let own = "BURN_DIST_RANK=1 BURN_DIST_WORLD_SIZE=2 BURN_DIST_RDZV=tcp://127.0.0.1:4000";
        for others in [
            "RANK=0",
            "WORLD_SIZE=x",
            "RANK=3 WORLD_SIZE=4 MASTER_ADDR=a MASTER_PORT=0 TORCHELASTIC_RUN_ID=x",
            "PET_NODE_RANK=1 PET_NNODES=2 PET_NPROC_PER_NODE=4 PET_MASTER_PORT=x",
            "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_LOCAL_RANK=x PMIX_NAMESPACE=j",
            "PMI_RANK=7 PMI_SIZE=2 MPI_LOCALRANKID=x MPI_LOCALNRANKS=2",
            "SLURM_STEP_ID=0 SLURM_PROCID=9 SLURM_NTASKS=2 SLURM_LOCALID=x",
            "JOB_COMPLETION_INDEX=5",
            "JOB_COMPLETION_INDEX=5 JOBSET_NAME=a JOB_INDEX=0 REPLICATED_JOB_REPLICAS=3",
        ] {
            let pairs = || {
                others
                    .split_whitespace()
                    .map(|pair| pair.split_once('=').unwrap())
            };
            let own = || {
                own.split_whitespace()
                    .map(|pair| pair.split_once('=').unwrap())
            };
            let all: Environment = pairs().chain(own()).collect();
            // Else the case would show nothing.
            assert!(Identity::of(&all).is_err(), "{others}");
            let kept = pairs().filter(|(name, _)| !is_of_another(OsStr::new(name)));
            let kept: Environment = kept.chain(own()).collect();
            let identity = Identity::of(&kept).unwrap();
            assert_eq!(identity.launcher, Launcher::BurnDist, "{others}");
            assert_eq!((identity.rank, identity.world_size), (1, 2), "{others}");
        }
    }

    #[test]
    fn what_is_no_launchers_stays() {
        for name in [
            "PATH",
            "SLURM_JOB_ID",
            "CUDA_VISIBLE_DEVICES",
            "RUST_LOG",
            "PMIC",
        ] {
            assert!(!is_of_another(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn a_token_is_made_once_and_never_twice_the_same() {
        let [one, other] = [(); 2].map(|()| token(&[]).unwrap().unwrap().1);
        assert_eq!(one.len(), 64);
        assert_ne!(one, other);
        let given = [(OsString::from(TOKEN), OsString::from("mine"))];
        assert_eq!(token(&given).unwrap(), None);
        let file = [(OsString::from(TOKEN_FILE), OsString::from("/run/token"))];
        assert_eq!(token(&file).unwrap(), None);
    }
}
