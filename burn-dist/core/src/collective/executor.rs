//! Carries a plan out over lanes.
//!
//! One loop: send what may go, take what has arrived, and wait when neither moves. Messages and steps are worked off in
//! pieces, so that a reduction begins before its messages are complete.
//!
//! Knows of a transport only what a [`Lane`] offers, and of failures elsewhere only what [`Watch`] says.

use std::io::{self, IoSlice};

use super::call::Header;
use super::element::{Element, ElementType};
use super::plan::{Area, Outgoing, Plan, Source, Span, Step};
use super::reduction::{Operand, Reduction};
use crate::supervision::CollectiveError;
use crate::transport::{Doorbell, Interest, Lane, LaneError, Poll, WINDOW, Waiting};

/// Bytes of a reduction that are worked off at a time, at least: less would not be worth a call.
const PIECE: usize = 16 << 10;
/// Up to this many bytes a message is taken from the lane whole, instead of header and content one after the other.
const SMALL: usize = 4 << 10;

/// Messages from this size on are lent, where the peer can read them in place: below, a copy is as fast.
pub(crate) const LENT: usize = 16 << 10;
/// Bytes that say where something is that is lent.
const PLACE: usize = 8;

/// The connections of a rank to another.
pub(crate) type Link = Vec<Box<dyn Lane>>;

/// Whether an operation that waits has failed elsewhere, or is late.
pub(crate) trait Watch {
    /// Told from time to time while nothing moves, with the ranks that are waited for.
    ///
    /// # Errors
    ///
    /// If there is nothing to wait for any more.
    fn waiting(&self, peers: &[usize]) -> Result<(), Interruption>;
}

/// Why an operation did not end.
#[derive(Debug)]
pub(crate) enum Interruption {
    /// The connection to a rank has ended.
    Link { peer: usize, error: LaneError },
    /// A rank has called something else.
    Mismatch { peer: usize, theirs: Box<Header> },
    /// What a rank sends is no message.
    Garbage { peer: usize },
    /// [`Watch`] has said so.
    Watch(Box<CollectiveError>),
    /// The system cannot wait.
    Waiting(io::Error),
}

/// What an operation works on.
pub(crate) struct Work<'a> {
    pub plan: &'a Plan,
    /// The head of all its messages; their bytes are filled in.
    pub header: Header,
    /// The type that goes over the wire.
    pub element: ElementType,
    /// Divides a mean.
    pub ranks: usize,
    pub buffer: &'a mut [u8],
    pub scratch: &'a mut [u8],
}

impl Work<'_> {
    fn bytes(&self, span: Span) -> &[u8] {
        let size = self.element.size();
        let range = span.start * size..(span.start + span.count) * size;
        match span.area {
            Area::Buffer => &self.buffer[range],
            Area::Scratch => &self.scratch[range],
        }
    }
}

/// An operation under way.
struct Execution<'a, 'b> {
    work: Work<'a>,
    links: &'b mut [Link],
    leaving: Vec<Leaving>,
    /// Messages that have arrived from each rank, complete.
    arrived: Vec<usize>,
    done: usize,
    step: Progress,
}

/// Messages that leave by one lane.
struct Leaving {
    peer: usize,
    lane: usize,
    /// Indices in the plan, in order.
    messages: Vec<usize>,
    next: usize,
    /// Bytes of the next that have left.
    sent: usize,
    /// Where the next is lent, if it is and has been begun.
    loan: Option<u64>,
}

/// How far a step is.
#[derive(Default)]
struct Progress {
    /// Messages whose headers were read, and then those that were given back or whose filling was skipped.
    passed: usize,
    /// Of each whose header was read: where it is lent, if it is.
    loans: Vec<Option<u64>>,
    /// Bytes that are done.
    bytes: usize,
}

