//! Memory that is lent, and taken back.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::net::{TcpListener, TcpStream};

use super::tests::header;
use super::*;
use crate::collective::call::{Call, Operation};
use crate::collective::choice::Algorithm;
use crate::collective::plan::{Shape, partition};
use crate::collective::reduction::Reduction;
use crate::transport::{Inbox, SharedMemoryLane};
use crate::world::Buffer;

/// Says at once that the operation has failed elsewhere.
struct Failed;

impl Watch for Failed {
    fn waiting(&self, _peers: &[usize]) -> Result<(), Interruption> {
        Err(Interruption::Waiting(io::ErrorKind::Other.into()))
    }
}

/// What rank 1 gets of an operation in which rank 0 has lent its data, and failed.
fn after_a_failure_of_the_lender(operation: Operation, algorithm: Algorithm) -> Interruption {
    const MANY: usize = 100_000;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let sockets = [socket, listener.accept().unwrap().0];
    let inboxes = [(); 2].map(|()| Inbox::create(1, true).unwrap());
    let mut links = [0, 1].map(|rank| {
        let socket = sockets[rank].try_clone().unwrap();
        let offer = inboxes[1 - rank].offer();
        let mut lane = SharedMemoryLane::new(&inboxes[rank], 0, offer, 0, socket).unwrap();
        assert!(lane.borrows());
        lane.allow_loans();
        let mut links: Vec<Link> = vec![Vec::new(), Vec::new()];
        links[1 - rank].push(Box::new(lane));
        links
    });
    let reduces = operation == Operation::AllReduce;
    let call = Call {
        operation,
        count: MANY as u64,
        reduction: reduces.then_some(Reduction::Sum),
        root: (!reduces).then_some(0),
        ..header(0).call
    };
    let parts = partition(MANY, 2);
    let mut run = |rank: usize| {
        let shape = Shape {
            rank,
            call,
            parts: &parts,
            segment: MANY,
            ranks_of_host: None,
        };
        let plan = Plan::new(&shape, algorithm);
        let heap = inboxes[rank].heap().unwrap();
        let mut buffer = Buffer::<f32>::of(heap, MANY).unwrap();
        let header = Header {
            call,
            algorithm,
            ..header(0)
        };
        let work = Work {
            plan: &plan,
            header,
            element: ElementType::F32,
            ranks: 2,
            buffer: bytemuck::cast_slice_mut(&mut buffer),
            scratch: &mut [],
        };
        let doorbell = inboxes[rank].doorbell();
        execute(
            work,
            &mut links[rank],
            Poll::Block,
            Some(&doorbell),
            &Failed,
        )
    };
    // It lends, waits, and fails; then its memory is its program's again. The other finds all that it needs at hand.
    run(0).unwrap_err();
    run(1).unwrap_err()
}

#[test]
fn what_a_rank_has_lent_and_has_back_after_a_failure_is_not_taken_for_what_it_lent() {
    for (operation, algorithm) in [
        (Operation::AllReduce, Algorithm::Direct),
        (Operation::Broadcast, Algorithm::Tree),
    ] {
        let late = after_a_failure_of_the_lender(operation, algorithm);
        let error = match late {
            Interruption::Link { peer: 0, error } => error,
            other => panic!("{operation}: {other:?}"),
        };
        assert!(matches!(error, LaneError::Revoked), "{operation}: {error}");
    }
}
