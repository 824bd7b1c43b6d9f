//! Results are those of one process, bit for bit, also between processes.

use burn_dist_core::World;
use burn_dist_core::collective::{Element, Reduction, partition};
use half::{bf16, f16};

use crate::processes::{Job, TRANSPORTS, together};

/// Numbers of very different sizes, whose sums show the order of additions; the same for the same place.
pub fn sample(rank: usize, index: usize) -> f64 {
    let mut state = (rank as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ index as u64;
    for _ in 0..3 {
        state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    }
    let size = 2f64.powi((state >> 48) as i32 % 20 - 14);
    size * (((state >> 12) & 0xFFFF) as f64 - 32_768.0) / 4_096.0
}

fn samples<T: Element>(rank: usize, count: usize, of: &impl Fn(f64) -> T) -> Vec<T> {
    (0..count).map(|index| of(sample(rank, index))).collect()
}

/// All operations of one type against the same done by this process alone, in the order of the ranks.
pub fn check_type<T: Element>(
    world: &World,
    count: usize,
    reduction: Reduction,
    of: impl Fn(f64) -> T,
) {
    let (rank, ranks) = (world.rank(), world.size());
    let all: Vec<Vec<T>> = (0..ranks).map(|rank| samples(rank, count, &of)).collect();
    let operands: Vec<&[T]> = all.iter().map(Vec::as_slice).collect();
    let mut expected = vec![T::default(); count];
    reduction.reduce(&operands, &mut expected);
    let same = |found: &[T], expected: &[T], what: &str| {
        let (found, expected): (&[u8], &[u8]) =
            (bytemuck::cast_slice(found), bytemuck::cast_slice(expected));
        assert!(
            found == expected,
            "{what}: {count} × {:?}, {reduction}",
            T::TYPE
        );
    };
    let mut data = all[rank].clone();
    world.all_reduce(&mut data, reduction).unwrap();
    same(&data, &expected, "all_reduce");

    let mut data = all[rank].clone();
    let part = world.reduce_scatter(&mut data, reduction).unwrap();
    assert_eq!(part, partition(count, ranks)[rank]);
    same(&data[part.clone()], &expected[part], "reduce_scatter");

    let root = count % ranks;
    let mut data = all[rank].clone();
    world.reduce(&mut data, reduction, root).unwrap();
    if rank == root {
        same(&data, &expected, "reduce");
    }
    let mut data = all[rank].clone();
    world.broadcast(&mut data, root).unwrap();
    same(&data, &all[root], "broadcast");

    let own = |rank: usize| &all[rank][..count / (rank + 1)];
    let gathered = world.all_gather(own(rank)).unwrap();
    for rank in 0..ranks {
        same(gathered.of(rank), own(rank), "all_gather");
    }
}

/// What each rank of the test below does.
pub fn check(world: &World) {
    for reduction in Reduction::ALL {
        for count in [0, 1, 77, 4_097, 300_001] {
            check_type(world, count, reduction, |value| value as f32);
            check_type(world, count, reduction, bf16::from_f64);
        }
        check_type(world, 4_097, reduction, |value| value);
        check_type(world, 4_097, reduction, f16::from_f64);
        check_type(world, 4_097, reduction, |value| value as i32);
        check_type(world, 4_097, reduction, |value| value as i64);
        check_type(world, 4_097, reduction, |value| value as u8);
    }
    world.barrier().unwrap();
}

#[test]
fn processes_get_what_one_process_gets() {
    let all = [1, 2, 3, 5].into_iter();
    let all = all.flat_map(|ranks| TRANSPORTS.map(|transport| (transport, ranks)));
    let variants = all.flat_map(|(transport, ranks)| {
        let algorithms = if ranks == 3 {
            vec!["", "doubling", "chain"]
        } else {
            vec![""]
        };
        algorithms
            .into_iter()
            .map(move |algorithm| (transport, ranks, algorithm))
    });
    for variant in variants.collect::<Vec<_>>().chunks(2) {
        together(variant.to_vec(), |(transport, ranks, algorithm)| {
            let job =
                Job::same(transport, ranks, "agreement").all("BURN_DIST_ALGORITHM", algorithm);
            job.all("BURN_DIST_OP_TIMEOUT", "60").start().succeeds();
        });
    }
}
