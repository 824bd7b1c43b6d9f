//! This project's contenders: this program again, told by its environment.

use std::process::Command;

use burn::module::Module;
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Distribution, Tensor};
use burn_chexnet::kernels::{FusedAdam, plain};
use burn_chexnet::loss::{BinaryCrossEntropy, Reduction};
use burn_chexnet::model::{Classifier, DenseNetConfig};
use burn_dist::optimizer::Adam;

use crate::{Case, Result, Task, contender};

const CASE: &str = "CHEXNET_BENCH_CASE";

/// A case, and whether without kernels.
type Told = (Case, bool);

pub fn tell(command: &mut Command, case: Case, without: bool) {
    let numbers = [case.batch, case.size, case.threads, usize::from(without)];
    let numbers = numbers.map(|number| number.to_string()).join(" ");
    command.env(CASE, format!("{} {numbers}", case.task.name()));
}

pub fn case_from_environment() -> Result<Option<Told>> {
    let Ok(text) = std::env::var(CASE) else {
        return Ok(None);
    };
    let (task, numbers) = text.split_once(' ').ok_or("no numbers")?;
    let numbers: std::result::Result<Vec<usize>, _> = numbers.split(' ').map(str::parse).collect();
    let [batch, size, threads, without] = numbers?[..] else {
        return Err("other numbers".into());
    };
    let task = match task {
        "train" => Task::Train,
        _ => Task::Infer,
    };
    let case = Case {
        task,
        batch,
        size,
        threads,
    };
    Ok(Some((case, without == 1)))
}

pub fn run((case, without): Told) -> Result<()> {
    let step: Box<dyn FnMut()> = match case.task {
        Task::Train => Box::new(training(case)),
        Task::Infer => Box::new(inference(case)),
    };
    let serve = move || contender::serve(case.task.steps(), step);
    if without { plain(serve) } else { serve() }
}

fn training(case: Case) -> impl FnMut() {
    let device = Device::flex().autodiff();
    let shape = [case.batch, 3, case.size, case.size];
    let images = Tensor::<4>::random(shape, Distribution::Default, &device);
    let targets = Tensor::<2>::random([case.batch, 14], Distribution::Bernoulli(0.1), &device);
    let loss = BinaryCrossEntropy::new(Reduction::SumOverLabels);
    let mut model = Some(DenseNetConfig::densenet121().init(&device).train());
    let mut optimizer = ModuleOptimizer::from(FusedAdam(Adam::default()));
    move || {
        model = model.take().map(|model| {
            let logits = model.logits(images.clone());
            let loss = loss.forward(logits, targets.clone(), None);
            let gradients = GradientsParams::from_grads(loss.backward(), &model);
            optimizer.step(1e-4, model, gradients)
        });
    }
}

fn inference(case: Case) -> impl FnMut() {
    let device = Device::flex();
    let shape = [case.batch, 3, case.size, case.size];
    let images = Tensor::<4>::random(shape, Distribution::Default, &device);
    let model = DenseNetConfig::densenet121().init(&device);
    move || {
        model.logits(images.clone()).into_data();
    }
}
