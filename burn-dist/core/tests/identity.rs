//! What the launchers leave in the environment, as they do it, and what becomes of it.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use burn_dist_core::rendezvous::{Environment, Identity, IdentityError, Launcher, MeetingPoint};

/// `NAME=value` by blanks.
fn environment(variables: &str) -> Environment {
    let pairs = variables
        .split_whitespace()
        .map(|pair| pair.split_once('=').unwrap());
    pairs.collect()
}

fn of(variables: &str) -> Result<Identity, IdentityError> {
    Identity::of(&environment(variables))
}

/// Rank, world size, local rank, local world size, meeting point and launcher.
#[track_caller]
fn assert_is(
    variables: &str,
    numbers: (usize, usize, Option<usize>, Option<usize>),
    meeting_point: Option<&str>,
    launcher: Launcher,
) {
    let found = of(variables).unwrap();
    let (rank, world_size, local_rank, local_world_size) = numbers;
    assert_eq!((found.rank, found.world_size), (rank, world_size));
    assert_eq!(
        (found.local_rank, found.local_world_size),
        (local_rank, local_world_size)
    );
    let point = found.meeting_point.map(|point| point.to_string());
    assert_eq!(point.as_deref(), meeting_point);
    assert_eq!(found.launcher, launcher);
}

#[test]
fn nobody_means_a_world_of_one() {
    assert_is("", (0, 1, Some(0), Some(1)), None, Launcher::None);
    // A batch script of Slurm, before srun: the size of a job, and no task.
    let batch = "SLURM_JOB_ID=7 SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_JOB_NODELIST=n[1-2]";
    assert_is(batch, (0, 1, Some(0), Some(1)), None, Launcher::None);
}

#[test]
fn own_variables() {
    let own = "BURN_DIST_RANK=2 BURN_DIST_WORLD_SIZE=4 BURN_DIST_LOCAL_RANK=0 \
               BURN_DIST_LOCAL_WORLD_SIZE=2 BURN_DIST_RDZV=tcp://[fd00::1]:29500";
    assert_is(
        own,
        (2, 4, Some(0), Some(2)),
        Some("tcp://[fd00::1]:29500"),
        Launcher::BurnDist,
    );
    let file = "BURN_DIST_RANK=0 BURN_DIST_WORLD_SIZE=2 BURN_DIST_RDZV=file:///shared/job-7";
    let found = of(file).unwrap();
    assert_eq!(
        found.meeting_point,
        Some(MeetingPoint::File("/shared/job-7".into()))
    );
}

#[test]
fn torchrun_and_what_imitates_it() {
    let torchrun = "RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 GROUP_RANK=1 \
                    MASTER_ADDR=node1 MASTER_PORT=29400 TORCHELASTIC_RUN_ID=none \
                    TORCHELASTIC_RESTART_COUNT=0";
    assert_is(
        torchrun,
        (3, 4, Some(1), Some(2)),
        Some("tcp://node1:29400"),
        Launcher::Torchrun,
    );
    // The agent of torchrun has the port for itself.
    let agent = format!("{torchrun} TORCHELASTIC_USE_AGENT_STORE=True");
    assert_is(
        &agent,
        (3, 4, Some(1), Some(2)),
        Some("tcp://node1:29401"),
        Launcher::Torchrun,
    );
    let pytorch_job = "RANK=1 WORLD_SIZE=2 MASTER_ADDR=job-master-0 MASTER_PORT=23456";
    assert_is(
        pytorch_job,
        (1, 2, None, None),
        Some("tcp://job-master-0:23456"),
        Launcher::Torchrun,
    );
}

#[test]
fn kubeflow() {
    let pod = "PET_NODE_RANK=1 PET_NNODES=2 PET_NPROC_PER_NODE=1 \
               PET_MASTER_ADDR=job-node-0-0.job PET_MASTER_PORT=29500";
    assert_is(
        pod,
        (1, 2, Some(0), Some(1)),
        Some("tcp://job-node-0-0.job:29500"),
        Launcher::Kubeflow,
    );
    let error = of(&pod.replace("PER_NODE=1", "PER_NODE=4")).unwrap_err();
    assert!(
        error.to_string().contains("PET_NPROC_PER_NODE is \"4\""),
        "{error}"
    );
}

