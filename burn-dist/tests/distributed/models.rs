//! Models to train, and what they are trained on.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig};
use burn::optim::GradientsParams;
use burn::tensor::activation::relu;
use burn::tensor::{DType, Device, Tensor, TensorData};
use burn_dist::distributed::SumOverRanks;

/// Three layers, the second twice in a row, a frozen one, and one that is used only if it is asked for.
#[derive(Module, Debug)]
pub struct Net {
    // In another order than that of use.
    pub last: Linear,
    pub shared: Linear,
    pub first: Linear,
    pub frozen: Linear,
    pub seldom: Linear,
}

pub const INPUTS: usize = 6;
const WIDTH: usize = 40;

impl Net {
    /// Numbers that depend on `seed`.
    pub fn new(seed: usize, device: &Device, dtype: DType) -> Self {
        let layer = |inputs, outputs| LinearConfig::new(inputs, outputs).init(device);
        let net = Self {
            last: layer(WIDTH, 1),
            shared: layer(WIDTH, WIDTH),
            first: layer(INPUTS, WIDTH),
            frozen: layer(WIDTH, WIDTH).no_grad(),
            seldom: layer(WIDTH, WIDTH),
        };
        net.map(&mut Numbers {
            next: seed * 1_000,
            dtype,
        })
    }

    pub fn forward(&self, inputs: Tensor<2>, seldom: bool) -> Tensor<2> {
        let hidden = relu(self.first.forward(inputs));
        let hidden = relu(self.shared.forward(relu(self.shared.forward(hidden))));
        let hidden = self.frozen.forward(hidden);
        let hidden = match seldom {
            true => relu(self.seldom.forward(hidden)),
            false => hidden,
        };
        self.last.forward(hidden)
    }

    pub fn loss(&self, rows: Tensor<2>, seldom: bool) -> Tensor<1> {
        let wanted = rows.clone().sum_dim(1).sin();
        (self.forward(rows, seldom) - wanted).square().mean()
    }
}

/// A layer with running statistics.
#[derive(Module, Debug)]
pub struct Normed {
    pub norm: BatchNorm,
    pub layer: Linear,
}

impl Normed {
    pub fn new(device: &Device) -> Self {
        let model = Self {
            norm: BatchNormConfig::new(INPUTS).init(device),
            layer: LinearConfig::new(INPUTS, 1).init(device),
        };
        Self {
            layer: model.layer.map(&mut Numbers {
                next: 0,
                dtype: DType::F32,
            }),
            norm: model.norm,
        }
    }

    pub fn loss(&self, rows: Tensor<2>) -> Tensor<1> {
        let normed = self.norm.forward::<2>(rows);
        self.layer.forward(normed).square().mean()
    }
}

/// `model` with numbers that are the same everywhere.
pub fn fill<M: Module>(model: M, dtype: DType) -> M {
    model.map(&mut Numbers { next: 0, dtype })
}

/// Sets parameters to numbers that are the same everywhere.
struct Numbers {
    next: usize,
    dtype: DType,
}

impl ModuleMapper for Numbers {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (id, value, mapper) = param.consume();
        let shape = value.dims();
        let count: usize = shape.iter().product();
        let scale = 1.0 / (shape[0] as f64).sqrt();
        let numbers: Vec<f64> = (0..count)
            .map(|index| (((self.next + index) * 7_919 % 1_000) as f64 / 500.0 - 1.0) * scale)
            .collect();
        self.next += count;
        let data = TensorData::new(numbers, shape);
        let tensor = Tensor::from_data(data, (&value.device(), self.dtype));
        Param::from_mapped_value(id, tensor.set_require_grad(value.is_require_grad()), mapper)
    }
}

/// Rows `start..start + count` of the data.
pub fn rows(start: usize, count: usize, device: &Device, dtype: DType) -> Tensor<2> {
    let numbers: Vec<f64> = (start * INPUTS..(start + count) * INPUTS)
        .map(|index| ((index * 31) as f64 * 0.37).sin())
        .collect();
    Tensor::from_data(TensorData::new(numbers, [count, INPUTS]), (device, dtype))
}

/// All numbers of a model, in the order of its fields.
pub fn numbers<M: Module>(model: &M) -> Vec<f64> {
    let mut taking = Taking(Vec::new());
    model.visit(&mut taking);
    taking.0
}

struct Taking(Vec<f64>);

impl ModuleVisitor for Taking {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.extend(param.val().into_data().iter::<f64>());
    }
}

/// The gradients of a model, in the order of its fields: `None` where there is none.
pub fn gradients<M: Module>(model: &M, gradients: &GradientsParams) -> Vec<Option<Vec<f64>>> {
    let mut taking = TakingGradients(gradients, Vec::new());
    model.visit(&mut taking);
    taking.1
}

struct TakingGradients<'a>(&'a GradientsParams, Vec<Option<Vec<f64>>>);

impl ModuleVisitor for TakingGradients<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let gradient = self.0.get::<D>(param.id);
        self.1
            .push(gradient.map(|gradient| gradient.into_data().iter::<f64>().collect()));
    }
}

/// The largest difference of two lists, by the largest number of the first.
pub fn difference(one: &[f64], other: &[f64]) -> f64 {
    assert_eq!(one.len(), other.len());
    let largest = one
        .iter()
        .fold(0.0f64, |most, number| most.max(number.abs()));
    let pairs = one.iter().zip(other);
    pairs.fold(0.0f64, |most, (a, b)| most.max((a - b).abs())) / largest
}

/// A network whose middle layer is normalised with the statistics of the batch, or of the batches of all ranks.
#[derive(Module, Debug)]
pub struct BatchNormed {
    first: Linear,
    last: Linear,
    #[module(skip)]
    sums: Option<SumOverRanks>,
}

impl BatchNormed {
    pub fn new(sums: Option<SumOverRanks>, device: &Device, dtype: DType) -> Self {
        let model = Self {
            first: LinearConfig::new(INPUTS, WIDTH).init(device),
            last: LinearConfig::new(WIDTH, 1).init(device),
            sums,
        };
        fill(model, dtype)
    }

    pub fn loss(&self, rows: Tensor<2>) -> Tensor<1> {
        let wanted = rows.clone().sum_dim(1).sin();
        let hidden = self.first.forward(rows);
        let mean = self.mean(hidden.clone());
        let centred = hidden - mean;
        let variance = self.mean(centred.clone().square());
        let normed = centred / variance.add_scalar(1e-5).sqrt();
        (self.last.forward(normed.tanh()) - wanted).square().mean()
    }

    /// The mean of the rows of all ranks, `[1, width]`.
    fn mean(&self, rows: Tensor<2>) -> Tensor<2> {
        let count = rows.dims()[0] as f64;
        let own: Tensor<1> = rows.sum_dim(0).squeeze_dim(0);
        let (sum, count) = match &self.sums {
            Some(sums) => {
                let count = Tensor::<1>::full([1], count, (&own.device(), own.dtype()));
                let of_all = sums.sum(count).into_data().iter::<f64>().sum::<f64>();
                (sums.sum(own), of_all)
            }
            None => (own, count),
        };
        // (Autodiff takes the reciprocal of a divisor in 32 bits.)
        sum.mul_scalar(1.0 / count).unsqueeze_dim(0)
    }
}
