//! Random operations for a while: results stay right, and memory flat.

use std::time::{Duration, Instant};

use burn_dist_core::collective::Reduction;
use burn_dist_core::{Collective, World};

use crate::agreement::check_type;
use crate::processes::{Job, TRANSPORTS, together};

/// Seconds of the test below.
const SECONDS: &str = "SOAK_SECONDS";
/// Elements of an operation, at most.
const MOST: u64 = 200_000;
/// Bytes by which memory may grow when all sizes have been seen.
const GROWTH: u64 = 24 << 20;

/// Bytes of memory that this process holds.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}

/// What each rank of the test below does: the same on all, as rank 0 draws it.
pub fn run(world: &World, time: Duration) -> Result<(), Box<dyn std::error::Error>> {
    let began = Instant::now();
    let mut state = 0x2545_F491_4F6C_DD1Du64;
    let mut draw = |most: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % most
    };
    let mut settled = None;
    loop {
        // Rank 0 says when it is over: all have to end after the same operation.
        let mut over = [i32::from(began.elapsed() >= time)];
        world.broadcast(&mut over, 0)?;
        if over == [1] {
            break;
        }
        let count = match draw(3) {
            0 => draw(10),
            1 => draw(5_000),
            _ => draw(MOST),
        } as usize;
        let reduction = Reduction::ALL[draw(Reduction::ALL.len() as u64) as usize];
        match draw(4) {
            0 => check_type(world, count, reduction, |value| value as f32),
            1 => check_type(world, count, reduction, |value| value as i64),
            2 => check_type(world, count, reduction, half::bf16::from_f64),
            _ => {
                let buffers = (0..4).map(|_| world.alloc::<f32>(count));
                let buffers = buffers.collect::<Result<Vec<_>, _>>()?;
                let sum = Collective::AllReduce(Reduction::Sum);
                let pending = buffers.into_iter().map(|buffer| world.start(sum, buffer));
                for one in pending.collect::<Result<Vec<_>, _>>()? {
                    assert!(one.wait()?.iter().all(|value| *value == 0.0));
                }
            }
        }
        if settled.is_none() && began.elapsed() > time / 3 {
            settled = Some(resident());
        }
    }
    let (before, after) = (settled.unwrap_or_else(resident), resident());
    assert!(
        after < before + GROWTH,
        "memory grew from {before} to {after} bytes"
    );
    world.barrier()?;
    Ok(())
}

#[test]
fn operations_for_a_while_keep_results_right_and_memory_flat() {
    let seconds = std::env::var(SECONDS).map_or(4, |text| text.parse::<u64>().unwrap());
    together(TRANSPORTS.to_vec(), |transport| {
        let script = format!("soak {}", seconds * 1_000);
        let job = Job::same(transport, 3, &script).all("BURN_DIST_OP_TIMEOUT", "60");
        job.start()
            .succeeds_within(Duration::from_secs(seconds + 60));
    });
}