/// Carries `work` out.
pub(crate) fn execute(
    work: Work<'_>,
    links: &mut [Link],
    poll: Poll,
    doorbell: Option<&Doorbell>,
    watch: &dyn Watch,
) -> Result<(), Interruption> {
    let mut execution = Execution {
        leaving: leaving(work.plan, links),
        arrived: vec![0; links.len()],
        work,
        links,
        done: 0,
        step: Progress::default(),
    };
    let mut waiting = Waiting::new(poll);
    loop {
        let sent = execution.send()?;
        let taken = execution.take()?;
        if execution.is_over() {
            return Ok(());
        }
        if sent || taken {
            waiting.over();
            continue;
        }
        if waiting.looks_again() {
            continue;
        }
        let interests = execution.interests();
        let lanes = interests.iter().map(|(peer, lane, interest)| {
            let lane: &dyn Lane = execution.links[*peer][*lane].as_ref();
            (lane, *interest)
        });
        waiting
            .wait(lanes, doorbell)
            .map_err(Interruption::Waiting)?;
        let awaited =
            |(peer, _, interest): &(usize, usize, Interest)| interest.arrival.then_some(*peer);
        watch.waiting(&interests.iter().filter_map(awaited).collect::<Vec<_>>())?;
        for (peer, lane, _) in interests {
            let open = execution.links[peer][lane].check();
            open.map_err(|error| Interruption::Link { peer, error })?;
        }
    }
}

/// The messages of each lane: those to a rank take turns.
fn leaving(plan: &Plan, links: &[Link]) -> Vec<Leaving> {
    let mut leaving: Vec<Leaving> = Vec::new();
    let mut counts = vec![0; links.len()];
    for (index, Outgoing { peer, .. }) in plan.outgoing.iter().enumerate() {
        let lane = counts[*peer] % links[*peer].len();
        counts[*peer] += 1;
        let known = leaving
            .iter_mut()
            .find(|l| (l.peer, l.lane) == (*peer, lane));
        match known {
            Some(known) => known.messages.push(index),
            None => leaving.push(Leaving {
                peer: *peer,
                lane,
                messages: vec![index],
                next: 0,
                sent: 0,
                loan: None,
            }),
        }
    }
    leaving
}

/// Bytes that fill a message up, so that what follows is aligned.
fn filling(bytes: usize) -> usize {
    bytes.next_multiple_of(8) - bytes
}

impl Execution<'_, '_> {
    fn is_over(&self) -> bool {
        let all_sent = self.leaving.iter().all(|l| l.next == l.messages.len());
        let all_done = all_sent && self.done == self.work.plan.steps.len();
        let lane = |leaving: &Leaving| self.links[leaving.peer][leaving.lane].is_paid_back();
        all_done && self.leaving.iter().all(lane)
    }

    /// Sends what may go; whether anything has.
    fn send(&mut self) -> Result<bool, Interruption> {
        let mut moved = false;
        for index in 0..self.leaving.len() {
            while let Some((message, sent)) = self.next_to_send(index) {
                let payload = self.work.bytes(message.from);
                let Leaving { peer, lane, .. } = self.leaving[index];
                let lane = &mut self.links[peer][lane];
                let leaving = &mut self.leaving[index];
                if sent == 0 && leaving.loan.is_none() && payload.len() >= LENT {
                    leaving.loan = lane.lend(payload);
                }
                let header = Header {
                    bytes: payload.len() as u32,
                    lent: leaving.loan.is_some(),
                    ..self.work.header
                }
                .encode();
                let place = leaving.loan.map(u64::to_le_bytes);
                let content = place.as_ref().map_or(payload, |place| place.as_slice());
                let parts = [&header, content, &[0; 8][..filling(content.len())]];
                let total: usize = parts.iter().map(|part| part.len()).sum();
                let mut skip = sent;
                let parts = parts.map(|part| {
                    let skipped = skip.min(part.len());
                    skip -= skipped;
                    IoSlice::new(&part[skipped..])
                });
                let taken = lane.send(&parts);
                let taken = taken.map_err(|error| Interruption::Link { peer, error })?;
                leaving.sent += taken;
                moved |= taken > 0;
                if leaving.sent < total {
                    break;
                }
                (leaving.sent, leaving.loan) = (0, None);
                leaving.next += 1;
            }
        }
        Ok(moved)
    }

