//! Cores that this process may use.

use super::cgroup::{CgroupVersion, Group, MEMBERSHIP};
use super::fact::Fact;
use super::quantity::{Limit, Millicores};
use super::root::Root;

/// Cores that this process may use, and what bounds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores {
    /// How many threads run at a time: what affinity and quota leave, rounded down.
    pub available: Fact<usize>,
    /// Cores that the scheduler may take for this process: `taskset`, `srun --cpu-bind`, `mpirun --bind-to`.
    pub affinity: Fact<usize>,
    /// Cores of the cpuset of its control group.
    pub cpuset: Fact<usize>,
    /// Time on cores that its control group allows. A process that spins uses it up, and then stands still until
    /// the next period.
    pub quota: Fact<Limit<Millicores>>,
}

impl Cores {
    pub(super) fn gather(root: &Root) -> Self {
        let available = std::thread::available_parallelism().map(usize::from);
        Self {
            available: Fact::new(available.ok(), "sched_getaffinity and control group"),
            affinity: Fact::of_file(root, "/proc/self/status", |status| {
                count(super::root::field(status, "Cpus_allowed_list")?)
            }),
            cpuset: cpuset(root),
            quota: quota(root),
        }
    }

    /// What to do if `ranks` processes of this host have these cores; `None` if each has one, or nobody knows.
    pub fn remedy(&self, ranks: usize) -> Option<String> {
        let cores = self.available.value.filter(|cores| ranks > *cores)?;
        let bound = match (self.quota.value, self.affinity.value) {
            (Some(quota @ Limit::AtMost(_)), Some(affinity)) => {
                format!(" (affinity {affinity}, quota {quota})")
            }
            _ => String::new(),
        };
        Some(format!(
            "{ranks} ranks on {}{bound}: they wait for a core as well as for each other: fewer ranks, or more cores: Docker and podman: --cpus, Kubernetes: resources.limits.cpu, Slurm: --cpus-per-task",
            Millicores(cores as u64 * 1000)
        ))
    }
}

fn cpuset(root: &Root) -> Fact<usize> {
    let Some(group) = Group::of(root, "cpuset") else {
        return Fact::new(None, MEMBERSHIP);
    };
    // What a group may use is written in it only if it differs from what the groups above it may use.
    let files: &[&str] = match group.version {
        CgroupVersion::V1 => &["cpuset.effective_cpus", "cpuset.cpus"],
        CgroupVersion::V2 => &["cpuset.cpus.effective"],
    };
    let paths = group
        .folders
        .iter()
        .flat_map(|folder| files.iter().map(move |file| format!("{folder}/{file}")));
    let mut facts = paths.map(|path| Fact::of_file(root, &path, count));
    let found = facts.find(|fact| fact.value.is_some());
    found.unwrap_or_else(|| Fact::new(None, format!("no {} in the control group", files[0])))
}

fn quota(root: &Root) -> Fact<Limit<Millicores>> {
    let Some(group) = Group::of(root, "cpu") else {
        return Fact::new(None, MEMBERSHIP);
    };
    match group.version {
        CgroupVersion::V1 => group.limit(root, "cpu.cfs_quota_us", |folder| {
            let text = |file: &str| root.text(&format!("{folder}/{file}"));
            share(&text("cpu.cfs_quota_us")?, &text("cpu.cfs_period_us")?)
        }),
        CgroupVersion::V2 => group.limit(root, "cpu.max", |folder| {
            let text = root.text(&format!("{folder}/cpu.max"))?;
            let (quota, period) = text.trim().split_once(' ')?;
            share(quota, period)
        }),
    }
}

/// Microseconds of each period.
fn share(quota: &str, period: &str) -> Option<Limit<Millicores>> {
    match quota.trim() {
        "max" | "-1" => Some(Limit::Unlimited),
        quota => {
            let (quota, period): (u64, u64) = (quota.parse().ok()?, period.trim().parse().ok()?);
            let millicores = quota.checked_mul(1000)?.checked_div(period)?;
            Some(Limit::AtMost(Millicores(millicores)))
        }
    }
}

