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
    /// Its messages, in the order of its sources; none before the first look.
    messages: Vec<Message>,
    /// Messages that were given back, or whose filling was skipped.
    finished: usize,
    /// Bytes that are done.
    bytes: usize,
}

/// What is known of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Message {
    /// Its header has not come.
    Awaited,
    /// Its content comes behind the header.
    Sent,
    /// Its content is there.
    Lent(u64),
}

/// The ranks of which a reduction takes messages.
fn peers(sources: &[Source]) -> impl Iterator<Item = usize> {
    sources.iter().filter_map(|source| match source {
        Source::Peer(peer) => Some(*peer),
        Source::Own(_) => None,
    })
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

    /// The ranks without whose bytes the next step does not go on: not those whose bytes only have to be taken, for
    /// which nobody would sleep.
    pub(super) fn awaited(&self) -> Vec<usize> {
        let Progress {
            messages,
            finished,
            bytes,
        } = &self.step;
        let (sources, to) = match self.work.plan.steps.get(self.done) {
            Some(Step::Reduce { sources, to, .. }) => (sources, to),
            Some(Step::Receive { peer, .. }) => return vec![*peer],
            Some(Step::Stage { .. }) | None => return Vec::new(),
        };
        let rest = to.count * self.work.element.size() - bytes;
        let is_missing = |(index, peer): (usize, usize)| match messages.get(index) {
            None | Some(Message::Awaited) => true,
            _ if messages.contains(&Message::Awaited) => false,
            Some(Message::Sent) if rest > 0 => {
                let lane = self.arrived[peer] % self.links[peer].len();
                self.links[peer][lane].peek().len() < rest.min(PIECE)
            }
            Some(_) => rest == 0 && index == *finished,
        };
        let missing = peers(sources).enumerate().filter(|at| is_missing(*at));
        missing.map(|(_, peer)| peer).collect()
    }

    /// The lane by which the next message of `peer` comes.
    fn arriving(&mut self, peer: usize) -> &mut dyn Lane {
        let lane = self.arrived[peer] % self.links[peer].len();
        self.links[peer][lane].as_mut()
    }

    /// Reads the header of the next message of `peer`, if it is there.
    fn read_header(&mut self, peer: usize, payload: usize) -> Result<Message, Interruption> {
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
            return Ok(Message::Awaited);
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
        let mut message = Message::Sent;
        if lent {
            if lane.fill(Header::SIZE + PLACE).map_err(link)? < Header::SIZE + PLACE {
                return Ok(Message::Awaited);
            }
            let place = lane.peek()[Header::SIZE..].first_chunk();
            let place = place.map(|place| u64::from_le_bytes(*place));
            let place = place.filter(|place| place.is_multiple_of(size));
            message = Message::Lent(place.ok_or(Interruption::Garbage { peer })?);
            lane.consume(PLACE);
        }
        lane.consume(Header::SIZE);
        Ok(message)
    }

    /// Reads the headers of the messages of `peers` that have not come yet; whether any was there.
    fn read_headers(
        &mut self,
        peers: impl Iterator<Item = usize>,
        payload: usize,
    ) -> Result<bool, Interruption> {
        let mut moved = false;
        for (index, peer) in peers.enumerate() {
            if index == self.step.messages.len() {
                self.step.messages.push(Message::Awaited);
            }
            if self.step.messages[index] == Message::Awaited {
                let message = self.read_header(peer, payload)?;
                moved |= message != Message::Awaited;
                self.step.messages[index] = message;
            }
        }
        Ok(moved)
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
        self.step.finished += 1;
        Ok(true)
    }

    /// Writes the message of `peer` to `to`: whether anything has moved, and whether it is complete.
    fn receive(&mut self, peer: usize, to: Span) -> Result<(bool, bool), Interruption> {
        let payload = to.count * self.work.element.size();
        let mut moved = self.read_headers(std::iter::once(peer), payload)?;
        let message = self.step.messages[0];
        if message == Message::Awaited {
            return Ok((false, false));
        }
        let start = to.start * self.work.element.size();
        let lane = self.arrived[peer] % self.links[peer].len();
        let lane = &mut self.links[peer][lane];
        let memory = match to.area {
            Area::Buffer => &mut *self.work.buffer,
            Area::Scratch => &mut *self.work.scratch,
        };
        while self.step.bytes < payload {
            let into = &mut memory[start + self.step.bytes..start + payload];
            let received = match message {
                Message::Lent(place) => lane
                    .borrow(place, payload)
                    .map(|bytes| into.copy_from_slice(bytes))
                    .and_then(|()| lane.check_loans())
                    .map(|()| payload),
                _ => lane.receive(into),
            };
            let count = received.map_err(|error| Interruption::Link { peer, error })?;
            if count == 0 {
                return Ok((moved, false));
            }
            self.step.bytes += count;
            moved = true;
        }
        let complete = self.finish(peer, payload, message != Message::Sent)?;
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
        let mut moved = self.read_headers(peers(sources), payload)?;
        if self.step.messages.contains(&Message::Awaited) {
            return Ok((moved, false));
        }
        while self.step.bytes < payload {
            let rest = payload - self.step.bytes;
            let mut ready = rest.min(WINDOW);
            for (index, peer) in peers(sources).enumerate() {
                if self.step.messages[index] == Message::Sent {
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
            for (index, peer) in peers(sources).enumerate() {
                if self.step.messages[index] == Message::Sent {
                    self.arriving(peer).consume(ready);
                }
            }
            self.step.bytes += ready;
            moved = true;
        }
        for (index, peer) in peers(sources).enumerate().skip(self.step.finished) {
            if !self.finish(peer, payload, self.step.messages[index] != Message::Sent)? {
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
        let mut messages = self.step.messages.iter();
        let mut operands: Vec<Operand<'_, u8>> = Vec::with_capacity(sources.len());
        for source in sources {
            operands.push(match source {
                Source::Own(span) if *span == to => Operand::Output,
                Source::Own(span) => Operand::Array(&self.work.scratch[at(*span)]),
                Source::Peer(peer) => {
                    let lane = self.arrived[*peer] % self.links[*peer].len();
                    let lane = &self.links[*peer][lane];
                    let bytes = match messages.next() {
                        Some(Message::Lent(place)) => lane.borrow(place + done as u64, count),
                        _ => Ok(&lane.peek()[..count]),
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
        let lenders = peers(sources).zip(&self.step.messages);
        for (peer, _) in lenders.filter(|(_, message)| **message != Message::Sent) {
            let lane = self.arrived[peer] % self.links[peer].len();
            let lent = self.links[peer][lane].check_loans();
            lent.map_err(|error| Interruption::Link { peer, error })?;
        }
        Ok(())
    }
}