    /// The message that a lane has to send, if its steps are done, and how much of it is sent.
    fn next_to_send(&self, index: usize) -> Option<(Outgoing, usize)> {
        let leaving = &self.leaving[index];
        let message = self.work.plan.outgoing[*leaving.messages.get(leaving.next)?];
        (message.after <= self.done).then_some((message, leaving.sent))
    }

    /// Goes on with the next step; whether anything has moved.
    fn take(&mut self) -> Result<bool, Interruption> {
        let plan = self.work.plan;
        let Some(step) = plan.steps.get(self.done) else {
            return Ok(false);
        };
        let (moved, complete) = match step {
            Step::Stage { from, to } => {
                let size = self.work.element.size();
                let from = from.start * size..(from.start + from.count) * size;
                let to = to.start * size..(to.start + to.count) * size;
                self.work.scratch[to].copy_from_slice(&self.work.buffer[from]);
                (true, true)
            }
            Step::Receive { peer, to } => self.receive(*peer, *to)?,
            Step::Reduce { sources, to, last } => self.reduce(sources, *to, *last)?,
        };
        if complete {
            self.done += 1;
            self.step = Progress::default();
        }
        Ok(moved)
    }

    /// The lane by which the next message of `peer` comes.
    fn arriving(&mut self, peer: usize) -> &mut dyn Lane {
        let lane = self.arrived[peer] % self.links[peer].len();
        self.links[peer][lane].as_mut()
    }

    /// Reads the header of the next message of `peer`, and where it is lent, if it is; whether it was there.
    fn read_header(&mut self, peer: usize, payload: usize) -> Result<bool, Interruption> {
        // Of a large message no more than that, so that its content goes to its place at once.
        let most = match payload {
            small if small <= SMALL => Header::SIZE + small + filling(small),
            _ => Header::SIZE,
        };
        let size = self.work.element.size() as u64;
        let expected = Header {
            bytes: payload as u32,
            ..self.work.header
        };
        let link = |error| Interruption::Link { peer, error };
        let lane = self.arriving(peer);
        if lane.fill(most).map_err(link)? < Header::SIZE {
            return Ok(false);
        }
        let header = lane.peek().first_chunk().and_then(Header::decode);
        let Some(header) = header else {
            return Err(Interruption::Garbage { peer });
        };
        let lent = header.lent;
        if (Header {
            lent: false,
            ..header
        }) != expected
        {
            return Err(Interruption::Mismatch {
                peer,
                theirs: Box::new(header),
            });
        }
        let mut loan = None;
        if lent {
            if lane.fill(Header::SIZE + PLACE).map_err(link)? < Header::SIZE + PLACE {
                return Ok(false);
            }
            let place = lane.peek()[Header::SIZE..].first_chunk();
            loan = place.map(|place| u64::from_le_bytes(*place));
            if loan.is_some_and(|place| !place.is_multiple_of(size)) {
                return Err(Interruption::Garbage { peer });
            }
            lane.consume(PLACE);
        }
        lane.consume(Header::SIZE);
        self.step.loans.push(loan);
        self.step.passed += 1;
        Ok(true)
    }

    /// Gives back what was borrowed of a message, or skips what fills it up; whether that was there.
    fn finish(&mut self, peer: usize, payload: usize, lent: bool) -> Result<bool, Interruption> {
        let filling = filling(payload);
        let lane = self.arriving(peer);
        if lent {
            lane.give_back();
        } else if filling > 0 {
            let at_hand = lane.fill(filling);
            if at_hand.map_err(|error| Interruption::Link { peer, error })? < filling {
                return Ok(false);
            }
            lane.consume(filling);
        }
        self.arrived[peer] += 1;
        self.step.passed += 1;
        Ok(true)
    }

