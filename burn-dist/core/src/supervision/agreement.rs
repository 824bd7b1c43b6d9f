//! Whether ranks have called the same, where none of them waits for another: who broadcasts, or gives to a root, goes on
//! at once, and a message says only what its sender has called.
//!
//! A rank tells after how many operations it is and, for some of the last of these numbers, a digest of all calls until
//! then. Where two digests of one number differ, both ranks are asked for their calls.

use std::collections::BTreeMap;
use std::hash::Hasher;

use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;

use super::error::CollectiveError;
use crate::collective::Call;

/// Numbers of operations that a trail goes back, at most.
const BACK: u64 = 1_000;
/// How far digests are kept.
const KEPT: u64 = 4 * BACK;

/// The digest of `call` after calls whose digest is `before`: the same on all ranks, whatever they are compiled for.
pub(super) fn digest(before: u64, call: &Call) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(before, 0);
    let [operation, element, reduction, root] = call.numbers();
    hasher.write_u64(u64::from(operation) << 8 | u64::from(element));
    hasher.write_u64(u64::from(reduction) << 16 | u64::from(root));
    hasher.write_u64(call.count);
    hasher.finish()
}

/// What a rank has called: numbers of operations, each with the digest of all until then.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Trail(Vec<(u64, u64)>);

impl Trail {
    /// That of a rank after `count` operations, where `digest` says what is known. All numbers a short way back and
    /// fewer farther back, so that ranks which are apart have some in common.
    pub fn new(count: u64, digest: impl Fn(u64) -> Option<u64>) -> Self {
        let numbers = (count.saturating_sub(BACK) + 1..=count).filter(|number| {
            let back = count - number;
            back < 16 || (back < 256 && number % 16 == 0) || number % 128 == 0
        });
        Self(
            numbers
                .filter_map(|number| Some((number, digest(number)?)))
                .collect(),
        )
    }
}

/// The last calls of a rank, from operation `first` on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Calls {
    pub first: u64,
    pub calls: Vec<Call>,
}

impl Calls {
    fn get(&self, sequence: u64) -> Option<Call> {
        let index = usize::try_from(sequence.checked_sub(self.first)?).ok()?;
        self.calls.get(index).copied()
    }
}

/// What all ranks have told.
#[derive(Debug, Default)]
pub(super) struct Agreement {
    /// For numbers of operations, who told first, and the digest.
    known: BTreeMap<u64, (usize, u64)>,
    parting: Option<Parting>,
}

/// Two ranks that have called different things.
#[derive(Debug)]
struct Parting {
    ranks: [usize; 2],
    /// Before so many operations.
    number: u64,
    calls: BTreeMap<usize, Calls>,
}

impl Agreement {
    /// `rank` tells its trail; two ranks to be asked for their calls, if they have parted. Those that cannot be asked any
    /// more have [left](Self::left).
    pub fn compare(&mut self, rank: usize, trail: &Trail) -> Option<[usize; 2]> {
        if self.parting.is_some() {
            return None;
        }
        for &(number, digest) in &trail.0 {
            let (first, known) = *self.known.entry(number).or_insert((rank, digest));
            if known != digest {
                let ranks = [first, rank];
                self.parting = Some(Parting {
                    ranks,
                    number,
                    calls: BTreeMap::new(),
                });
                return Some(ranks);
            }
        }
        if let Some((&last, _)) = self.known.last_key_value() {
            self.known = self.known.split_off(&last.saturating_sub(KEPT));
        }
        None
    }

    /// `rank` tells its calls; what is to be said of them, once both have.
    pub fn recall(&mut self, rank: usize, calls: Calls) -> Option<CollectiveError> {
        let parting = self.parting.as_mut()?;
        parting.calls.insert(rank, calls);
        let parting = &*parting;
        let [one, other] = parting.ranks;
        let (of_one, of_other) = (parting.calls.get(&one)?, parting.calls.get(&other)?);
        let first = of_one.first.max(of_other.first);
        let parted = (first..parting.number).find_map(|sequence| {
            let calls = (of_one.get(sequence)?, of_other.get(sequence)?);
            (calls.0 != calls.1).then_some((sequence, calls))
        });
        Some(match parted {
            Some((sequence, calls)) => CollectiveError::Mismatch {
                sequence,
                one: (one, calls.0),
                other: (other, calls.1),
            },
            None => CollectiveError::Parted {
                before: first,
                ranks: parting.ranks,
            },
        })
    }

