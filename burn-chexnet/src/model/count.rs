//! Counting what the optimiser changes.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::Tensor;

/// The number of trained values of `module`, as PyTorch counts parameters: without the running
/// statistics of its norms, which Burn's `num_params` includes.
///
/// ```
/// use burn_chexnet::model::{DenseNetConfig, parameter_count};
/// let model = DenseNetConfig::densenet121().init(&burn::tensor::Device::flex());
/// assert_eq!(parameter_count(&model), 6_968_206);
/// ```
pub fn parameter_count<M: Module>(module: &M) -> usize {
    let mut counter = Counter::default();
    module.visit(&mut counter);
    counter.values
}

#[derive(Default)]
struct Counter {
    path: Vec<String>,
    values: usize,
}

impl ModuleVisitor for Counter {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let buffer = self
            .path
            .last()
            .is_some_and(|name| name.starts_with("running_"));
        if !buffer {
            self.values += param.lazy_shape().num_elements();
        }
    }

    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }
}
