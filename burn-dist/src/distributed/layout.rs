//! The tensors of a model by path, in the order of its fields: the same on all ranks, unlike the identifiers of
//! parameters, which are random numbers of a process.

use std::collections::HashMap;

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::tensor::{Bool, DType, Device, Int, Tensor};
use burn_dist_core::World;

use super::DistributedError;

/// A float tensor of a model.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Names of fields down to it, as `layers.0.weight`.
    pub path: String,
    pub shape: Vec<usize>,
    pub dtype: DType,
    /// Whether it gets gradients.
    pub is_trained: bool,
}

impl Entry {
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }
}

/// All float tensors of a model.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub entries: Vec<Entry>,
    /// A line for each: what ranks compare.
    lines: Vec<String>,
    index: HashMap<ParamId, usize>,
    /// The device of the first trained tensor.
    pub device: Option<Device>,
    /// The first two fields with one parameter.
    tied: Option<[String; 2]>,
}

impl Layout {
    pub fn of<M: Module>(model: &M) -> Self {
        let mut visitor = Visitor {
            path: Vec::new(),
            layout: Self {
                entries: Vec::new(),
                lines: Vec::new(),
                index: HashMap::new(),
                device: None,
                tied: None,
            },
        };
        model.visit(&mut visitor);
        visitor.layout
    }

    /// Whether each parameter is one field.
    ///
    /// # Errors
    ///
    /// The first two fields that share one: they would part when the optimiser gives the new value to the first alone.
    pub fn ensure_single(&self) -> Result<(), DistributedError> {
        match self.tied.clone() {
            None => Ok(()),
            Some([one, other]) => Err(DistributedError::Tied { one, other }),
        }
    }

    /// The place of a tensor among the entries.
    pub fn index(&self, id: ParamId) -> Option<usize> {
        self.index.get(&id).copied()
    }

    /// Whether the models of all ranks have the same tensors.
    ///
    /// # Errors
    ///
    /// On all ranks: the first tensor that differs from rank 0, on the first rank where one does.
    pub fn ensure_same(&self, world: &World) -> Result<(), DistributedError> {
        let own = self.lines.join("\n").into_bytes();
        let mut length = [own.len() as i64];
        world.broadcast(&mut length, 0)?;
        // A length that does not fit is no length of this protocol; rank 0 has said it.
        let mut first = vec![0; usize::try_from(length[0]).unwrap_or(0)];
        if world.rank() == 0 {
            first.copy_from_slice(&own);
        }
        world.broadcast(&mut first, 0)?;
        let difference = match first == own {
            true => String::new(),
            false => difference(&String::from_utf8_lossy(&first), &self.lines),
        };
        let all = world.all_gather(difference.as_bytes())?;
        for rank in 0..world.size() {
            let difference = all.of(rank);
            if !difference.is_empty() {
                let difference = String::from_utf8_lossy(difference).into_owned();
                return Err(DistributedError::Model { rank, difference });
            }
        }
        Ok(())
    }
}

/// How `own` first differs from `first`, a line for each tensor.
fn difference(first: &str, own: &[String]) -> String {
    let first: Vec<&str> = first.lines().collect();
    let at = first.iter().zip(own).position(|(first, own)| first != own);
    let at = at.unwrap_or(first.len().min(own.len()));
    match (first.get(at), own.get(at)) {
        (Some(first), Some(own)) => format!("it has {own} where rank 0 has {first}"),
        (Some(first), None) => format!("it ends where rank 0 has {first}"),
        (None, Some(own)) => format!("it has {own} where that of rank 0 ends"),
        (None, None) => "in its length".to_owned(),
    }
}

struct Visitor {
    path: Vec<String>,
    layout: Layout,
}

impl ModuleVisitor for Visitor {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let path = self.path.join(".");
        if let Some(known) = self.layout.index(param.id) {
            let first = self.layout.entries[known].path.clone();
            self.layout.tied.get_or_insert([first, path]);
            return;
        }
        let value = param.base();
        let (shape, dtype) = (value.dims().to_vec(), value.dtype());
        let is_trained = value.is_require_grad();
        let use_ = if is_trained { "trained" } else { "not trained" };
        self.layout
            .lines
            .push(format!("{path} {shape:?} {dtype:?}, {use_}"));
        if is_trained && self.layout.device.is_none() {
            self.layout.device = Some(value.device());
        }
        let place = self.layout.entries.len();
        self.layout.index.insert(param.id, place);
        self.layout.entries.push(Entry {
            path,
            shape,
            dtype,
            is_trained,
        });
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        let value = param.base();
        self.other(&value.dims(), value.dtype());
    }

    fn visit_bool<const D: usize>(&mut self, param: &Param<Tensor<D, Bool>>) {
        let value = param.base();
        self.other(&value.dims(), value.dtype());
    }
}

impl Visitor {
    /// A tensor that ranks compare and that is no entry.
    fn other(&mut self, shape: &[usize], dtype: DType) {
        let path = self.path.join(".");
        self.layout
            .lines
            .push(format!("{path} {shape:?} {dtype:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_named() {
        let lines = |text: &[&str]| text.iter().map(ToString::to_string).collect::<Vec<_>>();
        let own = lines(&["a [1] F32", "b [3] F32"]);
        assert_eq!(
            difference("a [1] F32\nb [2] F32", &own),
            "it has b [3] F32 where rank 0 has b [2] F32"
        );
        assert_eq!(
            difference("a [1] F32", &own),
            "it has b [3] F32 where that of rank 0 ends"
        );
        assert_eq!(
            difference("a [1] F32\nb [3] F32\nc", &own),
            "it ends where rank 0 has c"
        );
    }
}
