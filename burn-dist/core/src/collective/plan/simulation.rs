//! Plans of all ranks, carried out in any order that they allow, on numbers that are their own history.
//!
//! A message is read from the memory of its sender when it arrives, as a network card may, so a plan that writes
//! to it before is found out.

#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::collective::choice::Topology;
use crate::collective::element::ElementType;
use crate::collective::reduction::Reduction;

/// An element: what was added in which order, and whether a mean has been divided.
#[derive(Clone, Debug, PartialEq, Eq)]
struct History {
    added: Vec<usize>,
    divided: bool,
}

struct Rank {
    plan: Plan,
    done: usize,
    buffer: Vec<History>,
    scratch: Vec<Option<History>>,
}

impl Rank {
    fn read(&self, span: Span) -> Vec<History> {
        let range = span.start..span.start + span.count;
        match span.area {
            Area::Buffer => self.buffer[range].to_vec(),
            Area::Scratch => {
                let written = self.scratch[range].iter().cloned();
                written.map(|history| history.unwrap()).collect()
            }
        }
    }

    fn write(&mut self, span: Span, histories: Vec<History>) {
        assert_eq!(histories.len(), span.count);
        let range = span.start..span.start + span.count;
        match span.area {
            Area::Buffer => self.buffer[range].clone_from_slice(&histories),
            Area::Scratch => {
                for (cell, history) in self.scratch[range].iter_mut().zip(histories) {
                    *cell = Some(history);
                }
            }
        }
    }
}

/// Carries the plans out, choosing by `seed` who goes on; how many bytes each rank has sent, and the buffers.
fn run(plans: Vec<Plan>, buffers: Vec<Vec<History>>, seed: u64) -> (Vec<usize>, Vec<Vec<History>>) {
    let ranks = plans.len();
    let mut links: Vec<VecDeque<Outgoing>> = vec![VecDeque::new(); ranks * ranks];
    let mut sent = vec![0; ranks];
    for (rank, plan) in plans.iter().enumerate() {
        for message in &plan.outgoing {
            assert_ne!(message.peer, rank, "a message to itself");
            sent[rank] += message.from.count;
            links[rank * ranks + message.peer].push_back(*message);
        }
    }
    let with_scratch = |(plan, buffer): (Plan, Vec<History>)| Rank {
        scratch: vec![None; plan.scratch],
        plan,
        done: 0,
        buffer,
    };
    let mut states: Vec<Rank> = plans.into_iter().zip(buffers).map(with_scratch).collect();
    let mut random = seed;
    loop {
        let mut able = (0..ranks).filter(|rank| can_go_on(&states, &links, *rank));
        let able: Vec<usize> = able.by_ref().collect();
        if able.is_empty() {
            break;
        }
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let rank = able[(random >> 33) as usize % able.len()];
        let step = states[rank].plan.steps[states[rank].done].clone();
        let mut arrive = |states: &[Rank], from: usize, count: usize| {
            let message = links[from * ranks + rank].pop_front().unwrap();
            assert_eq!(message.from.count, count, "rank {rank} from {from}");
            states[from].read(message.from)
        };
        match step {
            Step::Receive { peer, to } => {
                let arrived = arrive(&states, peer, to.count);
                states[rank].write(to, arrived);
            }
            Step::Stage { from, to } => {
                let own = states[rank].read(from);
                states[rank].write(to, own);
            }
            Step::Reduce { sources, to, last } => {
                let operands: Vec<Vec<History>> = sources
                    .iter()
                    .map(|source| match source {
                        Source::Peer(peer) => arrive(&states, *peer, to.count),
                        Source::Own(span) => {
                            assert!(span.area == Area::Scratch || *span == to);
                            states[rank].read(*span)
                        }
                    })
                    .collect();
                let reduce = |index: usize| {
                    let of = |operand: &Vec<History>| operand[index].clone();
                    let parts: Vec<History> = operands.iter().map(of).collect();
                    assert!(parts.iter().all(|part| !part.divided));
                    History {
                        added: parts.into_iter().flat_map(|part| part.added).collect(),
                        divided: last,
                    }
                };
                let reduced = (0..to.count).map(reduce).collect();
                states[rank].write(to, reduced);
            }
        }
        states[rank].done += 1;
    }
    for (rank, state) in states.iter().enumerate() {
        assert_eq!(
            state.done,
            state.plan.steps.len(),
            "rank {rank} waits for ever"
        );
    }
    assert!(
        links.iter().all(VecDeque::is_empty),
        "messages that nobody takes"
    );
    (sent, states.into_iter().map(|state| state.buffer).collect())
}