    /// `rank` tells nothing any more; what is to be said, if that was wanted.
    pub fn left(&self, rank: usize) -> Option<CollectiveError> {
        let parting = self.parting.as_ref()?;
        let wanted = parting.ranks.contains(&rank) && !parting.calls.contains_key(&rank);
        wanted.then_some(CollectiveError::Parted {
            before: parting.number,
            ranks: parting.ranks,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::collective::{ElementType, Operation};

    fn call(count: u64) -> Call {
        Call {
            operation: Operation::Broadcast,
            reduction: None,
            element: ElementType::F32,
            count,
            root: Some(0),
        }
    }

    /// The digests after each of `calls`.
    fn digests(calls: &[Call]) -> Vec<u64> {
        let mut last = 0;
        let next = |call: &Call| {
            last = digest(last, call);
            last
        };
        calls.iter().map(next).collect()
    }

    fn trail(calls: &[Call], count: u64) -> Trail {
        let digests = digests(calls);
        Trail::new(count, |number| {
            digests.get(usize::try_from(number).ok()? - 1).copied()
        })
    }

    #[test]
    fn every_part_of_a_call_is_in_its_digest() {
        let one = call(5);
        let mut others = [one; 5];
        others[0].operation = Operation::Reduce;
        others[1].element = ElementType::I32;
        others[2].count = 6;
        others[3].root = None;
        others[4].reduction = Some(crate::collective::Reduction::Sum);
        for other in others {
            assert_ne!(digest(7, &one), digest(7, &other), "{other:?}");
        }
        assert_ne!(digest(7, &one), digest(8, &one));
        assert_eq!(digest(7, &one), digest(7, &call(5)));
    }

    /// However far two ranks are apart, up to a thousand operations, what they called long enough ago is compared.
    #[test]
    fn ranks_that_are_apart_have_numbers_in_common() {
        let calls: Vec<Call> = (0..5_000).map(call).collect();
        let mut other = calls.clone();
        other[2_000].count = 1 << 40;
        for ahead in [0, 1, 15, 16, 100, 255, 256, 700, 850] {
            let mut agreement = Agreement::default();
            // As they tell it on their way.
            let told = (1_000..4_000u64).step_by(37).find_map(|count| {
                agreement
                    .compare(0, &trail(&calls, count + ahead))
                    .or_else(|| agreement.compare(1, &trail(&other, count)))
            });
            assert_eq!(told, Some([0, 1]), "{ahead} ahead");
            let recalled = |calls: &[Call]| Calls {
                first: 1_900,
                calls: calls[1_900..2_300].to_vec(),
            };
            assert_eq!(agreement.recall(1, recalled(&other)), None);
            assert_eq!(
                agreement.recall(0, recalled(&calls)),
                Some(CollectiveError::Mismatch {
                    sequence: 2_000,
                    one: (0, call(2_000)),
                    other: (1, call(1 << 40)),
                })
            );
        }
    }

    #[test]
    fn ranks_that_call_the_same_do_not_part_and_little_is_kept() {
        let calls: Vec<Call> = (0..20_000).map(call).collect();
        let mut agreement = Agreement::default();
        for count in (1..20_000).step_by(333) {
            for rank in 0..3 {
                assert_eq!(agreement.compare(rank, &trail(&calls, count)), None);
            }
        }
        assert!(agreement.known.len() < 2_000, "{}", agreement.known.len());
    }

    #[test]
    fn calls_that_nobody_remembers_are_an_error_too() {
        let mut agreement = Agreement::default();
        let calls: Vec<Call> = (0..50).map(call).collect();
        let mut other = calls.clone();
        other[0] = call(77);
        assert_eq!(agreement.compare(2, &trail(&calls, 50)), None);
        assert_eq!(agreement.compare(1, &trail(&other, 50)), Some([2, 1]));
        let late = |calls: &[Call]| Calls {
            first: 40,
            calls: calls[40..].to_vec(),
        };
        let parted = |before| CollectiveError::Parted {
            before,
            ranks: [2, 1],
        };
        assert_eq!(
            (agreement.left(0), agreement.left(1)),
            (None, Some(parted(16)))
        );
        assert_eq!(agreement.recall(1, late(&other)), None);
        assert_eq!(agreement.left(1), None);
        let error = agreement.recall(2, late(&calls)).unwrap();
        assert_eq!(error, parted(40));
    }
}