    /// Writes the message of `peer` to `to`: whether anything has moved, and whether it is complete.
    fn receive(&mut self, peer: usize, to: Span) -> Result<(bool, bool), Interruption> {
        let payload = to.count * self.work.element.size();
        let mut moved = false;
        if self.step.passed == 0 {
            if !self.read_header(peer, payload)? {
                return Ok((false, false));
            }
            moved = true;
        }
        let loan = self.step.loans[0];
        let start = to.start * self.work.element.size();
        let lane = self.arrived[peer] % self.links[peer].len();
        let lane = &mut self.links[peer][lane];
        let memory = match to.area {
            Area::Buffer => &mut *self.work.buffer,
            Area::Scratch => &mut *self.work.scratch,
        };
        while self.step.bytes < payload {
            let into = &mut memory[start + self.step.bytes..start + payload];
            let received = match loan {
                Some(place) => lane.borrow(place, payload).map(|bytes| {
                    into.copy_from_slice(bytes);
                    payload
                }),
                None => lane.receive(into),
            };
            let count = received.map_err(|error| Interruption::Link { peer, error })?;
            if count == 0 {
                return Ok((moved, false));
            }
            self.step.bytes += count;
            moved = true;
        }
        let complete = self.finish(peer, payload, loan.is_some())?;
        Ok((moved || complete, complete))
    }

    /// Reduces what has arrived: whether anything has moved, and whether all is done.
    fn reduce(
        &mut self,
        sources: &[Source],
        to: Span,
        last: bool,
    ) -> Result<(bool, bool), Interruption> {
        let size = self.work.element.size();
        let payload = to.count * size;
        let peers = || {
            sources.iter().filter_map(|source| match source {
                Source::Peer(peer) => Some(*peer),
                Source::Own(_) => None,
            })
        };
        let mut moved = false;
        for peer in peers().skip(self.step.passed) {
            if !self.read_header(peer, payload)? {
                return Ok((moved, false));
            }
            moved = true;
        }
        while self.step.bytes < payload {
            let rest = payload - self.step.bytes;
            let mut ready = rest.min(WINDOW);
            for (index, peer) in peers().enumerate() {
                if self.step.loans[index].is_none() {
                    let at_hand = self.arriving(peer).fill(rest.min(WINDOW));
                    let at_hand = at_hand.map_err(|error| Interruption::Link { peer, error })?;
                    ready = ready.min(at_hand / size * size);
                }
            }
            // A piece, or what remains.
            if ready < rest.min(PIECE) {
                return Ok((moved, false));
            }
            self.reduce_piece(sources, to, last, ready)?;
            for (index, peer) in peers().enumerate() {
                if self.step.loans[index].is_none() {
                    self.arriving(peer).consume(ready);
                }
            }
            self.step.bytes += ready;
            moved = true;
        }
        let count = peers().count();
        for (index, peer) in peers().enumerate().skip(self.step.passed - count) {
            if !self.finish(peer, payload, self.step.loans[index].is_some())? {
                return Ok((moved, false));
            }
            moved = true;
        }
        Ok((moved, true))
    }

    /// Reduces `count` bytes more, which are at hand.
    fn reduce_piece(
        &mut self,
        sources: &[Source],
        to: Span,
        last: bool,
        count: usize,
    ) -> Result<(), Interruption> {
        let size = self.work.element.size();
        let done = self.step.bytes;
        let at = |span: Span| span.start * size + done..span.start * size + done + count;
        let mut loans = self.step.loans.iter();
        let mut operands: Vec<Operand<'_, u8>> = Vec::with_capacity(sources.len());
        for source in sources {
            operands.push(match source {
                Source::Own(span) if *span == to => Operand::Output,
                Source::Own(span) => Operand::Array(&self.work.scratch[at(*span)]),
                Source::Peer(peer) => {
                    let lane = self.arrived[*peer] % self.links[*peer].len();
                    let lane = &self.links[*peer][lane];
                    let bytes = match loans.next().copied().flatten() {
                        Some(place) => lane.borrow(place + done as u64, count),
                        None => Ok(&lane.peek()[..count]),
                    };
                    let bytes = bytes.map_err(|error| Interruption::Link { peer: *peer, error });
                    Operand::Array(bytes?)
                }
            });
        }
        let output = &mut self.work.buffer[at(to)];
        let ranks = last.then_some(self.work.ranks);
        // A plan with a reduction belongs to a call with one.
        let reduction = self.work.header.call.reduction.unwrap_or(Reduction::Sum);
        combine_bytes(reduction, self.work.element, &operands, output, ranks);
        Ok(())
    }