fn can_go_on(states: &[Rank], links: &[VecDeque<Outgoing>], rank: usize) -> bool {
    let state = &states[rank];
    let has_arrived = |peer: usize| {
        let next = links[peer * states.len() + rank].front();
        next.is_some_and(|message| message.after <= states[peer].done)
    };
    match state.plan.steps.get(state.done) {
        None => false,
        Some(Step::Stage { .. }) => true,
        Some(Step::Receive { peer, .. }) => has_arrived(*peer),
        Some(Step::Reduce { sources, .. }) => sources.iter().all(|source| match source {
            Source::Peer(peer) => has_arrived(*peer),
            Source::Own(_) => true,
        }),
    }
}

fn call(operation: Operation, count: usize, root: usize) -> Call {
    use Operation::{AllReduce, Broadcast, Reduce, ReduceScatter};
    let reduces = matches!(operation, AllReduce | Reduce | ReduceScatter);
    Call {
        operation,
        reduction: reduces.then_some(Reduction::Mean),
        element: ElementType::F32,
        count: count as u64,
        root: matches!(operation, Broadcast | Reduce).then_some(root as u16),
    }
}

/// Carries an operation out and checks what each rank has in the end.
fn check(
    operation: Operation,
    algorithm: Algorithm,
    ranks: usize,
    ranks_of_host: Option<usize>,
    count: usize,
    segment: usize,
    seed: u64,
) -> Vec<usize> {
    let root = seed as usize % ranks;
    let parts = partition(count, ranks);
    let plans = (0..ranks).map(|rank| {
        let shape = Shape {
            rank,
            call: call(operation, count, root),
            parts: &parts,
            segment,
            ranks_of_host,
        };
        Plan::new(&shape, algorithm)
    });
    let own = |rank: usize| History {
        added: vec![rank],
        divided: false,
    };
    let buffers = (0..ranks).map(|rank| vec![own(rank); count]).collect();
    let (sent, buffers) = run(plans.collect(), buffers, seed);
    for (rank, buffer) in buffers.iter().enumerate() {
        let wanted = match operation {
            Operation::ReduceScatter => parts[rank].clone(),
            Operation::Reduce if rank != root => 0..0,
            _ => 0..count,
        };
        for index in wanted {
            let found = &buffer[index];
            match operation {
                Operation::AllGather => {
                    let owner = parts.iter().position(|part| part.contains(&index)).unwrap();
                    assert_eq!(*found, own(owner));
                }
                Operation::Broadcast => assert_eq!(*found, own(root)),
                _ => {
                    assert_eq!(found.divided, ranks > 1);
                    let mut added = found.added.clone();
                    if algorithm.order(operation) == Order::Any {
                        assert_eq!(*found, buffers[index_owner(&parts, index)][index]);
                        added.sort_unstable();
                    }
                    assert!(added.iter().copied().eq(0..ranks), "{added:?}");
                }
            }
        }
    }
    sent
}

fn index_owner(parts: &[Range<usize>], index: usize) -> usize {
    parts.iter().position(|part| part.contains(&index)).unwrap()
}

const MOVING: [Operation; 5] = [
    Operation::AllReduce,
    Operation::ReduceScatter,
    Operation::AllGather,
    Operation::Broadcast,
    Operation::Reduce,
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]
    /// Every algorithm, in any order in which its messages may arrive: all contributions, each once, in the order of
    /// the ranks, and no rank waits for ever.
    #[test]
    fn plans_reach_their_end(
        ranks in 1usize..18,
        hosts in 1usize..6,
        count in prop_oneof![0usize..4, 0usize..200],
        segment in 1usize..40,
        seed: u64,
    ) {
        for operation in MOVING {
            for algorithm in Algorithm::ALL {
                let regular = ranks.is_multiple_of(hosts).then_some(ranks / hosts);
                let topology = Topology { ranks, ranks_of_host: regular };
                if algorithm.serves(operation, topology) {
                    check(operation, algorithm, ranks, regular, count, segment, seed);
                }
            }
        }
    }

    #[test]
    fn parts_are_all_elements_once(count in 0usize..5_000, parts in 1usize..20) {
        let found = partition(count, parts);
        prop_assert_eq!(found.len(), parts);
        prop_assert!(found.iter().cloned().flatten().eq(0..count));
        let longest = found.iter().map(ExactSizeIterator::len).max().unwrap();
        prop_assert!(longest <= count.div_ceil(parts) + 16);
    }
}

#[test]
fn bytes_are_as_the_table_of_the_module_says() {
    let (count, ranks) = (16 * 8 * 4, 8);
    let most = |algorithm| {
        let sent = check(
            Operation::AllReduce,
            algorithm,
            ranks,
            Some(4),
            count,
            16,
            1,
        );
        sent.into_iter().max().unwrap()
    };
    assert_eq!(most(Algorithm::Direct), 2 * 7 * count / 8);
    assert_eq!(most(Algorithm::Ring), 2 * 7 * count / 8);
    assert_eq!(most(Algorithm::Doubling), 7 * count);
    assert_eq!(most(Algorithm::Rabenseifner), 3 * count / 2 + 7 * count / 8);
    assert_eq!(most(Algorithm::Chain), 2 * count);
}
