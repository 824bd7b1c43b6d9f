//! What is asked of all ranks when one waits for long, and what their answers mean.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::error::CollectiveError;
use super::message::Standing;
use crate::collective::Call;

/// What ranks say of an operation.
#[derive(Debug)]
pub(super) struct Inquiry {
    pub began: Instant,
    /// Who waits, and what it calls.
    pub asked_by: (usize, Call),
    /// Ranks that have said by themselves that they wait in it.
    pub waiting: BTreeSet<usize>,
    pub asked: BTreeSet<usize>,
    pub answers: BTreeMap<usize, Standing>,
    /// There will be a verdict on the answers.
    pub judged: bool,
}

impl Inquiry {
    /// Why operation `sequence` is late; `None` if it was done at the last moment.
    pub fn verdict(
        &self,
        sequence: u64,
        seconds: u64,
        place: impl Fn(usize) -> String,
    ) -> Option<CollectiveError> {
        let call = self.asked_by.1;
        let unheard = |rank: &&usize| !self.answers.contains_key(rank);
        let silent: Vec<usize> = self.asked.iter().filter(unheard).copied().collect();
        let (mut missing, mut held_up) = (BTreeMap::new(), BTreeMap::new());
        let mut waiting = Vec::new();
        for (rank, standing) in &self.answers {
            match standing {
                Standing::Before { last, waits } => {
                    let missing = if *waits { &mut held_up } else { &mut missing };
                    missing.insert(*rank, last_of(last));
                }
                Standing::In { waits_for, .. } => waiting.push((*rank, waits_for.clone())),
                Standing::After { .. } => {}
            }
        }
        if !missing.is_empty() {
            // Who waits in it itself, and does not answer at this moment, holds nobody up.
            let silent = silent.iter().filter(|rank| !self.waiting.contains(rank));
            missing.extend(silent.map(|rank| (*rank, "it does not answer".to_owned())));
        } else if !silent.is_empty() {
            return Some(CollectiveError::Silent {
                ranks: silent.into_iter().map(|rank| (rank, place(rank))).collect(),
                sequence,
                call,
                seconds,
            });
        } else {
            // They wait in an earlier operation, for nobody who is missing there.
            missing = held_up;
        }
        if !missing.is_empty() {
            return Some(CollectiveError::Missing {
                ranks: missing.into_iter().collect(),
                sequence,
                call,
                seconds,
            });
        }
        (!waiting.is_empty()).then_some(CollectiveError::Stuck {
            sequence,
            call,
            seconds,
            waiting,
        })
    }
}

fn last_of(last: &Option<(u64, Call)>) -> String {
    match last {
        Some((sequence, call)) => format!("its last was operation {sequence}, {call}"),
        None => "it has called none".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::{ElementType, Operation};

    fn barrier() -> Call {
        Call {
            operation: Operation::Barrier,
            reduction: None,
            element: ElementType::U8,
            count: 4,
            root: None,
        }
    }

    /// What is said where `answers` came of four ranks, and rank 0 and those in `waiting` wait.
    fn verdict(answers: &[(usize, Standing)], waiting: &[usize]) -> String {
        let call = barrier();
        let inquiry = Inquiry {
            began: Instant::now(),
            asked_by: (0, call),
            waiting: waiting.iter().copied().chain([0]).collect(),
            asked: (0..4).collect(),
            answers: answers.iter().cloned().collect(),
            judged: true,
        };
        let verdict = inquiry.verdict(7, 60, |rank| format!("host {rank}"));
        verdict.map_or_else(String::new, |error| error.to_string())
    }

    fn waits(call: Call, peer: usize) -> Standing {
        Standing::In {
            call,
            waits_for: vec![peer],
        }
    }

    fn idle(last: Option<(u64, Call)>) -> Standing {
        Standing::Before { last, waits: false }
    }

    #[test]
    fn who_is_missing_is_told_before_who_is_slow_to_answer() {
        let call = barrier();
        let missing = (3, idle(None));
        let own = (0, waits(call, 3));
        // Rank 1 waits as well and has no time to say so.
        let text = verdict(&[own.clone(), (2, waits(call, 3)), missing.clone()], &[1]);
        assert!(
            text.starts_with("rank 3 (it has called none) has not called operation 7"),
            "{text}"
        );
        // Of rank 1 nothing is known.
        let text = verdict(&[own.clone(), (2, waits(call, 3)), missing], &[]);
        let both = "ranks 1 (it does not answer), 3 (it has called none) have not called";
        assert!(text.starts_with(both), "{text}");
        // Nobody is missing: what holds all up is who has stopped within the operation.
        let text = verdict(
            &[own.clone(), (2, waits(call, 1)), (3, waits(call, 1))],
            &[1],
        );
        assert!(
            text.starts_with("rank 1 (host 1) does not answer"),
            "{text}"
        );
        let all = [
            own,
            (1, waits(call, 0)),
            (2, waits(call, 1)),
            (3, waits(call, 1)),
        ];
        assert!(verdict(&all, &[]).contains("although all ranks have called it"));
        // Who is in an earlier operation with one that does not answer is held up by it.
        let last = Some((6, call));
        let before = Standing::Before { last, waits: true };
        let text = verdict(
            &[all[0].clone(), (1, before.clone()), (2, before.clone())],
            &[],
        );
        assert!(
            text.starts_with("rank 3 (host 3) does not answer"),
            "{text}"
        );
        let slow = [
            all[0].clone(),
            all[1].clone(),
            (2, before.clone()),
            (3, before),
        ];
        let text = verdict(&slow, &[]);
        assert!(
            text.starts_with("ranks 2 (its last was operation 6, barrier), 3 ("),
            "{text}"
        );
        let done: Vec<(usize, Standing)> = (0..4)
            .map(|rank| (rank, Standing::After { call: None }))
            .collect();
        assert_eq!(verdict(&done, &[]), "");
    }
}