    /// What could let the operation go on.
    fn interests(&self) -> Vec<(usize, usize, Interest)> {
        let mut interests: Vec<(usize, usize, Interest)> = Vec::new();
        let mut add = |peer: usize, lane: usize, of: fn(&mut Interest) -> &mut bool| {
            let known = interests.iter().position(|i| (i.0, i.1) == (peer, lane));
            let index = known.unwrap_or_else(|| {
                interests.push((peer, lane, Interest::default()));
                interests.len() - 1
            });
            *of(&mut interests[index].2) = true;
        };
        for (index, leaving) in self.leaving.iter().enumerate() {
            if self.next_to_send(index).is_some() {
                add(leaving.peer, leaving.lane, |interest| &mut interest.room);
            } else if !self.links[leaving.peer][leaving.lane].is_paid_back() {
                add(leaving.peer, leaving.lane, |interest| &mut interest.loans);
            }
        }
        let mut arrives = |peer: usize| {
            let lane = self.arrived[peer] % self.links[peer].len();
            add(peer, lane, |interest| &mut interest.arrival);
        };
        match self.work.plan.steps.get(self.done) {
            Some(Step::Receive { peer, .. }) => arrives(*peer),
            Some(Step::Reduce { sources, .. }) => {
                for source in sources {
                    if let Source::Peer(peer) = source {
                        arrives(*peer);
                    }
                }
            }
            _ => {}
        }
        interests
    }
}

/// Reduces elements that are given as bytes, aligned as elements are.
fn combine_bytes(
    reduction: Reduction,
    element: ElementType,
    operands: &[Operand<'_, u8>],
    output: &mut [u8],
    ranks: Option<usize>,
) {
    fn of<T: Element>(
        reduction: Reduction,
        operands: &[Operand<'_, u8>],
        output: &mut [u8],
        ranks: Option<usize>,
    ) {
        let operands: Vec<Operand<'_, T>> = operands
            .iter()
            .map(|operand| match operand {
                Operand::Output => Operand::Output,
                Operand::Array(bytes) => Operand::Array(bytemuck::cast_slice(bytes)),
            })
            .collect();
        reduction.combine(&operands, bytemuck::cast_slice_mut(output), ranks);
    }
    let combine = match element {
        ElementType::F32 => of::<f32>,
        ElementType::F64 => of::<f64>,
        ElementType::F16 => of::<half::f16>,
        ElementType::BF16 => of::<half::bf16>,
        ElementType::I32 => of::<i32>,
        ElementType::I64 => of::<i64>,
        ElementType::U8 => of::<u8>,
    };
    combine(reduction, operands, output, ranks);
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Write;
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::time::Duration;

    use super::super::call::{Call, Operation};
    use super::super::choice::Algorithm;
    use super::super::plan::{Shape, partition};
    use super::*;
    use crate::fuzzing::{self, Random};
    use crate::transport::TcpLane;

    const COUNT: usize = 101;

    /// Nobody says that an operation has failed elsewhere.
    struct Nobody;

    impl Watch for Nobody {
        fn waiting(&self, _peers: &[usize]) -> Result<(), Interruption> {
            Ok(())
        }
    }

    fn header(bytes: usize) -> Header {
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
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let stream = listener.accept().unwrap().0;
        other.write_all(bytes).unwrap();
        other.shutdown(Shutdown::Write).unwrap();
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
        (
            execute(work, &mut links, Poll::Block, None, &Nobody),
            buffer,
        )
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
}
