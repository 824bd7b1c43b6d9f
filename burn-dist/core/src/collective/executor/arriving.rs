//! Steps, from messages as they come.

use super::numbers::combine_bytes;
use super::{Area, Execution, Header, Interruption, Lane, PLACE, Source, Span, Step, filling};
use crate::collective::reduction::{Operand, Reduction};
use crate::transport::WINDOW;

/// Bytes of a reduction that are worked off at a time, at least: less would not be worth a call.
const PIECE: usize = 16 << 10;
/// Up to this many bytes a message is taken from the lane whole, instead of header and content one after the other.
const SMALL: usize = 4 << 10;

/// How far a step is.
#[derive(Default)]
pub(super) struct Progress {
    /// Messages whose headers were read, and then those that were given back or whose filling was skipped.
    passed: usize,
    /// Of each whose header was read: where it is lent, if it is.
    loans: Vec<Option<u64>>,
    /// Bytes that are done.
    bytes: usize,
}

impl Execution<'_, '_> {
    /// Goes on with the next step; whether anything has moved.
    pub(super) fn take(&mut self) -> Result<bool, Interruption> {
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
}
