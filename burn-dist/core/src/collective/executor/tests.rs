//! Messages as they are sent, in pieces, and damaged.
#![allow(clippy::unwrap_used)]

use std::io::{IoSlice, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::*;
use crate::collective::call::{Call, Operation};
use crate::collective::choice::Algorithm;
use crate::collective::plan::{Shape, partition};
use crate::collective::reduction::Reduction;
use crate::fuzzing::{self, Random};
use crate::transport::{Readiness, TcpLane, Transport};

const COUNT: usize = 101;

/// Nobody says that an operation has failed elsewhere.
struct Nobody;

impl Watch for Nobody {
    fn waiting(&self, _peers: &[usize]) -> Result<(), Interruption> {
        Ok(())
    }
}

pub(super) fn header(bytes: usize) -> Header {
    Header {
        call: Call {
            operation: Operation::AllReduce,
            reduction: Some(Reduction::Sum),
            element: ElementType::F32,
            count: COUNT as u64,
            root: None,
        },
        algorithm: Algorithm::Direct,
        lent: false,
        group: 7,
        sequence: 3,
        bytes: bytes as u32,
    }
}

/// What rank 0 makes of what rank 1 sends.
fn received(bytes: &[u8]) -> (Result<(), Interruption>, Vec<f32>) {
    received_in_pieces(&[bytes])
}

/// The same of pieces with a pause between them.
fn received_in_pieces(pieces: &[&[u8]]) -> (Result<(), Interruption>, Vec<f32>) {
    let [mut other, stream] = fuzzing::connection();
    other.set_nodelay(true).unwrap();
    other.write_all(pieces[0]).unwrap();
    let rest: Vec<Vec<u8>> = pieces[1..].iter().map(|piece| piece.to_vec()).collect();
    let writer = std::thread::spawn(move || {
        for piece in rest {
            std::thread::sleep(Duration::from_micros(200));
            let _ = other.write_all(&piece);
        }
        // Who refuses what it gets hangs up before.
        let _ = other.shutdown(Shutdown::Write);
        // What is sent back is of no interest, but its end would be.
        let _ = io::copy(&mut other, &mut io::sink());
    });
    let lane = TcpLane::new(stream, Duration::from_secs(5)).unwrap();
    let mut links: Vec<Link> = vec![Vec::new(), vec![Box::new(lane)]];
    let parts = partition(COUNT, 2);
    let shape = Shape {
        rank: 0,
        call: header(0).call,
        parts: &parts,
        segment: 1 << 10,
        ranks_of_host: None,
    };
    let plan = Plan::new(&shape, Algorithm::Direct);
    let mut buffer = vec![1f32; COUNT];
    let work = Work {
        plan: &plan,
        header: header(0),
        element: ElementType::F32,
        ranks: 2,
        buffer: bytemuck::cast_slice_mut(&mut buffer),
        scratch: &mut [],
    };
    let outcome = execute(work, &mut links, Poll::Block, None, &Nobody);
    drop(links);
    writer.join().unwrap();
    (outcome, buffer)
}

/// The contributions of rank 1 to the first part, and its result of the second.
fn messages() -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in partition(COUNT, 2) {
        let payload = vec![2f32; part.len()];
        let payload: &[u8] = bytemuck::cast_slice(&payload);
        bytes.extend(header(payload.len()).encode());
        bytes.extend(payload);
        bytes.extend(&[0; 8][..filling(payload.len())]);
    }
    bytes
}

#[test]
fn what_is_sent_is_received() {
    let (outcome, buffer) = received(&messages());
    outcome.unwrap();
    let first = partition(COUNT, 2)[0].len();
    assert!(buffer[..first].iter().all(|sum| *sum == 3.0));
    assert!(buffer[first..].iter().all(|result| *result == 2.0));
}

