//! Ranks that have different models, options or numbers.

use burn::module::{Module, Param, ParamId};
use burn::nn::{Linear, LinearConfig};
use burn::optim::{GradientsParams, SgdConfig};
use burn::tensor::{Bool, DType, Device, Int, Tensor, TensorData};
use burn_dist::distributed::{Contribution, DataParallel, DataParallelConfig, Vote, Wire};

use crate::models::{Net, rows};
use crate::worlds::run;

fn device() -> Device {
    Device::flex().autodiff()
}

#[test]
fn another_model_is_named_by_the_first_tensor_that_differs() {
    let errors = run(3, |world| {
        let outputs = if world.rank() == 2 { 5 } else { 4 };
        let model: Linear = LinearConfig::new(3, outputs).init(&device());
        let made = DataParallel::new(&world, model, DataParallelConfig::new());
        made.err().unwrap().to_string()
    });
    for error in errors {
        assert!(
            error.contains("the model of rank 2")
                && error.contains("weight [3, 5] F32, trained where rank 0 has weight [3, 4]"),
            "{error}"
        );
    }
}

#[test]
fn other_options_are_named() {
    let errors = run(2, |world| {
        let wire = [Wire::Exact, Wire::F16][world.rank()];
        let model: Linear = LinearConfig::new(3, 4).init(&device());
        let made = DataParallel::new(&world, model, DataParallelConfig::new().wire(wire));
        made.err().unwrap().to_string()
    });
    for error in errors {
        assert!(
            error.contains("rank 1 has") && error.contains("F16"),
            "{error}"
        );
    }
}

#[test]
fn parameters_that_part_stop_the_run_and_are_named() {
    let errors = run(3, |world| {
        let device = device();
        let model = Net::new(0, &device, DType::F32);
        let config = DataParallelConfig::new().check_every(2);
        let (parallel, mut model) = DataParallel::new(&world, model, config).unwrap();
        let step = |model: &Net| {
            let gated = parallel.gate(model, Contribution::batch(2)).unwrap();
            gated.loss(rows(0, 2, &device, DType::F32), true).backward();
            parallel
                .reduce(model, None, Vote::default())
                .map(|reduced| reduced.has_data)
        };
        assert!(step(&model).unwrap() && step(&model).unwrap());
        if world.rank() == 1 {
            // One bit of one number.
            let (id, value, mapper) = model.seldom.weight.clone().consume();
            let mut data = value.to_data();
            data.as_mut_slice::<f32>().unwrap()[77] =
                f32::from_bits(data.as_slice::<f32>().unwrap()[77].to_bits() ^ 1);
            let changed = Tensor::from_data(data, &device).require_grad();
            model.seldom.weight = Param::from_mapped_value(id, changed, mapper);
        }
        assert!(step(&model).unwrap());
        step(&model).unwrap_err().to_string()
    });
    for error in errors {
        assert!(
            error.starts_with("seldom.weight of rank 1 differs from that of rank 0 after 4 steps"),
            "{error}"
        );
    }
}

#[test]
fn a_second_backward_pass_is_an_error_that_says_what_to_do() {
    let errors = run(2, |world| {
        let device = device();
        let model = Net::new(0, &device, DType::F32);
        let (parallel, model) =
            DataParallel::new(&world, model, DataParallelConfig::new()).unwrap();
        let gated = parallel.gate(&model, Contribution::batch(2)).unwrap();
        // A second one in the same step would give its gradients twice.
        let again = parallel.gate(&model, Contribution::batch(2)).err().unwrap();
        assert!(
            again.to_string().starts_with("a step has begun already"),
            "{again}"
        );
        parallel.reduce(&model, None, Vote::default()).unwrap();
        // So does one that is left from an earlier step.
        let next = parallel.gate(&model, Contribution::batch(2)).unwrap();
        for model in [gated, next] {
            model.loss(rows(0, 2, &device, DType::F32), true).backward();
        }
        parallel
            .reduce(&model, None, Vote::default())
            .err()
            .unwrap()
            .to_string()
    });
    for error in errors {
        assert!(error.contains("second gradient in one step"), "{error}");
    }
}

/// A layer, and tensors of other types than numbers with a fraction.
#[derive(Module, Debug)]
struct Masked {
    layer: Linear,
    mask: Param<Tensor<1, Bool>>,
    counts: Param<Tensor<1, Int>>,
}

impl Masked {
    fn new(mask: &[bool], count: i64) -> Self {
        let device = device();
        let mask = Tensor::from_data(TensorData::from(mask), &device);
        let counts = Tensor::from_data(TensorData::from([count, 1]), &device);
        Self {
            layer: LinearConfig::new(3, 3).init(&device),
            mask: Param::initialized(ParamId::new(), mask),
            counts: Param::initialized(ParamId::new(), counts),
        }
    }
}

#[test]
fn tensors_of_every_type_are_those_of_rank_0() {
    let found = run(2, |world| {
        let own = [&[true, false, true], &[false, false, true]][world.rank()];
        let model = Masked::new(own, 7 + world.rank() as i64);
        let config = DataParallelConfig::new();
        let (_, model) = DataParallel::new(&world, model, config).unwrap();
        let mask = model
            .mask
            .val()
            .into_data()
            .iter::<bool>()
            .collect::<Vec<_>>();
        let counts = model
            .counts
            .val()
            .into_data()
            .iter::<i64>()
            .collect::<Vec<_>>();
        (mask, counts)
    });
    for rank in found {
        assert_eq!(rank, (vec![true, false, true], vec![7, 1]));
    }
    let errors = run(2, |world| {
        let own: &[bool] = [&[true, false, true][..], &[true]][world.rank()];
        let made = DataParallel::new(&world, Masked::new(own, 7), DataParallelConfig::new());
        made.err().unwrap().to_string()
    });
    for error in errors {
        assert!(error.contains("it has mask [1] Bool"), "{error}");
    }
}

#[derive(Module, Debug)]
struct Tied {
    one: Linear,
    other: Linear,
}

#[test]
fn two_fields_with_one_parameter_are_refused_since_an_optimiser_would_part_them() {
    let one: Linear = LinearConfig::new(3, 3).init(&device());
    let tied = Tied {
        other: one.clone(),
        one,
    };
    let errors = run(2, |world| {
        let made = DataParallel::new(&world, tied.clone(), DataParallelConfig::new());
        made.err().unwrap().to_string()
    });
    for error in errors {
        let start = "one.weight and other.weight share one parameter";
        assert!(error.starts_with(start), "{error}");
    }
    // What is refused is what happens on one process.
    let gradients = {
        let inputs = Tensor::<2>::ones([1, 3], &device());
        let loss = tied.other.forward(tied.one.forward(inputs));
        GradientsParams::from_grads(loss.sum().backward(), &tied)
    };
    let parted = SgdConfig::new().init().step(0.1, tied, gradients);
    assert_ne!(
        parted.one.weight.val().into_data(),
        parted.other.weight.val().into_data()
    );
}
