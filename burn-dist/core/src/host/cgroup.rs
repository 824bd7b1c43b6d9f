//! Where the control groups of this process lie, in version 1, 2 or both.
//!
//! Knows no controller: what its files say is read where it is needed.

use std::fmt::{Display, Formatter};

use super::fact::Fact;
use super::quantity::Limit;
use super::root::Root;

/// What says which groups this process is in.
pub(super) const MEMBERSHIP: &str = "/proc/self/cgroup";

/// The version of a control group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CgroupVersion {
    /// One hierarchy for each controller.
    V1,
    /// One hierarchy for all.
    V2,
}

impl Display for CgroupVersion {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::V1 => "version 1",
            Self::V2 => "version 2",
        })
    }
}

/// The folders in which a controller's files for this process are.
pub(super) struct Group {
    pub(super) version: CgroupVersion,
    /// From the innermost group to the outermost that can be seen; limits of all hold.
    pub(super) folders: Vec<String>,
}

impl Group {
    /// The group of this process for `controller`; `None` where control groups are not mounted.
    pub(super) fn of(root: &Root, controller: &str) -> Option<Self> {
        let membership = root.text(MEMBERSHIP)?;
        let mounts = root.text("/proc/self/mountinfo")?;
        // On hosts with both versions a controller is in one of them.
        [CgroupVersion::V1, CgroupVersion::V2]
            .into_iter()
            .find_map(|version| {
                let path = membership
                    .lines()
                    .find_map(|line| path_of(line, version, controller))?;
                let mount = mounts
                    .lines()
                    .filter_map(|line| Mount::of(line, version, controller))
                    .next_back()?;
                Some(Self {
                    version,
                    folders: mount.folders(path),
                })
            })
            .filter(|group| group.folders.iter().any(|folder| root.has(folder)))
    }

    /// The tightest limit of all groups, where `read` knows that of a folder from `file`, and from others beside
    /// it. A group without the file has no limit: its controller is off, or it is the outermost of the host.
    pub(super) fn limit<T: Ord>(
        &self,
        root: &Root,
        file: &str,
        read: impl Fn(&str) -> Option<Limit<T>>,
    ) -> Fact<Limit<T>> {
        let path = |folder: &str| format!("{folder}/{file}");
        let folders = self.folders.iter();
        let with_file: Vec<&String> = folders.filter(|folder| root.has(&path(folder))).collect();
        if with_file.is_empty() {
            return Fact::new(
                Some(Limit::Unlimited),
                format!("no {file} in {}", self.folders.join(", ")),
            );
        }
        let limits = with_file
            .iter()
            .filter_map(|folder| Some((read(folder)?, folder)));
        match limits.min_by(|(one, _), (other, _)| one.cmp(other)) {
            Some((limit, folder)) => Fact::new(Some(limit), path(folder)),
            None => Fact::new(None, path(with_file[0])),
        }
    }
}

/// The path of a group from a line of `/proc/self/cgroup`: `4:cpu,cpuacct:/docker/1f`, `0::/user.slice`.
fn path_of<'a>(line: &'a str, version: CgroupVersion, controller: &str) -> Option<&'a str> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let found = match version {
        CgroupVersion::V1 => controllers.split(',').any(|name| name == controller),
        CgroupVersion::V2 => controllers.is_empty(),
    };
    found.then_some(path)
}

/// A mounted hierarchy.
struct Mount<'a> {
    /// The group at its top, as `/proc/self/cgroup` names groups.
    top: &'a str,
    /// Its folder.
    folder: &'a str,
}

impl<'a> Mount<'a> {
    /// That of a line of `/proc/self/mountinfo`, if it holds `controller`:
    /// `33 31 0:29 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct`.
    fn of(line: &'a str, version: CgroupVersion, controller: &str) -> Option<Self> {
        let (mount, kind) = line.split_once(" - ")?;
        let mut kind = kind.split(' ');
        let (name, options) = (kind.next()?, kind.nth(1)?);
        let found = match version {
            CgroupVersion::V1 => {
                name == "cgroup" && options.split(',').any(|option| option == controller)
            }
            CgroupVersion::V2 => name == "cgroup2",
        };
        let mut mount = mount.split(' ').skip(3);
        let (top, folder) = (mount.next()?, mount.next()?);
        found.then_some(Self { top, folder })
    }

