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
        let silent = self
            .asked
            .iter()
            .filter(|rank| !self.answers.contains_key(rank));
        let silent: Vec<(usize, String)> = silent.map(|r| (*r, place(*r))).collect();
        let missing = self
            .answers
            .iter()
            .filter_map(|(rank, standing)| match standing {
                Standing::Before { last } => Some((*rank, last_of(last))),
                _ => None,
            });
        let missing: Vec<(usize, String)> = missing.collect();
        let waiting = self
            .answers
            .iter()
            .filter_map(|(rank, standing)| match standing {
                Standing::In { waits_for, .. } => Some((*rank, waits_for.clone())),
                _ => None,
            });
        let waiting: Vec<(usize, Vec<usize>)> = waiting.collect();
        if silent.is_empty() && missing.is_empty() && waiting.is_empty() {
            return None;
        }
        Some(if !silent.is_empty() {
            CollectiveError::Silent {
                ranks: silent,
                sequence,
                call,
                seconds,
            }
        } else if !missing.is_empty() {
            CollectiveError::Missing {
                ranks: missing,
                sequence,
                call,
                seconds,
            }
        } else {
            CollectiveError::Stuck {
                sequence,
                call,
                seconds,
                waiting,
            }
        })
    }
}

fn last_of(last: &Option<(u64, Call)>) -> String {
    match last {
        Some((sequence, call)) => format!("its last was operation {sequence}, {call}"),
        None => "it has called none".to_owned(),
    }
}