/// As `mpirun -n 2 env` of Open MPI 5.0.11 and `mpiexec -n 2 env` of MPICH 5.0.2 print them.
#[test]
fn mpi() {
    let open_mpi = "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 \
                    OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_RANK=1 PMIX_NAMESPACE=prterun-vm-12650@1";
    let found = of(open_mpi).unwrap();
    assert_eq!(
        (found.rank, found.world_size, found.launcher),
        (1, 2, Launcher::OpenMpi)
    );
    // On one host both ranks come to the same port by themselves.
    let other = of(&open_mpi.replace("_RANK=1", "_RANK=0")).unwrap();
    assert_eq!(other.meeting_point, found.meeting_point);
    let Some(MeetingPoint::Tcp { host, port }) = found.meeting_point else {
        unreachable!("{found:?}");
    };
    assert!(host == "127.0.0.1" && (20_000..32_000).contains(&port));

    let hydra = "PMI_RANK=0 PMI_SIZE=2 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=1 MASTER_ADDR=a";
    assert_is(
        hydra,
        (0, 2, Some(0), Some(1)),
        Some("tcp://a:29500"),
        Launcher::Pmi,
    );
    let one_host = "PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2";
    assert_is(
        one_host,
        (1, 2, Some(1), Some(2)),
        Some("tcp://127.0.0.1:29500"),
        Launcher::Pmi,
    );
    let nowhere = of("PMI_RANK=0 PMI_SIZE=2 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=1").unwrap_err();
    assert!(
        nowhere.to_string().contains("set BURN_DIST_RDZV"),
        "{nowhere}"
    );
}

#[test]
fn slurm() {
    let task = "SLURM_JOB_ID=4242 SLURM_STEP_ID=0 SLURM_PROCID=3 SLURM_NTASKS=5 \
                SLURM_STEP_NUM_TASKS=5 SLURM_LOCALID=1 SLURM_NODEID=1 \
                SLURM_STEP_NODELIST=gnode[08-09,12] SLURM_STEP_TASKS_PER_NODE=2(x2),1";
    assert_is(
        task,
        (3, 5, Some(1), Some(2)),
        Some("tcp://gnode08:24242"),
        Launcher::Slurm,
    );
    // Steps of a job run at the same time, and on the same hosts.
    let ports = (0..100).map(|step| {
        let task = task.replace("STEP_ID=0", &format!("STEP_ID={step}"));
        of(&task).unwrap().meeting_point.unwrap().to_string()
    });
    let ports: BTreeSet<String> = ports.collect();
    assert_eq!(ports.len(), 100);
    assert!(ports.contains("tcp://gnode08:20161"), "{ports:?}");
    let named = format!("{task} BURN_DIST_RDZV=tcp://10.0.0.1:4000");
    assert_is(
        &named,
        (3, 5, Some(1), Some(2)),
        Some("tcp://10.0.0.1:4000"),
        Launcher::Slurm,
    );
}

#[test]
fn kubernetes_indexed_job() {
    let pod = "JOB_COMPLETION_INDEX=1 BURN_DIST_WORLD_SIZE=2 BURN_DIST_RDZV=tcp://job-0.job:29500";
    assert_is(
        pod,
        (1, 2, None, None),
        Some("tcp://job-0.job:29500"),
        Launcher::KubernetesJob,
    );
    let error = of("JOB_COMPLETION_INDEX=1").unwrap_err().to_string();
    assert!(error.contains("not BURN_DIST_WORLD_SIZE"), "{error}");
}

/// As the manifest in the book passes labels on.
const JOB_SET: &str = "JOBSET_NAME=train REPLICATED_JOB_NAME=workers JOB_INDEX=2 \
                       REPLICATED_JOB_REPLICAS=3 JOB_COMPLETION_INDEX=1 BURN_DIST_WORLD_SIZE=12";

