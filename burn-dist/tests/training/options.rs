//! What a run can be told beside its length.

use burn::module::ParamGroup;
use burn::optim::{ModuleOptimizer, SgdConfig};
use burn_dist::optimizer::Sgd;
use burn_dist::train::WarmUp;

use super::*;

fn sgd() -> ModuleOptimizer {
    SgdConfig::new().init()
}

fn run(training: Training<Net>, optimizer: ModuleOptimizer, batch: usize) -> Trained<Net> {
    let trained = training.launch(
        Net::new(&Device::flex()),
        optimizer,
        net::loader_of(rows(48), batch, None),
        loader(rows(20)),
        Notes::default(),
    );
    trained.unwrap()
}

fn weights(model: &Net) -> Vec<f32> {
    [&model.first, &model.second]
        .into_iter()
        .flat_map(|layer| {
            layer
                .weight
                .val()
                .into_data()
                .iter::<f32>()
                .collect::<Vec<_>>()
        })
        .collect()
}

/// The last step of an epoch has fewer micro-batches where they do not divide it.
#[test]
fn an_epoch_ends_with_a_step() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let trained = run(training(&folder).accumulation(4), sgd(), 8);
    assert_eq!(trained.steps, 3 * 2);
}

#[test]
fn training_ends_when_the_validation_loss_no_longer_falls() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    // Nothing is learnt at a rate of zero but the running statistics.
    let trained = run(
        training(&folder)
            .learning_rate(0.0)
            .epochs(50)
            .patience(Some(2)),
        sgd(),
        8,
    );
    assert_eq!(trained.ending, Ending::Early);
    let stalled: Vec<bool> = trained.epochs.iter().map(|epoch| epoch.best).collect();
    assert!(stalled.len() < 50);
    assert_eq!(stalled[stalled.len() - 3..], [true, false, false]);
}

#[test]
fn a_group_learns_at_its_own_rate() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let start = Net::new(&Device::flex());
    let trained = |factor| {
        let training = training(&folder)
            .max_steps(Some(1))
            .group(ParamGroup::from_predicate("first."), factor);
        run(training, sgd(), 8).model
    };
    let moved = |layer: fn(&Net) -> &burn::nn::Linear, model: &Net| -> f64 {
        let difference = layer(model).weight.val() - layer(&start).weight.val();
        difference.square().sum().sqrt().into_scalar::<f64>()
    };
    let (same, tenth) = (trained(1.0), trained(0.1));
    let ratio = moved(|net| &net.first, &tenth) / moved(|net| &net.first, &same);
    // Weights near 1 hold their changes of some 1e-4 to a thousandth, in 32 bit.
    assert!((ratio - 0.1).abs() < 1e-3, "{ratio}");
    let ratio = moved(|net| &net.second, &tenth) / moved(|net| &net.second, &same);
    assert_eq!(ratio, 1.0);
    let frozen = trained(0.0);
    assert_eq!(moved(|net| &net.first, &frozen), 0.0);
}

#[test]
fn the_rate_of_every_epoch_follows_warm_up_and_schedule() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let rate = LearningRate::new(1e-2)
        .warm_up(WarmUp {
            steps: 6,
            start: 0.5,
        })
        .schedule(Schedule::Step {
            every: 6,
            factor: 0.1,
        });
    let trained = run(training(&folder).learning_rate(rate.clone()), sgd(), 8);
    let rates: Vec<f64> = trained
        .epochs
        .iter()
        .map(|epoch| epoch.learning_rate)
        .collect();
    assert_eq!(rates, [rate.at(5), rate.at(11), rate.at(17)]);
    assert!(rates[0] < rates[1] && rates[2] < rates[1]);
}

#[test]
fn clipped_gradients_bound_a_step() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let start = weights(&Net::new(&Device::flex()));
    let moved = |largest| -> f64 {
        let training = training(&folder)
            .learning_rate(1.0)
            .max_steps(Some(1))
            .clip_norm(largest);
        let end = weights(&run(training, ModuleOptimizer::from(Sgd::default()), 8).model);
        let squares = end
            .iter()
            .zip(&start)
            .map(|(a, b)| f64::from(a - b).powi(2));
        squares.sum::<f64>().sqrt()
    };
    assert!(moved(None) > 0.05);
    let bounded = moved(Some(0.05));
    assert!(bounded <= 0.05 * 1.001, "{bounded}");
    assert_eq!(moved(Some(1e6)), moved(None));
}