    /// The folder of the group `path`, and those above it.
    fn folders(&self, path: &str) -> Vec<String> {
        let below = match self.top {
            "/" => Some(path),
            top => path
                .strip_prefix(top)
                .filter(|below| below.is_empty() || below.starts_with('/')),
        };
        // A group that a namespace of groups hides is not below the mount: its top is all there is to see.
        let below = below.filter(|below| !below.split('/').any(|part| part == ".."));
        let mut folder = self.folder.to_string();
        let mut folders = vec![folder.clone()];
        for part in below.unwrap_or_default().split('/') {
            if !part.is_empty() {
                folder = format!("{folder}/{part}");
                folders.push(folder.clone());
            }
        }
        folders.reverse();
        folders
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;
    use crate::host::root::folder;

    /// A host with systemd, in a session.
    const V2: (&str, &str) = (
        "0::/user.slice/user-1000.slice\n",
        "31 23 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n",
    );
    /// A container of Docker on a host of version 1, without a namespace of groups.
    const V1: (&str, &str) = (
        "9:memory:/docker/1f\n4:cpu,cpuacct:/docker/1f\n1:name=systemd:/docker/1f\n",
        "40 39 0:29 /docker/1f /sys/fs/cgroup/memory ro,nosuid master:17 - cgroup cgroup rw,memory\n\
         41 39 0:30 /docker/1f /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n",
    );

    fn group((membership, mounts): (&str, &str), controller: &str) -> Option<Vec<String>> {
        let (_folder, root) = folder(&[
            (MEMBERSHIP, membership),
            ("/proc/self/mountinfo", mounts),
            ("/sys/fs/cgroup/cgroup.procs", ""),
            ("/sys/fs/cgroup/memory/cgroup.procs", ""),
            ("/sys/fs/cgroup/cpu,cpuacct/cgroup.procs", ""),
        ]);
        Group::of(&root, controller).map(|group| group.folders)
    }

    #[test]
    fn groups_of_version_2_are_below_one_mount() {
        let expected = [
            "/sys/fs/cgroup/user.slice/user-1000.slice",
            "/sys/fs/cgroup/user.slice",
            "/sys/fs/cgroup",
        ];
        assert_eq!(group(V2, "memory").unwrap(), expected);
        // In a container with a namespace of its own.
        assert_eq!(group(("0::/\n", V2.1), "cpu").unwrap(), ["/sys/fs/cgroup"]);
    }

    #[test]
    fn groups_of_version_1_are_below_the_mount_of_their_controller() {
        assert_eq!(group(V1, "memory").unwrap(), ["/sys/fs/cgroup/memory"]);
        assert_eq!(group(V1, "cpu").unwrap(), ["/sys/fs/cgroup/cpu,cpuacct"]);
        assert_eq!(group(V1, "cpuset"), None);
        let inside = V1.0.replace("/1f", "/1f/job");
        let expected = ["/sys/fs/cgroup/memory/job", "/sys/fs/cgroup/memory"];
        assert_eq!(group((&inside, V1.1), "memory").unwrap(), expected);
    }

    #[test]
    fn a_host_with_both_has_a_controller_in_one() {
        let both = (
            "4:memory:/\n0::/\n",
            "40 39 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             41 39 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        );
        assert_eq!(group(both, "memory").unwrap(), ["/sys/fs/cgroup/memory"]);
        assert_eq!(group(both, "cpuset").unwrap(), ["/sys/fs/cgroup"]);
    }

    #[test]
    fn what_is_hidden_ends_at_the_mount() {
        for path in ["/../../docker/2e", "/docker/1f0", "/docker/1f/../2e"] {
            let membership = format!("9:memory:{path}\n");
            let found = group((&membership, V1.1), "memory").unwrap();
            assert_eq!(found, ["/sys/fs/cgroup/memory"], "{path}");
        }
    }

    #[test]
    fn without_a_mount_there_is_no_group() {
        assert_eq!(group(("0::/\n", ""), "memory"), None);
        assert_eq!(group(("", V2.1), "memory"), None);
        // Mounted where this process cannot see it.
        let elsewhere = V2.1.replace("/sys/fs/cgroup", "/host/cgroup");
        assert_eq!(group((V2.0, &elsewhere), "memory"), None);
    }

    proptest! {
        #[test]
        fn anything_is_read_or_left(line in r"[0-9a-z:/,. -]{0,48}( - cgroup2? x (rw,)?cpu)?|\PC{0,32}") {
            for version in [CgroupVersion::V1, CgroupVersion::V2] {
                let path = path_of(&line, version, "cpu").unwrap_or("/a");
                if let Some(mount) = Mount::of(&line, version, "cpu") {
                    let folders = mount.folders(path);
                    prop_assert_eq!(folders.last().map(String::as_str), Some(mount.folder));
                }
            }
        }
    }
}
