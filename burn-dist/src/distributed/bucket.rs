//! Gradients in one piece of memory, on their way through an operation.

use burn::tensor::{DType, Shape, TensorData};
use burn_dist_core::collective::{Element, Reduction};
use burn_dist_core::{Buffer, Collective, Pending, World};
use half::{bf16, f16};

use super::{DistributedError, Wire};

/// The place of a gradient: a bucket, and its first element there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub bucket: usize,
    pub start: usize,
}

/// A bucket whose elements have any type.
pub(super) trait Bucket: Send {
    /// Adds `gradient` times `factor` at `start`.
    fn add(&mut self, start: usize, gradient: &TensorData, factor: f64) -> Result<(), String>;

    /// Gives the content to the world, for its sum over the ranks.
    fn start(&mut self, world: &World) -> Result<(), DistributedError>;

    /// Waits until the sum is there, if it has been started.
    fn wait(&mut self) -> Result<(), DistributedError>;

    /// A gradient of `shape` from `start`, times `factor`, as numbers of `dtype`.
    fn read(&self, start: usize, shape: Shape, factor: f64, dtype: DType) -> TensorData;

    /// Makes all elements zero.
    fn clear(&mut self);
}

/// A bucket of `elements` for gradients of `dtype`.
pub(super) fn bucket(
    world: &World,
    elements: usize,
    dtype: DType,
    wire: Wire,
) -> Result<Box<dyn Bucket>, DistributedError> {
    Ok(match (dtype, wire) {
        (DType::F16, _) | (DType::F32 | DType::F64, Wire::F16) => {
            Box::new(TypedBucket::<f16>::new(world, elements)?)
        }
        (DType::BF16, _) | (DType::F32 | DType::F64, Wire::Bf16) => {
            Box::new(TypedBucket::<bf16>::new(world, elements)?)
        }
        (DType::F64, Wire::Exact) => Box::new(TypedBucket::<f64>::new(world, elements)?),
        (DType::F32 | DType::Flex32, _) => Box::new(TypedBucket::<f32>::new(world, elements)?),
        (other, _) => {
            return Err(DistributedError::Option(format!(
                "parameters of {other:?} cannot be trained on several ranks: use f32, f64, f16 or bf16"
            )));
        }
    })
}

/// A number on the wire.
trait Number: Element {
    fn from_f64(value: f64) -> Self;
    fn to_f64(self) -> f64;
}

macro_rules! number {
    ($type:ty, $from:expr, $to:expr) => {
        impl Number for $type {
            fn from_f64(value: f64) -> Self {
                $from(value)
            }

            fn to_f64(self) -> f64 {
                $to(self)
            }
        }
    };
}

number!(f32, |value| value as f32, f64::from);
number!(f64, |value| value, |value| value);
number!(f16, f16::from_f64, f16::to_f64);
number!(bf16, bf16::from_f64, bf16::to_f64);

struct TypedBucket<T> {
    /// Away while an operation has it.
    content: Option<Buffer<T>>,
    pending: Option<Pending<T>>,
}

impl<T: Number> TypedBucket<T> {
    fn new(world: &World, elements: usize) -> Result<Self, DistributedError> {
        Ok(Self {
            content: Some(world.alloc(elements)?),
            pending: None,
        })
    }
}

impl<T: Number> Bucket for TypedBucket<T> {
    fn add(&mut self, start: usize, gradient: &TensorData, factor: f64) -> Result<(), String> {
        let Some(content) = &mut self.content else {
            return Err("its bucket has left already".to_owned());
        };
        let elements = gradient.num_elements();
        let to = content.get_mut(start..start + elements);
        let to = to.ok_or("it is larger than the parameter")?;
        match gradient.dtype() {
            DType::F32 | DType::Flex32 => add(to, gradient.as_slice::<f32>(), factor),
            DType::F64 => add(to, gradient.as_slice::<f64>(), factor),
            DType::F16 => add(to, gradient.as_slice::<f16>(), factor),
            DType::BF16 => add(to, gradient.as_slice::<bf16>(), factor),
            other => Err(format!("it has numbers of {other:?}")),
        }
    }

    fn start(&mut self, world: &World) -> Result<(), DistributedError> {
        if let Some(content) = self.content.take() {
            let sum = Collective::AllReduce(Reduction::Sum);
            self.pending = Some(world.start(sum, content)?);
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<(), DistributedError> {
        if let Some(pending) = self.pending.take() {
            self.content = Some(pending.wait()?);
        }
        Ok(())
    }

    fn read(&self, start: usize, shape: Shape, factor: f64, dtype: DType) -> TensorData {
        let content = self.content.as_deref().unwrap_or_default();
        let from = content.get(start..start + shape.num_elements());
        let from = from.unwrap_or_default();
        match dtype {
            DType::F64 => TensorData::new(read::<T, f64>(from, factor), shape),
            DType::F16 => TensorData::new(read::<T, f16>(from, factor), shape),
            DType::BF16 => TensorData::new(read::<T, bf16>(from, factor), shape),
            _ => TensorData::new(read::<T, f32>(from, factor), shape),
        }
    }

    fn clear(&mut self) {
        if let Some(content) = &mut self.content {
            content.fill(T::default());
        }
    }
}

fn add<T: Number, G: Number, E: std::fmt::Debug>(
    to: &mut [T],
    gradient: Result<&[G], E>,
    factor: f64,
) -> Result<(), String> {
    let gradient = gradient.map_err(|error| format!("{error:?}"))?;
    // Both in `f64`: exact for all but `f64`, which is what it is.
    for (to, gradient) in to.iter_mut().zip(gradient) {
        *to = T::from_f64(to.to_f64() + gradient.to_f64() * factor);
    }
    Ok(())
}

fn read<T: Number, G: Number>(from: &[T], factor: f64) -> Vec<G> {
    let numbers = from.iter();
    numbers
        .map(|number| G::from_f64(number.to_f64() * factor))
        .collect()
}
