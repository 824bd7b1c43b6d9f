//! Jobs and sets of jobs of Kubernetes: pods with numbers, and a size that stands in the manifest.

use super::identity::{Identity, IdentityError};
use super::launcher::Variables;

/// A variable that the manifest has to take from a label of the pod, and the label.
struct Mapped {
    name: &'static str,
    label: &'static str,
}

/// The number of the job in its set, and how many jobs there are: in the whole set, or among those of one name.
const GLOBAL: [Mapped; 2] = [
    Mapped {
        name: "JOB_GLOBAL_INDEX",
        label: "jobset.sigs.k8s.io/job-global-index",
    },
    Mapped {
        name: "GLOBAL_REPLICAS",
        label: "jobset.sigs.k8s.io/global-replicas",
    },
];
const OF_ONE_NAME: [Mapped; 2] = [
    Mapped {
        name: "JOB_INDEX",
        label: "jobset.sigs.k8s.io/job-index",
    },
    Mapped {
        name: "REPLICATED_JOB_REPLICAS",
        label: "jobset.sigs.k8s.io/replicatedjob-replicas",
    },
];

impl Variables<'_> {
    pub(super) fn in_indexed_job(&self) -> bool {
        self.text("JOB_COMPLETION_INDEX").is_some()
    }

    fn in_job_set(&self) -> bool {
        self.in_indexed_job() && self.text("JOBSET_NAME").is_some()
    }

    /// A pod of an indexed job.
    pub(super) fn job(&self) -> Result<Option<Identity>, IdentityError> {
        match self.in_indexed_job() && !self.in_job_set() {
            true => self.pod(),
            false => Ok(None),
        }
    }

    /// A pod of an indexed job that is one of several in a set, all of one size.
    pub(super) fn job_set(&self) -> Result<Option<Identity>, IdentityError> {
        if !self.in_job_set() {
            return Ok(None);
        }
        let names = match self.text(GLOBAL[0].name) {
            Some(_) => GLOBAL,
            None => OF_ONE_NAME,
        };
        let mapped = |one: &Mapped| {
            let Mapped { name, label } = *one;
            let missing = IdentityError::Label { name, label };
            self.number(name)?.ok_or(missing)
        };
        let (index, jobs) = (mapped(&names[0])?, mapped(&names[1])?);
        let Some(pod) = self.pod()? else {
            return Ok(None);
        };
        let value = |name, value: usize, expected| IdentityError::Value {
            name,
            value: value.to_string(),
            expected,
        };
        if jobs == 0 || pod.world_size % jobs > 0 {
            let expected = "the pods of all jobs of the set, each of which has as many";
            return Err(value("BURN_DIST_WORLD_SIZE", pod.world_size, expected));
        }
        let pods = pod.world_size / jobs;
        if index >= jobs {
            return Err(value(names[0].name, index, "less than there are jobs"));
        }
        if pod.rank >= pods {
            let expected = "less than BURN_DIST_WORLD_SIZE divided by the number of jobs";
            return Err(value("JOB_COMPLETION_INDEX", pod.rank, expected));
        }
        Ok(Some(Identity {
            rank: index * pods + pod.rank,
            ..pod
        }))
    }

    /// A pod by its number in its job.
    fn pod(&self) -> Result<Option<Identity>, IdentityError> {
        self.identity(
            ["JOB_COMPLETION_INDEX", "BURN_DIST_WORLD_SIZE"],
            ["BURN_DIST_LOCAL_RANK", "BURN_DIST_LOCAL_WORLD_SIZE"],
        )
    }

    /// The name of the first pod of a set. That of several jobs of different names does not follow from what one knows of
    /// itself.
    pub(super) fn first_of_job_set(&self) -> Option<String> {
        if self.text(GLOBAL[0].name).is_some() {
            return None;
        }
        let (set, job) = (self.text("JOBSET_NAME")?, self.text("REPLICATED_JOB_NAME")?);
        Some(format!("{set}-{job}-0-0.{set}"))
    }
}
