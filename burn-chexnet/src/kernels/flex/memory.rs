//! Tensors of Burn's CPU backend as slices, and tensors on memory that is used again.

use std::mem::MaybeUninit;
use std::slice::{from_raw_parts, from_raw_parts_mut};

use burn::backend::TensorMetadata;
use burn::backend::flex::{FlexTensor, Layout};
use burn::tensor::{DType, Shape};
use burn_std::{AccessError, AccessPolicy, AllocationController, AllocationProperty, Bytes};

use super::super::cpu::matrix::Shared;
use super::super::cpu::memory::{ALIGNMENT, Memory};

/// Memory of a tensor, which is used again when the tensor is gone.
struct Reused(Memory);

impl AllocationController for Reused {
    fn alloc_align(&self) -> usize {
        ALIGNMENT
    }

    fn property(&self) -> AllocationProperty {
        AllocationProperty::Other
    }

    unsafe fn memory_mut(
        &mut self,
        _: AccessPolicy,
    ) -> Result<&mut [MaybeUninit<u8>], AccessError> {
        let bytes = size_of_val(&*self.0);
        // SAFETY: the bytes of the floats, which are `self`'s own; the caller writes initialised ones.
        Ok(unsafe { from_raw_parts_mut(self.0.start().cast(), bytes) })
    }

    fn memory(&self, _: AccessPolicy) -> Result<&[MaybeUninit<u8>], AccessError> {
        let bytes = size_of_val(&*self.0);
        // SAFETY: the bytes of the floats, which live as long as `self`.
        Ok(unsafe { from_raw_parts(self.0.start().cast_const().cast(), bytes) })
    }
}

/// A tensor on `memory`.
fn tensor(memory: Memory, layout: Layout) -> FlexTensor {
    let bytes = size_of_val(&*memory);
    debug_assert_eq!(bytes, layout.num_elements() * size_of::<f32>());
    // SAFETY: the controller has so many bytes, all of them initialised.
    let bytes = unsafe { Bytes::from_controller(Box::new(Reused(memory)), bytes) };
    FlexTensor::new(bytes, layout, DType::F32)
}

/// A tensor of the shape, its axes in order.
pub(super) fn in_order(memory: Memory, shape: impl Into<Shape>) -> FlexTensor {
    tensor(memory, Layout::contiguous(shape.into()))
}

/// `[batch, channels, height, width]` of channels that lie last in memory.
pub(super) fn map_layout([batch, channels, height, width]: [usize; 4]) -> Layout {
    let strides = [height * width * channels, 1, width * channels, channels];
    Layout::new(
        Shape::from([batch, channels, height, width]),
        strides.map(|stride| stride as isize).to_vec(),
        0,
    )
}

pub(super) fn map(memory: Memory, shape: [usize; 4]) -> FlexTensor {
    tensor(memory, map_layout(shape))
}

/// The tensor as its floats lie in order; a copy only if they do not.
pub(super) fn ordered(tensor: FlexTensor) -> FlexTensor {
    if tensor.is_contiguous() {
        tensor
    } else {
        tensor.to_contiguous()
    }
}

/// A feature map with its channels last in memory, `[batch, height, width, channels]`.
pub(super) fn channels_last(tensor: FlexTensor) -> FlexTensor {
    let layout = tensor.layout();
    let ([batch, channels, height, width], strides) = (tensor.shape().dims(), layout.strides());
    let turned = Layout::new(
        Shape::from([batch, height, width, channels]),
        [0, 2, 3, 1].map(|axis| strides[axis]).to_vec(),
        layout.start_offset(),
    );
    ordered(tensor.with_layout(turned))
}

/// The floats of an ordered tensor.
pub(super) fn floats(tensor: &FlexTensor) -> &[f32] {
    let Some(floats) = tensor.as_slice() else {
        unreachable!("only ordered tensors of 32 bit come here");
    };
    floats
}

/// The floats of a block's buffer, to write where the tape has it too.
///
/// # Safety
///
/// The tensor was made by [`tensor`], and nothing else uses its memory meanwhile.
pub(super) unsafe fn writable<'a>(buffer: &FlexTensor) -> Shared<'a> {
    let address = buffer.bytes().as_ptr().addr();
    let start = std::ptr::with_exposed_provenance_mut(address);
    let floats = buffer.bytes().len() / size_of::<f32>();
    // SAFETY: `Memory::start` exposed the provenance, and the caller vouches for the rest.
    unsafe { Shared::from_raw(start, floats) }
}

/// A tensor with the same floats, which is written in place if nobody else has it.
pub(super) fn own(tensor: FlexTensor) -> FlexTensor {
    let mut tensor = ordered(tensor);
    let whole = tensor.layout().start_offset() == 0
        && tensor.bytes().len() == tensor.layout().num_elements() * size_of::<f32>();
    if whole && tensor.try_storage_mut::<f32>().is_some() {
        return tensor;
    }
    let mut memory = Memory::take(tensor.layout().num_elements());
    memory.copy_from_slice(floats(&tensor));
    in_order(memory, tensor.shape())
}

/// The floats of a tensor that [`own`] returned.
pub(super) fn own_floats(tensor: &mut FlexTensor) -> &mut [f32] {
    tensor.storage_mut()
}
