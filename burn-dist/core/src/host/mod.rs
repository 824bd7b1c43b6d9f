//! What this host and its container offer: cores, memory and its limits, shared memory, names.
//!
//! Each fact has its source beside it, and is unknown where a host does not tell; nothing here fails. What is
//! too little has a `remedy`: one line that says what to do.
//!
//! | module | what it is for |
//! |---|---|
//! | `facts` | all facts of a host together |
//! | `fact` | a value and its source |
//! | `quantity` | bytes, thousandths of a core, and limits of them |
//! | `root` | the files that facts are read from |
//! | `cgroup` | where the control groups of this process lie |
//! | `cores` | cores, cpusets and quotas |
//! | `load` | how busy the host is |
//! | `memory` | memory of the host |
//! | `memory_limit` | memory that the control group allows |
//! | `memory_lock` | memory that may be locked, as verbs need it |
//! | `shared_memory` | `/dev/shm` |
//! | `shortage` | whether there is so much memory |
//! | `open_files` | open files and sockets |
//! | `transparent_huge_pages` | pages of 2 MiB |
//! | `namespaces` | which processes can see each other |
//! | `container` | the kind of container, and its signs |
//! | `name_resolution` | the addresses of a name |
//!
//! Knows no rendezvous, no transport and no collective.

mod cgroup;
mod container;
mod cores;
mod fact;
mod facts;
mod load;
mod memory;
mod memory_limit;
mod memory_lock;
mod name_resolution;
mod namespaces;
mod open_files;
mod quantity;
mod root;
mod shared_memory;
mod shortage;
mod transparent_huge_pages;

pub use cgroup::CgroupVersion;
pub use container::{Container, ContainerKind};
pub use cores::Cores;
pub use fact::Fact;
pub use facts::HostFacts;
pub(crate) use facts::own_boot_id;
pub use load::load_average;
pub use memory::Memory;
pub use memory_limit::MemoryLimit;
pub use memory_lock::MemoryLock;
pub(crate) use name_resolution::own_name;
pub use name_resolution::{NameResolution, resolve};
pub use namespaces::Namespaces;
pub use open_files::OpenFiles;
pub(crate) use open_files::files_left;
pub use quantity::{Bytes, Limit, Millicores};
pub use shared_memory::SharedMemory;
pub(crate) use shortage::shortage;
pub use transparent_huge_pages::TransparentHugePages;
