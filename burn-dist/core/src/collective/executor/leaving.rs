//! Messages that are sent or lent.

use std::io::IoSlice;

use super::{Execution, Header, Interruption, LENT, Link, Plan, filling};
use crate::collective::plan::Outgoing;

/// Messages that leave by one lane.
pub(super) struct Leaving {
    pub peer: usize,
    pub lane: usize,
    /// Indices in the plan, in order.
    pub messages: Vec<usize>,
    pub next: usize,
    /// Bytes of the next that have left.
    sent: usize,
    /// Where the next is lent, if it is and has been begun.
    loan: Option<u64>,
    /// The lane has passed on all that it has taken.
    pub is_flushed: bool,
}

/// The messages of each lane: those to a rank take turns.
pub(super) fn of(plan: &Plan, links: &[Link]) -> Vec<Leaving> {
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
                is_flushed: true,
            }),
        }
    }
    leaving
}

impl Execution<'_, '_> {
    /// Sends what may go; whether anything has.
    pub(super) fn send(&mut self) -> Result<bool, Interruption> {
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
            let leaving = &mut self.leaving[index];
            let peer = leaving.peer;
            let flushed = self.links[peer][leaving.lane].flush();
            leaving.is_flushed = flushed.map_err(|error| Interruption::Link { peer, error })?;
        }
        Ok(moved)
    }

    /// The message that a lane has to send, if its steps are done, and how much of it is sent.
    pub(super) fn next_to_send(&self, index: usize) -> Option<(Outgoing, usize)> {
        let leaving = &self.leaving[index];
        let message = self.work.plan.outgoing[*leaving.messages.get(leaving.next)?];
        (message.after <= self.done).then_some((message, leaving.sent))
    }
}
