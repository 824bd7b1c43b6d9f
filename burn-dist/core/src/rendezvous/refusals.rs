//! Whom this process has turned away: a line for each reason and address, and a count, however often they come.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::report::Report;

/// Reasons and addresses that are told apart.
const TOLD: usize = 64;
/// Characters of a reason: it may hold what a stranger has said.
const SHOWN: usize = 300;

/// Notes whom it is told of. What has come again it counts, and says when it is dropped.
pub(super) struct Refusals {
    report: Report,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    told: BTreeMap<(IpAddr, String), u64>,
    others: u64,
}

impl Refusals {
    pub fn new(report: Report) -> Self {
        Self {
            report,
            counts: Mutex::default(),
        }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who has connected from `from` was turned away.
    pub fn add(&self, from: SocketAddr, reason: &dyn Display) {
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        let reason = shown(&reason.to_string());
        let key = (from.ip(), reason.clone());
        let mut counts = self.counts();
        if let Some(count) = counts.told.get_mut(&key) {
            *count += 1;
        } else if counts.told.len() < TOLD {
            let line = format!("turned {from} away: {reason}");
            counts.told.insert(key, 1);
            drop(counts);
            self.report.note(&line);
        } else {
            counts.others += 1;
        }
    }
}

/// The beginning of `reason`, on one line.
fn shown(reason: &str) -> String {
    let characters = reason.chars().take(SHOWN);
    characters
        .map(|one| if one.is_control() { ' ' } else { one })
        .collect()
}

impl Drop for Refusals {
    fn drop(&mut self) {
        let Counts { told, others } = std::mem::take(&mut *self.counts());
        for ((address, reason), count) in told.into_iter().filter(|(_, count)| *count > 1) {
            let times = format!("turned {address} away {count} times in all: {reason}");
            self.report.note(&times);
        }
        if others > 0 {
            let times = format!("turned others away {others} times");
            self.report.note(&times);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn an_address_and_a_reason_are_two_lines_however_often_they_come() {
        let lines = Arc::new(Mutex::new(Vec::<String>::new()));
        let written = lines.clone();
        let report = Report::new(move |_, line| written.lock().unwrap().push(line.to_owned()));
        let refusals = Refusals::new(report);
        for port in 1..=100 {
            // As a socket for both families shows it.
            refusals.add(format!("[::ffff:10.0.0.1]:{port}").parse().unwrap(), &"no");
        }
        // What it has said itself makes no line of its own.
        let never = format!("never\n{}", "!".repeat(1_000));
        refusals.add("10.0.0.1:7".parse().unwrap(), &never);
        assert_eq!(
            lines.lock().unwrap().as_slice(),
            [
                "turned 10.0.0.1:1 away: no".to_owned(),
                format!("turned 10.0.0.1:7 away: never {}", "!".repeat(SHOWN - 6))
            ]
        );
        for reason in 0..1_000 {
            refusals.add("10.0.0.2:7".parse().unwrap(), &reason);
        }
        drop(refusals);
        let lines = lines.lock().unwrap();
        assert_eq!(lines.len(), TOLD + 2);
        assert_eq!(
            lines[TOLD..],
            [
                "turned 10.0.0.1 away 100 times in all: no",
                "turned others away 938 times"
            ]
        );
    }
}
