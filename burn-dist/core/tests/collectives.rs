//! Every operation, on any number of ranks, of any type, by any algorithm and transport: against the same done by one,
//! in the order of the ranks, bit for bit.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod worlds;

use burn_dist_core::collective::{Algorithm, Element, Order, Reduction, partition};
use burn_dist_core::transport::{Poll, Throttle, Transport};
use burn_dist_core::{Collective, Options, World};
use half::{bf16, f16};
use proptest::prelude::*;
use worlds::{options, run};

/// Numbers that show an order of additions: of very different sizes, the same for the same place.
fn bits(rank: usize, index: usize) -> u64 {
    let mut state = (rank as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ index as u64;
    for _ in 0..3 {
        state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    }
    state ^ (state >> 31)
}

trait Sample: Element {
    fn sample(rank: usize, index: usize) -> Self;
}

macro_rules! sample {
    ($element:ty, $bits:ident => $value:expr) => {
        impl Sample for $element {
            fn sample(rank: usize, index: usize) -> Self {
                let $bits = bits(rank, index);
                $value
            }
        }
    };
}

/// From 2⁻²⁰ to 2²⁰, of either sign: sums differ with their order, and none is infinite.
fn real(bits: u64) -> f64 {
    let size = 2f64.powi((bits >> 48) as i32 % 40 - 20);
    let sign = if bits & 1 == 0 { 1.0 } else { -1.0 };
    sign * size * (1.0 + (bits >> 12 & 0xFFFF_FFFF) as f64 / 4_294_967_296.0)
}

sample!(f32, bits => real(bits) as f32);
sample!(f64, bits => real(bits));
sample!(f16, bits => f16::from_f64(real(bits) / 1_024.0));
sample!(bf16, bits => bf16::from_f64(real(bits)));
sample!(i32, bits => bits as i32);
sample!(i64, bits => bits as i64);
sample!(u8, bits => bits as u8);

fn samples<T: Sample>(rank: usize, count: usize) -> Vec<T> {
    (0..count).map(|index| T::sample(rank, index)).collect()
}

/// What adding in the order of the ranks gives.
fn reduced<T: Sample>(ranks: usize, count: usize, reduction: Reduction) -> Vec<T> {
    let all: Vec<Vec<T>> = (0..ranks).map(|rank| samples(rank, count)).collect();
    let all: Vec<&[T]> = all.iter().map(Vec::as_slice).collect();
    let mut output = vec![T::default(); count];
    reduction.reduce(&all, &mut output);
    output
}

fn bytes<T: Sample>(values: &[T]) -> &[u8] {
    bytemuck::cast_slice(values)
}

/// All operations of one type; `order` is that of the world.
fn check<T: Sample>(world: &World, count: usize, reduction: Reduction, order: Order) {
    let (rank, ranks) = (world.rank(), world.size());
    let own: Vec<T> = samples(rank, count);
    let expected: Vec<T> = reduced(ranks, count, reduction);
    let same = |found: &[T], expected: &[T], what: &str| {
        assert!(
            bytes(found) == bytes(expected),
            "{what}: rank {rank} of {ranks}, {count} × {:?}, {reduction}",
            T::TYPE
        );
    };

    let mut data = own.clone();
    world.all_reduce(&mut data, reduction).unwrap();
    if order == Order::Rank {
        same(&data, &expected, "all_reduce");
    }
    // Whatever the order: the same on all ranks, blocking or started.
    let gathered = world.all_gather(&data).unwrap();
    for rank in 0..ranks {
        same(gathered.of(rank), &data, "all_reduce on all ranks");
    }
    let mut buffer = world.alloc::<T>(count).unwrap();
    buffer.copy_from_slice(&own);
    let first = world
        .start(Collective::AllReduce(reduction), buffer)
        .unwrap();
    let mut buffer = world.alloc::<T>(count).unwrap();
    buffer.copy_from_slice(&own);
    let second = world
        .start(Collective::AllReduce(reduction), buffer)
        .unwrap();
    same(&first.wait().unwrap(), &data, "started");
    same(
        &second.wait().unwrap(),
        &data,
        "started while another is under way",
    );

    let mut data = own.clone();
    let part = world.reduce_scatter(&mut data, reduction).unwrap();
    assert_eq!(part, partition(count, ranks)[rank]);
    if order == Order::Rank {
        same(&data[part.clone()], &expected[part], "reduce_scatter");
    }

    let root = count % ranks;
    let mut data = own.clone();
    world.reduce(&mut data, reduction, root).unwrap();
    if rank == root {
        same(&data, &expected, "reduce");
    }

    let mut data = own.clone();
    world.broadcast(&mut data, root).unwrap();
    same(&data, &samples(root, count), "broadcast");

    // Each rank has another number of elements, some none.
    let ragged = |rank: usize| if rank % 3 == 1 { 0 } else { count / (rank + 1) };
    let gathered = world.all_gather(&samples::<T>(rank, ragged(rank))).unwrap();
    for rank in 0..ranks {
        same(
            gathered.of(rank),
            &samples(rank, ragged(rank)),
            "all_gather",
        );
    }
    world.barrier().unwrap();
}

fn check_all_types(world: &World, count: usize, reduction: Reduction, order: Order) {
    check::<f32>(world, count, reduction, order);
    check::<f64>(world, count, reduction, order);
    check::<f16>(world, count, reduction, order);
    check::<bf16>(world, count, reduction, order);
    check::<i32>(world, count, reduction, order);
    check::<i64>(world, count, reduction, order);
    check::<u8>(world, count, reduction, order);
}

fn algorithms() -> impl Strategy<Value = Option<Algorithm>> {
    proptest::option::of(proptest::sample::select(Algorithm::ALL.to_vec()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 20, ..ProptestConfig::default() })]
    #[test]
    fn operations_are_those_of_one_process(
        ranks in 1usize..=9,
        transport in proptest::sample::select(vec![Transport::Tcp, Transport::Shm]),
        streams in 1usize..4,
        poll in proptest::sample::select(vec![Poll::Block, Poll::Hybrid]),
        algorithm in algorithms(),
        counts in proptest::collection::vec(prop_oneof![0usize..3, 0usize..70, 0usize..40_000], 1..4),
        reduction in proptest::sample::select(Reduction::ALL.to_vec()),
    ) {
        let order = match algorithm {
            Some(Algorithm::Ring) => Order::Any,
            _ => Order::Rank,
        };
        let options = Options {
            transport: Some(transport),
            streams,
            poll: Some(poll),
            algorithm,
            ..options()
        };
        run(ranks, &options, |world| {
            for count in &counts {
                check_all_types(&world, *count, reduction, order);
            }
        });
    }
}