#[test]
fn kubernetes_job_set() {
    assert_is(
        JOB_SET,
        (9, 12, None, None),
        Some("tcp://train-workers-0-0.train:29500"),
        Launcher::KubernetesJobSet,
    );
    // Jobs of several names: the set has its own numbers for them, and a coordinator.
    let several = format!(
        "{JOB_SET} JOB_GLOBAL_INDEX=3 GLOBAL_REPLICAS=4 MASTER_PORT=4000 \
         MASTER_ADDR=train-driver-0-0.train"
    );
    assert_is(
        &several,
        (10, 12, None, None),
        Some("tcp://train-driver-0-0.train:4000"),
        Launcher::KubernetesJobSet,
    );
    let nowhere = of(&several.replace("MASTER_ADDR", "OTHER")).unwrap_err();
    assert!(
        nowhere.to_string().contains("set BURN_DIST_RDZV"),
        "{nowhere}"
    );
    // One torchrun in each pod.
    let torchrun = "RANK=5 WORLD_SIZE=24 MASTER_ADDR=a TORCHELASTIC_RUN_ID=x";
    let found = of(&format!("{JOB_SET} {torchrun}")).unwrap();
    assert_eq!((found.rank, found.launcher), (5, Launcher::Torchrun));
}

#[test]
fn what_the_manifest_of_a_job_set_lacks_is_named_with_the_label_that_has_it() {
    for (from, to, part) in [
        (
            "JOB_INDEX=2",
            "",
            "not JOB_INDEX: add it to env in the manifest, with valueFrom: fieldRef: fieldPath: metadata.labels['jobset.sigs.k8s.io/job-index']",
        ),
        (
            "REPLICATED_JOB_REPLICAS=3",
            "",
            "metadata.labels['jobset.sigs.k8s.io/replicatedjob-replicas']",
        ),
        (
            "JOB_INDEX=2",
            "JOB_GLOBAL_INDEX=2",
            "metadata.labels['jobset.sigs.k8s.io/global-replicas']",
        ),
        ("BURN_DIST_WORLD_SIZE=12", "", "not BURN_DIST_WORLD_SIZE"),
        ("SIZE=12", "SIZE=13", "BURN_DIST_WORLD_SIZE is \"13\""),
        ("JOB_INDEX=2", "JOB_INDEX=3", "JOB_INDEX is \"3\""),
        ("REPLICAS=3", "REPLICAS=0", "BURN_DIST_WORLD_SIZE is \"12\""),
        (
            "COMPLETION_INDEX=1",
            "COMPLETION_INDEX=4",
            "JOB_COMPLETION_INDEX is \"4\"",
        ),
        ("REPLICATED_JOB_NAME=workers", "", "set BURN_DIST_RDZV"),
    ] {
        let text = of(&JOB_SET.replace(from, to)).unwrap_err().to_string();
        assert!(text.contains(part) && !text.contains('\n'), "{to}: {text}");
    }
}

#[test]
fn launchers_say_which_run_it_is() {
    let torchrun = "RANK=0 WORLD_SIZE=2 MASTER_ADDR=a TORCHELASTIC_RUN_ID=x \
                    TORCHELASTIC_RESTART_COUNT=1";
    let slurm = "SLURM_JOB_ID=4242 SLURM_STEP_ID=3 SLURM_PROCID=0 SLURM_NTASKS=2 \
                 SLURM_STEP_NODELIST=a";
    let mpi = "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 PMIX_NAMESPACE=prterun-vm-1@1 \
               MASTER_ADDR=a";
    let own = "BURN_DIST_RANK=0 BURN_DIST_WORLD_SIZE=2 BURN_DIST_RDZV=tcp://a:1";
    let pmi = "PMI_RANK=0 PMI_SIZE=2";
    for (variables, expected) in [
        (String::new(), None),
        (own.into(), None),
        (format!("{own} BURN_DIST_RUN=7"), Some("7")),
        // An agent on each of several hosts counts by itself.
        (torchrun.into(), Some("x")),
        (format!("{torchrun} GROUP_WORLD_SIZE=2"), Some("x")),
        (
            format!("{torchrun} GROUP_WORLD_SIZE=1"),
            Some("x, restart 1"),
        ),
        (format!("{torchrun} BURN_DIST_RUN=7"), Some("7")),
        (mpi.into(), Some("prterun-vm-1@1")),
        (slurm.into(), Some("4242.3")),
        (
            format!("{slurm} SLURM_RESTART_COUNT=2"),
            Some("4242.3, restart 2"),
        ),
        // srun --mpi=pmi2: both speak of the same processes.
        (format!("{slurm} {pmi}"), Some("4242.3")),
        // Steps that a person has made the ranks of one job.
        (
            format!("{} {own}", slurm.replace("NTASKS=2", "NTASKS=1")),
            None,
        ),
        (JOB_SET.into(), Some("train")),
        (
            format!("{JOB_SET} JOBSET_UID=0f1e JOBSET_RESTART_ATTEMPT=1"),
            Some("0f1e, restart 1"),
        ),
        (
            "JOB_COMPLETION_INDEX=0 BURN_DIST_WORLD_SIZE=2 BURN_DIST_RDZV=tcp://a:1 \
             BURN_DIST_RUN=0f1e"
                .into(),
            Some("0f1e"),
        ),
    ] {
        let run = of(&variables).unwrap().run;
        assert_eq!(run.as_deref(), expected, "{variables}");
    }
}

