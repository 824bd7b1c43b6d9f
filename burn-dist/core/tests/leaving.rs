//! Ranks that leave as soon as their part of the last operation is done, while others still work on theirs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod worlds;

use burn_dist_core::collective::Reduction;
use burn_dist_core::transport::Transport;
use burn_dist_core::{Collective, Options};
use worlds::{options, run};

#[test]
fn whoever_leaves_after_the_last_operation_is_not_dead_and_leaves_no_record() {
    let operations = [
        Collective::Reduce {
            reduction: Reduction::Sum,
            root: 0,
        },
        Collective::ReduceScatter(Reduction::Sum),
        Collective::AllReduce(Reduction::Sum),
    ];
    for transport in [Transport::Tcp, Transport::Shm] {
        for operation in operations {
            let folder = tempfile::tempdir().unwrap();
            let records = folder.path().join("records");
            let options = Options {
                transport: Some(transport),
                flight_recorder: Some(records.clone()),
                ..options()
            };
            for round in 0..15 {
                let outcomes = run(4, &options, |world| {
                    let mut data = vec![1f32; 250_000];
                    world.run(operation, &mut data).map_err(|e| e.to_string())
                });
                for outcome in outcomes {
                    outcome.unwrap_or_else(|e| panic!("{transport}, {operation:?}, {round}: {e}"));
                }
            }
            assert!(!records.exists(), "{transport}, {operation:?}: a record");
        }
    }
}
