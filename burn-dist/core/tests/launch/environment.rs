//! What ranks find in their environment.

use std::collections::BTreeMap;

use burn_dist_core::rendezvous::{Environment, Identity, Launcher};

use crate::job::{Ended, run, script};

/// The environment of `rank`, which has printed it to its file.
fn environment(ended: &Ended, rank: usize) -> BTreeMap<String, String> {
    let text = ended.read(&format!("logs/rank-{rank}.log"));
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(n, v)| (n.to_string(), v.to_string())).collect()
}

#[test]
fn ranks_find_out_who_they_are_whatever_another_launcher_has_left() {
    let mut command = script(3, &["--output-dir", "logs"], "env");
    for pair in [
        "RANK=7",
        "WORLD_SIZE=9",
        "LOCAL_RANK=x",
        "OMPI_COMM_WORLD_RANK=1",
        "PMI_RANK=5",
        "PMI_SIZE=2",
        "PET_NNODES=4",
        "SLURM_STEP_ID=0",
        "SLURM_PROCID=8",
        "SLURM_JOB_ID=42",
        "JOB_COMPLETION_INDEX=6",
        "BURN_DIST_RANK=11",
        "BURN_DIST_RDZV=file:///x",
        "BURN_DIST_RUN=that of the launcher itself",
    ] {
        let (name, value) = pair.split_once('=').unwrap();
        command.env(name, value);
    }
    let ended = run(&mut command);
    assert_eq!((ended.code, ended.error.as_str()), (0, ""));
    let all: Vec<_> = (0..3).map(|rank| environment(&ended, rank)).collect();
    for (rank, variables) in all.iter().enumerate() {
        let identity = Identity::of(&variables.clone().into_iter().collect::<Environment>());
        let identity = identity.unwrap();
        assert_eq!((identity.rank, identity.world_size), (rank, 3));
        assert_eq!(identity.local_rank, Some(rank));
        assert_eq!(identity.local_world_size, Some(3));
        assert_eq!(identity.launcher, Launcher::BurnDist);
        let point = &variables["BURN_DIST_RDZV"];
        assert!(point.starts_with("tcp://127.0.0.1:"), "{point}");
        assert_eq!(*point, all[0]["BURN_DIST_RDZV"]);
        let token = &variables["BURN_DIST_TOKEN"];
        assert!(token.len() == 64 && token.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_eq!(*token, all[0]["BURN_DIST_TOKEN"]);
        let run = &variables["BURN_DIST_RUN"];
        assert!(run.len() == 16 && run.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_eq!(*run, all[0]["BURN_DIST_RUN"]);
        assert_eq!(identity.run.as_ref(), Some(run));
        assert!(!variables.contains_key("RANK"));
        assert_eq!(variables["SLURM_JOB_ID"], "42");
    }
}

#[test]
fn what_is_given_is_kept() {
    let options = [
        "--output-dir",
        "logs",
        "--port",
        "4321",
        "--env",
        "GIVEN=a=b",
    ];
    let found = |name, value| {
        let ended = run(script(1, &options, "env").env(name, value));
        assert_eq!(ended.code, 0, "{}", ended.error);
        environment(&ended, 0)
    };
    let given = found("BURN_DIST_TOKEN", "mine");
    assert_eq!(given["BURN_DIST_RDZV"], "tcp://127.0.0.1:4321");
    assert_eq!(given["GIVEN"], "a=b");
    assert_eq!(given["BURN_DIST_TOKEN"], "mine");
    let file = found("BURN_DIST_TOKEN_FILE", "/run/token");
    assert_eq!(file["BURN_DIST_TOKEN_FILE"], "/run/token");
    assert!(!file.contains_key("BURN_DIST_TOKEN"));
    // One that is drawn for each.
    assert_ne!(given["BURN_DIST_RUN"], file["BURN_DIST_RUN"]);
}

#[test]
fn standard_input_is_empty() {
    let ended = run(&mut script(1, &[], "cat; echo end"));
    assert_eq!(ended.output, "[0] end\n");
}