/// The cores of a list: `0-3,8` are 5. `None` if it is none, or empty.
fn count(list: &str) -> Option<usize> {
    let mut cores = 0usize;
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        cores = cores.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(cores)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;
    use crate::host::root::folder;

    #[test]
    fn this_process_has_a_core() {
        let found = Cores::gather(&Root::of_process());
        let (available, affinity) = (
            found.available.value.unwrap(),
            found.affinity.value.unwrap(),
        );
        assert!(available >= 1 && available <= affinity, "{found:?}");
        assert_eq!(found.remedy(available), None);
        assert!(found.remedy(available + 1).is_some());
    }

    #[test]
    fn files_of_version_2() {
        let (_folder, root) = folder(&[
            (MEMBERSHIP, "0::/job\n"),
            (
                "/proc/self/mountinfo",
                "31 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            ),
            (
                "/proc/self/status",
                "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7\n",
            ),
            ("/sys/fs/cgroup/cpuset.cpus.effective", "0-15\n"),
            ("/sys/fs/cgroup/job/cpu.max", "150000 100000\n"),
        ]);
        let found = Cores::gather(&root);
        assert_eq!(found.affinity.to_string(), "8 (/proc/self/status)");
        assert_eq!(
            found.cpuset.to_string(),
            "16 (/sys/fs/cgroup/cpuset.cpus.effective)"
        );
        assert_eq!(
            found.quota.to_string(),
            "1.5 cores (/sys/fs/cgroup/job/cpu.max)"
        );
    }

    #[test]
    fn files_of_version_1() {
        let (_folder, root) = folder(&[
            (MEMBERSHIP, "4:cpu,cpuacct:/\n3:cpuset:/\n"),
            (
                "/proc/self/mountinfo",
                "40 39 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                 41 39 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n",
            ),
            ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n"),
            ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
            ("/sys/fs/cgroup/cpuset/cpuset.cpus", "0-1,4\n"),
        ]);
        let found = Cores::gather(&root);
        assert_eq!(
            found.quota.to_string(),
            "0.5 cores (/sys/fs/cgroup/cpu/cpu.cfs_quota_us)"
        );
        assert_eq!(
            found.cpuset.to_string(),
            "3 (/sys/fs/cgroup/cpuset/cpuset.cpus)"
        );
    }

    #[test]
    fn without_files_nothing_is_known() {
        let (_folder, root) = folder(&[]);
        let found = Cores::gather(&root);
        assert_eq!(found.affinity.value, None);
        assert_eq!(found.cpuset.value, None);
        assert_eq!(found.quota.value, None);
    }

    #[test]
    fn quotas_are_shares_of_a_period() {
        let of = |quota, period| share(quota, period);
        assert_eq!(of("max", "100000"), Some(Limit::Unlimited));
        assert_eq!(of("-1\n", "100000\n"), Some(Limit::Unlimited));
        let most = |millicores| Some(Limit::AtMost(Millicores(millicores)));
        assert_eq!(of("12500", "100000"), most(125));
        assert_eq!(of("400000\n", "100000\n"), most(4000));
        assert_eq!(of("100000", "0"), None);
        assert_eq!(of("-2", "100000"), None);
        assert_eq!(of("18446744073709551615", "1"), None);
    }

    #[test]
    fn lists_of_cores_are_counted() {
        for (list, expected) in [
            ("0\n", Some(1)),
            ("0-3,8", Some(5)),
            ("0-1,4-5,7", Some(5)),
            ("\n", None),
            ("3-1", None),
            ("0,", None),
            ("a-b", None),
            ("0-18446744073709551615", None),
        ] {
            assert_eq!(count(list), expected, "{list}");
        }
    }

    proptest! {
        #[test]
        fn anything_is_counted_or_none(list in r"[0-9,-]{0,48}") {
            if let Some(cores) = count(&list) {
                prop_assert!(cores > list.matches(',').count());
            }
        }
    }

    #[test]
    fn too_few_cores_have_a_remedy() {
        let mut cores = Cores {
            available: Fact::new(Some(2), ""),
            affinity: Fact::new(Some(8), ""),
            cpuset: Fact::new(Some(8), ""),
            quota: Fact::new(Some(Limit::AtMost(Millicores(2500))), ""),
        };
        assert_eq!(cores.remedy(2), None);
        let text = cores.remedy(4).unwrap();
        assert!(
            text.starts_with("4 ranks on 2 cores (affinity 8, quota 2.5 cores): "),
            "{text}"
        );
        assert!(text.contains("--cpus-per-task") && !text.contains('\n'));
        cores.quota.value = Some(Limit::Unlimited);
        let text = cores.remedy(4).unwrap();
        assert!(text.starts_with("4 ranks on 2 cores: "), "{text}");
        cores.available.value = None;
        assert_eq!(cores.remedy(4), None);
    }
}