#[test]
fn large_messages_in_pieces() {
    for transport in [Transport::Tcp, Transport::Shm] {
        for (ranks, algorithm) in [
            (2, None),
            (3, None),
            (3, Some(Algorithm::Chain)),
            (4, Some(Algorithm::Ring)),
            (3, Some(Algorithm::Rabenseifner)),
        ] {
            let order = match algorithm {
                Some(Algorithm::Ring) => Order::Any,
                _ => Order::Rank,
            };
            let options = Options {
                transport: Some(transport),
                algorithm,
                ..options()
            };
            run(ranks, &options, |world| {
                assert_eq!(world.transport((world.rank() + 1) % ranks), Some(transport));
                check::<f32>(&world, 1_000_003, Reduction::Sum, order);
                check::<bf16>(&world, 300_001, Reduction::Mean, order);
            });
        }
    }
}

#[test]
fn a_slow_network_changes_no_bit_and_takes_its_time() {
    for transport in [Transport::Tcp, Transport::Shm] {
        let options = Options {
            transport: Some(transport),
            throttle: Some(Throttle {
                rate: 20e6,
                latency: std::time::Duration::from_millis(2),
            }),
            ..options()
        };
        run(3, &options, |world| {
            check::<f32>(&world, 10_000, Reduction::Sum, Order::Rank);
            let mut data = vec![1.0f32; 300_000];
            let began = std::time::Instant::now();
            world.all_reduce(&mut data, Reduction::Sum).unwrap();
            // Each direction of each connection carries 2/3 of 1.2 MB at 20 MB/s: 40 ms, and never less.
            assert!(began.elapsed() > std::time::Duration::from_millis(35));
        });
    }
}

#[test]
fn threads_of_a_rank_take_turns() {
    run(2, &options(), |world| {
        let buffers: Vec<_> = (0..20)
            .map(|index| {
                let mut buffer = world.alloc::<i64>(1_000).unwrap();
                buffer.fill(index);
                world
                    .start(Collective::AllReduce(Reduction::Sum), buffer)
                    .unwrap()
            })
            .collect();
        // A blocking call comes after what was started before it.
        let mut sum = [1i32];
        world.all_reduce(&mut sum, Reduction::Sum).unwrap();
        assert_eq!(sum, [2]);
        for (index, mut pending) in buffers.into_iter().enumerate() {
            while !pending.is_over() {
                std::thread::yield_now();
            }
            assert_eq!(pending.wait().unwrap()[999], 2 * index as i64);
        }
    });
}

#[test]
fn a_round_trip_is_timed_by_who_begins_it() {
    run(3, &options(), |world| {
        for (one, other) in [(0, 1), (2, 0), (1, 2)] {
            let time = world.round_trip(one, other, 1_000_000).unwrap();
            assert_eq!(time.is_some(), world.rank() == one);
        }
        let refused = world.round_trip(1, 1, 8).unwrap_err().to_string();
        assert!(refused.contains("two of them"), "{refused}");
    });
}

#[test]
fn more_memory_than_there_is_is_refused_and_harms_nothing() {
    run(2, &options(), |world| {
        let refused = world.alloc::<f64>(1 << 47).unwrap_err().to_string();
        let expected = format!(
            "rank {} has no memory for a buffer of 1 PiB: ",
            world.rank()
        );
        assert!(refused.starts_with(&expected), "{refused}");
        assert!(world.alloc::<f64>(usize::MAX).is_err());
        world.barrier().unwrap();
        assert_eq!(world.failure(), None);
    });
}

/// Each has memory for its own, and none for what all have: nothing is touched, so that nothing is taken.
#[test]
fn gathering_more_than_there_is_is_refused() {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find(|line| line.starts_with("MemAvailable:"));
    let kilobytes: usize = line
        .unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    let each = kilobytes * 1024 / 10 * 6;
    run(2, &options(), |world| {
        let error = world.all_gather(&vec![0u8; each]).unwrap_err().to_string();
        assert!(error.contains("has no memory for a buffer of"), "{error}");
        // The other could not be served: the world has failed.
        assert!(world.barrier().is_err());
    });
}

#[test]
fn arguments_that_do_not_fit_are_refused_and_harm_nothing() {
    run(2, &options(), |world| {
        let refused = world.broadcast(&mut [0.0f32], 2).unwrap_err().to_string();
        assert!(refused.contains("root 2 of 2 ranks"), "{refused}");
        world.barrier().unwrap();
        assert_eq!(world.failure(), None);
    });
}
