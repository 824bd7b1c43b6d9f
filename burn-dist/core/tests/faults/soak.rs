//! Many operations: right each time, and in memory that does not grow.

use std::time::Duration;

use super::processes::Job;

#[test]
fn operations_go_on_for_long_in_flat_memory() {
    let seconds = std::env::var("BURN_DIST_SOAK_SECONDS").unwrap_or_else(|_| "3".into());
    for transport in super::processes::TRANSPORTS {
        let mut job = Job::start(3, transport, &format!("soak {seconds}"), |_, command| {
            command.env("BURN_DIST_OP_TIMEOUT", "60");
        });
        job.patience += Duration::from_secs(seconds.parse().unwrap());
        job.assert_done();
        job.assert_gone();
    }
}
