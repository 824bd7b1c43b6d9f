//! The connections of a rank, and the memory that operations need on the way.

use std::io;
use std::ops::Range;

use half::slice::HalfFloatSliceExt;

use super::buffer::Buffer;
use crate::collective::executor::{Interruption, Link, Watch, Work, execute};
use crate::collective::plan::{Plan, Shape};
use crate::collective::{Algorithm, Call, ElementType, Header, Topology};
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
        let mut sums = std::mem::replace(&mut self.wide, empty()?);
        if sums.len() < count {
            sums = Buffer::new(count).map_err(Interruption::Waiting)?;
        }
        let values = &mut sums[..count];
        match element {
            ElementType::F16 => {
                bytemuck::cast_slice::<u8, half::f16>(buffer).convert_to_f32_slice(values);
            }
            _ => bytemuck::cast_slice::<u8, half::bf16>(buffer).convert_to_f32_slice(values),
        }
        let outcome = self.run_as(
            ElementType::F32,
            task,
            bytemuck::cast_slice_mut(values),
            watch,
        );
        match element {
            ElementType::F16 => {
                bytemuck::cast_slice_mut::<u8, half::f16>(buffer).convert_from_f32_slice(values);
            }
            _ => bytemuck::cast_slice_mut::<u8, half::bf16>(buffer).convert_from_f32_slice(values),
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
            self.scratch = Buffer::new(scratch).map_err(Interruption::Waiting)?;
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

fn empty() -> Result<Buffer<f32>, Interruption> {
    Buffer::new(0).map_err(Interruption::Waiting)
}
