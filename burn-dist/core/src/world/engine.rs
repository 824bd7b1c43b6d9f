//! The connections of a rank, and the memory that operations need on the way.

use std::io;
use std::ops::Range;

use super::buffer::Buffer;
use crate::collective::executor::{Interruption, Link, Watch, Work, execute};
use crate::collective::plan::{Plan, Shape};
use crate::collective::{Algorithm, Call, Element, ElementType, Header, Topology};
use crate::host::Bytes;
use crate::transport::{Doorbell, Poll};

/// Bytes of a message, at most: what is under way between two ranks stays in their caches (measured from 64 KiB to
/// 1 MiB by the example `allreduce`).
const SEGMENT: usize = 512 << 10;

/// One operation of an engine.
pub(super) struct Task<'a> {
    pub call: Call,
    pub algorithm: Algorithm,
    pub group: u32,
    pub sequence: u64,
    pub parts: &'a [Range<usize>],
}

/// Carries operations out, one after the other.
pub(super) struct Engine {
    pub rank: usize,
    pub topology: Topology,
    pub links: Vec<Link>,
    /// Of this rank, where it shares memory with others.
    pub doorbell: Option<Doorbell>,
    pub poll: Poll,
    scratch: Buffer<u8>,
    wide: Buffer<f32>,
}

impl Engine {
    pub fn new(
        rank: usize,
        topology: Topology,
        links: Vec<Link>,
        doorbell: Option<Doorbell>,
        poll: Poll,
    ) -> io::Result<Self> {
        Ok(Self {
            rank,
            topology,
            links,
            doorbell,
            poll,
            scratch: Buffer::new(0)?,
            wide: Buffer::new(0)?,
        })
    }

    /// Carries an operation out on `buffer`.
    pub fn run(
        &mut self,
        task: &Task<'_>,
        buffer: &mut [u8],
        watch: &dyn Watch,
    ) -> Result<(), Interruption> {
        let element = task.call.element;
        let halves = matches!(element, ElementType::F16 | ElementType::BF16);
        let wide = halves && task.call.reduction.is_some() && task.algorithm.sends_sums();
        if !wide || self.topology.ranks == 1 {
            return self.run_as(element, task, buffer, watch);
        }
        // Sums of halves that go over the wire are not rounded on their way.
        let count = buffer.len() / element.size();
        let mut sums = std::mem::replace(&mut self.wide, on_the_way(0)?);
        if sums.len() < count {
            sums = on_the_way(count)?;
        }
        let values = &mut sums[..count];
        match element {
            ElementType::F16 => widen::<half::f16>(buffer, values),
            _ => widen::<half::bf16>(buffer, values),
        }
        let outcome = self.run_as(
            ElementType::F32,
            task,
            bytemuck::cast_slice_mut(values),
            watch,
        );
        match element {
            ElementType::F16 => narrow::<half::f16>(values, buffer),
            _ => narrow::<half::bf16>(values, buffer),
        }
        self.wide = sums;
        outcome
    }

    fn run_as(
        &mut self,
        element: ElementType,
        task: &Task<'_>,
        buffer: &mut [u8],
        watch: &dyn Watch,
    ) -> Result<(), Interruption> {
        let shape = Shape {
            rank: self.rank,
            call: task.call,
            parts: task.parts,
            segment: SEGMENT / element.size(),
            ranks_of_host: self.topology.ranks_of_host,
        };
        let plan = Plan::new(&shape, task.algorithm);
        let scratch = plan.scratch * element.size();
        if self.scratch.len() < scratch {
            self.scratch = on_the_way(scratch)?;
        }
        let work = Work {
            plan: &plan,
            header: Header {
                call: task.call,
                algorithm: task.algorithm,
                lent: false,
                group: task.group,
                sequence: task.sequence,
                bytes: 0,
            },
            element,
            ranks: self.topology.ranks,
            buffer,
            scratch: &mut self.scratch,
        };
        execute(
            work,
            &mut self.links,
            self.poll,
            self.doorbell.as_ref(),
            watch,
        )
    }
}

fn widen<T: Element<Accumulator = f32>>(halves: &[u8], values: &mut [f32]) {
    let halves = bytemuck::cast_slice::<u8, T>(halves);
    let pairs = values.iter_mut().zip(halves);
    pairs.for_each(|(value, half)| *value = half.wide());
}

fn narrow<T: Element<Accumulator = f32>>(values: &[f32], halves: &mut [u8]) {
    let halves = bytemuck::cast_slice_mut::<u8, T>(halves);
    let pairs = halves.iter_mut().zip(values);
    pairs.for_each(|(half, value)| *half = T::rounded(*value));
}

/// Memory for what is between the data of the program and the wire.
fn on_the_way<T: Element>(count: usize) -> Result<Buffer<T>, Interruption> {
    Buffer::new(count).map_err(|error| {
        let bytes = Bytes((count * size_of::<T>()) as u64);
        let reason = format!("no memory for {bytes} on the way: {error}");
        Interruption::Waiting(io::Error::new(error.kind(), reason))
    })
}
