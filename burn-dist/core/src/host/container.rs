//! The kind of container that this process is in, and its signs.

use std::fmt::{Display, Formatter};

use super::cgroup::MEMBERSHIP;
use super::fact::Fact;
use super::root::Root;

/// What has made a container. Where there are signs of several, the first of these is it: Kubernetes starts its
/// containers with the tools of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ContainerKind {
    /// Apptainer or Singularity.
    Apptainer,
    /// A pod of Kubernetes.
    Kubernetes,
    /// Podman.
    Podman,
    /// Docker.
    Docker,
    /// Something else that says of itself that it is a container.
    Other,
}

impl Display for ContainerKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Apptainer => "Apptainer",
            Self::Kubernetes => "Kubernetes",
            Self::Podman => "Podman",
            Self::Docker => "Docker",
            Self::Other => "another container",
        })
    }
}

/// The signs that this process is in a container; none of them outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// What each sign means, and the sign itself: a file, a variable or the name of a control group.
    pub signs: Vec<Fact<ContainerKind>>,
}

impl Container {
    pub(super) fn gather(root: &Root, variable: impl Fn(&str) -> Option<String>) -> Self {
        let mut signs = Vec::new();
        for (name, kind) in [
            ("APPTAINER_CONTAINER", ContainerKind::Apptainer),
            ("SINGULARITY_CONTAINER", ContainerKind::Apptainer),
            ("KUBERNETES_SERVICE_HOST", ContainerKind::Kubernetes),
        ] {
            if variable(name).is_some_and(|value| !value.is_empty()) {
                signs.push(Fact::new(Some(kind), name));
            }
        }
        // The convention of systemd: https://systemd.io/CONTAINER_INTERFACE
        if let Some(value) = variable("container").filter(|value| !value.is_empty()) {
            let kind = match value.as_str() {
                "podman" => ContainerKind::Podman,
                "docker" => ContainerKind::Docker,
                _ => ContainerKind::Other,
            };
            signs.push(Fact::new(Some(kind), format!("container={value:?}")));
        }
        for (path, kind) in [
            ("/run/.containerenv", ContainerKind::Podman),
            ("/.dockerenv", ContainerKind::Docker),
        ] {
            if root.has(path) {
                signs.push(Fact::new(Some(kind), path));
            }
        }
        let groups = root.text(MEMBERSHIP).unwrap_or_default();
        let kind = groups
            .lines()
            .filter_map(|line| line.splitn(3, ':').nth(2))
            .filter_map(kind_of_group)
            .min();
        signs.extend(kind.map(|kind| Fact::new(Some(kind), MEMBERSHIP)));
        Self { signs }
    }

    /// The kind that the signs mean together; `None` without any.
    pub fn kind(&self) -> Option<ContainerKind> {
        self.signs.iter().filter_map(|sign| sign.value).min()
    }
}

/// `no container`, or the kind with all signs: `Docker (/.dockerenv, /proc/self/cgroup)`.
impl Display for Container {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Some(kind) = self.kind() else {
            return f.write_str("no container");
        };
        let signs = self.signs.iter().map(|sign| sign.source.as_str());
        write!(f, "{kind} ({})", signs.collect::<Vec<_>>().join(", "))
    }
}

/// What a control group is the name of: `/kubepods/burstable/pod3f`, `/docker/1f`, `/system.slice/docker-1f.scope`.
fn kind_of_group(path: &str) -> Option<ContainerKind> {
    let kind = |part: &str| match part {
        part if part.starts_with("kubepods") => Some(ContainerKind::Kubernetes),
        part if part.starts_with("libpod-") => Some(ContainerKind::Podman),
        part if part.starts_with("apptainer-") => Some(ContainerKind::Apptainer),
        // And not `docker.service`, in which the daemon itself is.
        part if part == "docker" || part.starts_with("docker-") => Some(ContainerKind::Docker),
        _ => None,
    };
    path.split('/').filter_map(kind).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::root::folder;

    fn gather(files: &[(&str, &str)], variables: &[(&str, &str)]) -> String {
        let (_folder, root) = folder(files);
        let variable = |name: &str| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| value.to_string())
        };
        Container::gather(&root, variable).to_string()
    }

    #[test]
    fn each_kind_is_known_by_its_signs() {
        for (files, variables, expected) in [
            (&[][..], &[][..], "no container"),
            (&[("/.dockerenv", "")], &[], "Docker (/.dockerenv)"),
            (
                &[("/run/.containerenv", "engine=\"podman-4.3.1\"\n")],
                &[("container", "podman")],
                "Podman (container=\"podman\", /run/.containerenv)",
            ),
            (
                &[("/.dockerenv", "")],
                &[("KUBERNETES_SERVICE_HOST", "10.96.0.1")],
                "Kubernetes (KUBERNETES_SERVICE_HOST, /.dockerenv)",
            ),
            (
                &[],
                &[("APPTAINER_CONTAINER", "/images/a.sif")],
                "Apptainer (APPTAINER_CONTAINER)",
            ),
            (
                &[],
                &[("SINGULARITY_CONTAINER", "/images/a.sif")],
                "Apptainer (SINGULARITY_CONTAINER)",
            ),
            (
                &[],
                &[("container", "lxc\n")],
                "another container (container=\"lxc\\n\")",
            ),
            (
                &[],
                &[("container", ""), ("KUBERNETES_SERVICE_HOST", "")],
                "no container",
            ),
        ] {
            assert_eq!(gather(files, variables), expected);
        }
    }

    #[test]
    fn groups_bear_the_name_of_what_made_them() {
        for (groups, expected) in [
            ("0::/\n", "no container"),
            ("0::/system.slice/docker.service\n", "no container"),
            ("0::/user.slice/user-1000.slice\n", "no container"),
            ("9:memory:/docker/1f\n1:name=systemd:/\n", "Docker"),
            ("0::/system.slice/docker-1f.scope\n", "Docker"),
            ("0::/machine.slice/libpod-1f.scope/container\n", "Podman"),
            ("0::/kubepods.slice/kubepods-pod3f.slice\n", "Kubernetes"),
            ("4:cpu:/kubepods/besteffort/pod3f/docker-1f\n", "Kubernetes"),
            ("0::/user.slice/apptainer-12.scope\n", "Apptainer"),
            ("broken", "no container"),
        ] {
            let found = gather(&[(MEMBERSHIP, groups)], &[]);
            assert_eq!(
                found.trim_end_matches(" (/proc/self/cgroup)"),
                expected,
                "{groups}"
            );
        }
    }
}