#[test]
fn messages_may_come_in_pieces_cut_at_any_byte() {
    let bytes = messages();
    for cut in 0..bytes.len() {
        let (first, second) = bytes.split_at(cut);
        received_in_pieces(&[first, second]).0.unwrap();
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    received_in_pieces(&single).0.unwrap();
}

#[test]
fn another_call_is_told_from_garbage() {
    let mut other = messages();
    other[16] ^= 1;
    assert!(matches!(
        received(&other).0,
        Err(Interruption::Mismatch { peer: 1, .. })
    ));
    let mut garbage = messages();
    garbage[0] ^= 1;
    assert!(matches!(
        received(&garbage).0,
        Err(Interruption::Garbage { peer: 1 })
    ));
    // TCP lends nothing, whatever a header says.
    let mut lent = messages();
    lent[9] = 1;
    assert!(matches!(
        received(&lent).0,
        Err(Interruption::Link { peer: 1, .. })
    ));
    let cut = &messages()[..60];
    assert!(matches!(
        received(cut).0,
        Err(Interruption::Link { peer: 1, .. })
    ));
}

#[test]
fn damaged_messages_are_an_error_or_numbers() {
    let sound = messages();
    let mut refused = 0;
    // Each takes a connection.
    for case in 0..fuzzing::cases() / 10 {
        let bytes = Random::new(case).damage(&sound);
        refused += u64::from(received(&bytes).0.is_err());
    }
    assert!(refused > fuzzing::cases() / 100, "{refused}");
}

#[cfg(feature = "tls")]
#[test]
fn messages_take_turns_on_several_encrypted_lanes() {
    use crate::transport::tls_testing::lanes;

    const MANY: usize = 300_007;
    let mut links: [Link; 2] = [Vec::new(), Vec::new()];
    for _ in 0..3 {
        for (link, lane) in links.iter_mut().zip(lanes()) {
            link.push(Box::new(lane));
        }
    }
    let ranks = links.into_iter().enumerate().map(|(rank, link)| {
        std::thread::spawn(move || {
            let call = Call {
                count: MANY as u64,
                ..header(0).call
            };
            let parts = partition(MANY, 2);
            let shape = Shape {
                rank,
                call,
                parts: &parts,
                segment: 1_021,
                ranks_of_host: None,
            };
            let plan = Plan::new(&shape, Algorithm::Direct);
            let mut links = vec![Vec::new(), Vec::new()];
            links[1 - rank] = link;
            let mut buffer: Vec<f32> = (0..MANY).map(|i| (i * (rank + 1)) as f32).collect();
            let mut scratch = vec![0f32; plan.scratch];
            let work = Work {
                plan: &plan,
                header: Header { call, ..header(0) },
                element: ElementType::F32,
                ranks: 2,
                buffer: bytemuck::cast_slice_mut(&mut buffer),
                scratch: bytemuck::cast_slice_mut(&mut scratch),
            };
            execute(work, &mut links, Poll::Block, None, &Nobody).unwrap();
            assert!(
                buffer
                    .iter()
                    .enumerate()
                    .all(|(i, sum)| *sum == i as f32 + (2 * i) as f32)
            );
        })
    });
    let ranks: Vec<_> = ranks.collect();
    ranks.into_iter().for_each(|rank| rank.join().unwrap());
}

/// Takes all at once, and passes it on later.
struct Later {
    socket: TcpStream,
    /// Looks until all has left.
    looks: Arc<AtomicUsize>,
}

impl Lane for Later {
    fn send(&mut self, parts: &[IoSlice<'_>]) -> Result<usize, LaneError> {
        Ok(parts.iter().map(|part| part.len()).sum())
    }

    fn flush(&mut self) -> Result<bool, LaneError> {
        let before = self.looks.load(Ordering::Relaxed);
        self.looks
            .store(before.saturating_sub(1), Ordering::Relaxed);
        Ok(before == 0)
    }

    fn fill(&mut self, _most: usize) -> Result<usize, LaneError> {
        Ok(0)
    }

    fn peek(&self) -> &[u8] {
        &[]
    }

    fn consume(&mut self, _count: usize) {}

    fn receive(&mut self, _into: &mut [u8]) -> Result<usize, LaneError> {
        Ok(0)
    }

    fn readiness(&self) -> Readiness<'_> {
        Readiness::Descriptor(self.socket.as_fd())
    }

    fn transport(&self) -> Transport {
        Transport::Tcp
    }
}

#[test]
fn an_operation_is_over_when_all_has_left() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let looks = Arc::new(AtomicUsize::new(100));
    let lane = Later {
        socket: TcpStream::connect(listener.local_addr().unwrap()).unwrap(),
        looks: looks.clone(),
    };
    let call = Call {
        operation: Operation::Broadcast,
        reduction: None,
        root: Some(0),
        ..header(0).call
    };
    let parts = partition(COUNT, 2);
    let shape = Shape {
        rank: 0,
        call,
        parts: &parts,
        segment: COUNT,
        ranks_of_host: None,
    };
    let plan = Plan::new(&shape, Algorithm::Tree);
    let mut buffer = [1f32; COUNT];
    let work = Work {
        plan: &plan,
        header: Header { call, ..header(0) },
        element: ElementType::F32,
        ranks: 2,
        buffer: bytemuck::cast_slice_mut(&mut buffer),
        scratch: &mut [],
    };
    let mut links: Vec<Link> = vec![Vec::new(), vec![Box::new(lane)]];
    let began = Instant::now();
    execute(work, &mut links, Poll::Block, None, &Nobody).unwrap();
    assert_eq!(looks.load(Ordering::Relaxed), 0);
    // The socket can be written all the time. Who did not wait for that would sleep 20 ms between two looks.
    assert!(began.elapsed() < Duration::from_millis(1_500));
}