/// A launcher inside another: the inner one knows the processes.
#[test]
fn launchers_inside_of_others() {
    let slurm = "SLURM_JOB_ID=1 SLURM_STEP_ID=0 SLURM_NODEID=1 SLURM_STEP_NODELIST=a,b";
    let torchrun = "RANK=5 WORLD_SIZE=8 MASTER_ADDR=a MASTER_PORT=1 TORCHELASTIC_RUN_ID=x";
    let found = of(&format!("{slurm} SLURM_PROCID=1 SLURM_NTASKS=2 {torchrun}")).unwrap();
    assert_eq!(
        (found.rank, found.world_size, found.launcher),
        (5, 8, Launcher::Torchrun)
    );
    let mpi = "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 MASTER_ADDR=a";
    let found = of(&format!("{slurm} SLURM_PROCID=1 SLURM_NTASKS=2 {mpi}")).unwrap();
    assert_eq!(
        (found.rank, found.world_size, found.launcher),
        (3, 4, Launcher::OpenMpi)
    );
}

#[test]
fn launchers_that_disagree_are_both_named() {
    let both = "RANK=0 WORLD_SIZE=4 MASTER_ADDR=a SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS=2";
    let text = of(both).unwrap_err().to_string();
    assert!(
        text.contains("torchrun says rank 0 of 4, Slurm says rank 1 of 2"),
        "{text}"
    );
    // Of one mind they do no harm.
    let agree = "RANK=1 WORLD_SIZE=2 MASTER_ADDR=a SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS=2";
    assert_eq!(of(agree).unwrap().rank, 1);
    // Own variables decide.
    let own = format!("BURN_DIST_RANK=3 BURN_DIST_WORLD_SIZE=4 BURN_DIST_RDZV=tcp://a:1 {both}");
    assert_eq!(of(&own).unwrap().rank, 3);
}

#[test]
fn what_is_incomplete_or_makes_no_sense_is_named() {
    for (variables, part) in [
        ("RANK=0", "RANK is set, as by torchrun, but not WORLD_SIZE"),
        (
            "WORLD_SIZE=2",
            "WORLD_SIZE is set, as by torchrun, but not RANK",
        ),
        ("BURN_DIST_WORLD_SIZE=2", "not BURN_DIST_RANK"),
        (
            "RANK=2 WORLD_SIZE=2",
            "says rank 2 of 2: a job has at least one rank",
        ),
        ("RANK=-1 WORLD_SIZE=2", "RANK is \"-1\": expected a number"),
        ("RANK=0 WORLD_SIZE=0", "says rank 0 of 0"),
        (
            "RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=70000",
            "MASTER_PORT is \"70000\"",
        ),
        ("RANK=0 WORLD_SIZE=2", "nothing says where they meet"),
        (
            "RANK=0 WORLD_SIZE=2 BURN_DIST_RDZV=http://a:1",
            "expected tcp://HOST:PORT",
        ),
        (
            "RANK=0 WORLD_SIZE=2 BURN_DIST_RDZV=tcp://a:0",
            "expected tcp://HOST:PORT",
        ),
        (
            "RANK=0 WORLD_SIZE=2 BURN_DIST_RDZV=file://x",
            "or file:///PATH",
        ),
    ] {
        let text = of(variables).unwrap_err().to_string();
        assert!(
            text.contains(part) && !text.contains('\n'),
            "{variables}: {text}"
        );
    }
}

#[test]
fn an_empty_variable_is_no_variable() {
    let found = Identity::of(&[("RANK", ""), ("WORLD_SIZE", " ")].into_iter().collect());
    assert_eq!(found.unwrap().world_size, 1);
}
