//! The numbers of a model, out of it, through the world, and into it again.

use std::collections::HashMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::{Bool, Int, Tensor, TensorData};
use burn_dist_core::World;
use burn_dist_core::collective::Reduction;

use super::DistributedError;
use super::layout::Layout;

/// `model` with all tensors of rank 0. Models have the same.
pub(super) fn broadcast<M: Module>(
    world: &World,
    layout: &Layout,
    model: M,
) -> Result<M, DistributedError> {
    let tensors = Taken::of(&model, layout, |_| true)?;
    let mut bytes = tensors.bytes();
    world.broadcast(&mut bytes, 0)?;
    Ok(tensors.with(&bytes)?.put_into(model))
}

/// What is not trained, as bytes.
pub(super) fn statistics<M: Module>(
    layout: &Layout,
    model: &M,
) -> Result<Vec<u8>, DistributedError> {
    Ok(Taken::statistics(model, layout)?.bytes())
}

/// `model` with what [`statistics`] has given.
pub(super) fn with_statistics<M: Module>(
    layout: &Layout,
    model: M,
    bytes: &[u8],
) -> Result<M, DistributedError> {
    let tensors = Taken::statistics(&model, layout)?;
    Ok(tensors.with(bytes)?.put_into(model))
}

/// `model` with the mean over the ranks of what is not trained. What is the same on all ranks stays as it is, to the last
/// bit; all ranks get the same bits.
pub(super) fn mean_of_ranks<M: Module>(
    world: &World,
    layout: &Layout,
    model: M,
) -> Result<M, DistributedError> {
    let mut tensors = Taken::statistics(&model, layout)?;
    let mut own: Vec<f64> = Vec::new();
    for data in &tensors.data {
        own.extend(data.iter::<f64>());
    }
    let mut first = own.clone();
    world.broadcast(&mut first, 0)?;
    let bits = own.iter().zip(&first);
    let mut differs: Vec<u8> = bits
        .map(|(own, first)| u8::from(own.to_bits() != first.to_bits()))
        .collect();
    world.all_reduce(&mut differs, Reduction::Max)?;
    let mut means = own;
    world.all_reduce(&mut means, Reduction::Mean)?;
    // A mean of equal numbers is that number, and not what their sum was rounded to.
    let mut means = means
        .into_iter()
        .zip(first)
        .zip(differs)
        .map(|((mean, first), differs)| if differs == 0 { first } else { mean });
    for data in &mut tensors.data {
        let numbers: Vec<f64> = means.by_ref().take(data.num_elements()).collect();
        *data = TensorData::new(numbers, data.shape().clone()).convert_dtype(data.dtype());
    }
    Ok(tensors.put_into(model))
}

/// Tensors that were taken out of a model.
struct Taken {
    ids: Vec<ParamId>,
    data: Vec<TensorData>,
}

impl Taken {
    /// Those of `model` that are wanted, in the order of its fields.
    fn of<M: Module>(
        model: &M,
        layout: &Layout,
        is_wanted: impl Fn(ParamId) -> bool,
    ) -> Result<Self, DistributedError> {
        let mut taking = Taking {
            taken: Self {
                ids: Vec::new(),
                data: Vec::new(),
            },
            is_wanted,
            error: None,
        };
        model.visit(&mut taking);
        match taking.error {
            None => Ok(taking.taken),
            Some((id, reason)) => {
                let index = layout.index(id);
                let tensor =
                    index.map_or_else(|| id.to_string(), |i| layout.entries[i].path.clone());
                Err(DistributedError::Unreadable { tensor, reason })
            }
        }
    }

    /// Those of `model` that are not trained.
    fn statistics<M: Module>(model: &M, layout: &Layout) -> Result<Self, DistributedError> {
        // A model in training holds back the newest running statistics, until somebody wants to evaluate it.
        drop(model.valid());
        Self::of(model, layout, |id| {
            let index = layout.index(id);
            index.is_some_and(|index| !layout.entries[index].is_trained)
        })
    }

    /// All numbers, one tensor after the other.
    fn bytes(&self) -> Vec<u8> {
        let all = self.data.iter().map(TensorData::as_bytes);
        all.collect::<Vec<_>>().concat()
    }

    /// The same tensors with other numbers.
    fn with(mut self, bytes: &[u8]) -> Result<Self, DistributedError> {
        let wanted = self.data.iter().map(|data| data.as_bytes().len()).sum();
        if bytes.len() != wanted {
            return Err(DistributedError::Statistics {
                found: bytes.len(),
                wanted,
            });
        }
        let mut rest = bytes;
        for data in &mut self.data {
            let (own, behind) = rest.split_at(data.as_bytes().len());
            *data = TensorData::from_bytes_vec(own.to_vec(), data.shape().clone(), data.dtype());
            rest = behind;
        }
        Ok(self)
    }

    /// `model` with these tensors in the place of its own.
    fn put_into<M: Module>(self, model: M) -> M {
        let mut putting = Putting(self.ids.into_iter().zip(self.data).collect());
        model.map(&mut putting)
    }
}

struct Taking<F> {
    taken: Taken,
    is_wanted: F,
    error: Option<(ParamId, String)>,
}

impl<F: Fn(ParamId) -> bool> Taking<F> {
    fn take(&mut self, id: ParamId, read: impl FnOnce() -> Result<TensorData, String>) {
        if !(self.is_wanted)(id) {
            return;
        }
        match read() {
            Ok(data) => {
                self.taken.ids.push(id);
                self.taken.data.push(data);
            }
            Err(reason) => drop(self.error.get_or_insert((id, reason))),
        }
    }
}

impl<F: Fn(ParamId) -> bool> ModuleVisitor for Taking<F> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let read = || param.base().try_into_data().map_err(|e| e.to_string());
        self.take(param.id, read);
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        let read = || param.base().try_into_data().map_err(|e| e.to_string());
        self.take(param.id, read);
    }

    fn visit_bool<const D: usize>(&mut self, param: &Param<Tensor<D, Bool>>) {
        let read = || param.base().try_into_data().map_err(|e| e.to_string());
        self.take(param.id, read);
    }
}

struct Putting(HashMap<ParamId, TensorData>);

impl ModuleMapper for Putting {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(data) = self.0.get(&param.id) else {
            return param;
        };
        let (id, value, mapper) = param.consume();
        let options = (&value.device(), data.dtype());
        let own = Tensor::from_data(data.clone(), options);
        let own = own.set_require_grad(value.is_require_grad());
        Param::from_mapped_value(id, own, mapper)
    }

    fn map_int<const D: usize>(&mut self, param: Param<Tensor<D, Int>>) -> Param<Tensor<D, Int>> {
        let Some(data) = self.0.get(&param.id) else {
            return param;
        };
        let (id, value, mapper) = param.consume();
        let options = (&value.device(), data.dtype());
        Param::from_mapped_value(id, Tensor::from_data(data.clone(), options), mapper)
    }

    fn map_bool<const D: usize>(
        &mut self,
        param: Param<Tensor<D, Bool>>,
    ) -> Param<Tensor<D, Bool>> {
        let Some(data) = self.0.get(&param.id) else {
            return param;
        };
        let (id, value, mapper) = param.consume();
        let options = (&value.device(), data.dtype());
        Param::from_mapped_value(id, Tensor::from_data(data.clone(), options), mapper)
    }
}