/// Counts how often a rank has woken up for nothing.
#[derive(Default)]
struct Wakings(AtomicUsize);

impl Watch for Wakings {
    fn waiting(&self, _peers: &[usize]) -> Result<(), Interruption> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn who_waits_for_one_rank_is_not_kept_awake_by_what_another_has_sent() {
    // More than a window holds, and at hand long before the other rank says anything.
    const MANY: usize = 300_000;
    const PAUSE: Duration = Duration::from_millis(400);
    let call = Call {
        count: MANY as u64,
        ..header(0).call
    };
    let parts = partition(MANY, 3);
    for late in [1, 2] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut links: Vec<Link> = vec![Vec::new()];
        let mut writers = Vec::new();
        for rank in [1, 2] {
            let mut other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let stream = listener.accept().unwrap().0;
            let lane = TcpLane::new(stream, Duration::from_secs(5)).unwrap();
            links.push(vec![Box::new(lane)]);
            let mut sink = other.try_clone().unwrap();
            writers.push(std::thread::spawn(move || {
                io::copy(&mut sink, &mut io::sink())
            }));
            let parts = parts.clone();
            writers.push(std::thread::spawn(move || {
                if rank == late {
                    std::thread::sleep(PAUSE);
                }
                for part in [&parts[0], &parts[rank]] {
                    let payload = vec![2f32; part.len()];
                    let payload: &[u8] = bytemuck::cast_slice(&payload);
                    let head = Header {
                        call,
                        ..header(payload.len())
                    };
                    other.write_all(&head.encode())?;
                    other.write_all(payload)?;
                    other.write_all(&[0; 8][..filling(payload.len())])?;
                }
                Ok(0)
            }));
        }
        let shape = Shape {
            rank: 0,
            call,
            parts: &parts,
            segment: MANY,
            ranks_of_host: None,
        };
        let plan = Plan::new(&shape, Algorithm::Direct);
        let mut buffer = vec![1f32; MANY];
        let work = Work {
            plan: &plan,
            header: Header { call, ..header(0) },
            element: ElementType::F32,
            ranks: 3,
            buffer: bytemuck::cast_slice_mut(&mut buffer),
            scratch: &mut [],
        };
        let wakings = Wakings::default();
        execute(work, &mut links, Poll::Block, None, &wakings).unwrap();
        drop(links);
        for writer in writers {
            // It may find the connection closed, since all was taken.
            let _ = writer.join().unwrap();
        }
        assert!(buffer[parts[0].clone()].iter().all(|sum| *sum == 5.0));
        // It wakes up every 20 ms to look whether the operation has failed, and when bytes have come.
        let wakings = wakings.0.into_inner();
        assert!(wakings < 200, "rank {late} late: {wakings}");
    }
}
