//! The weights that a run starts from, and what of them moves.

use burn::module::ParamGroup;
use burn_dist::progress::write_line;

use crate::model::Classifier;
use crate::train::step::NETWORK;
use crate::train::{RunError, TrainConfig, output};
use crate::weights::{Checkpoint, Head, WeightsError};
use crate::{Normalisation, norm};

/// The weights that a run with `config` starts from, if they are not random.
///
/// # Errors
///
/// If they cannot be read, or are of another network than that of `config`, which is then named.
pub(in crate::train) fn opened(config: &TrainConfig) -> Result<Option<Checkpoint>, RunError> {
    let Some(path) = &config.weights else {
        return Ok(None);
    };
    if let (Ok(file), Ok(output)) = (path.canonicalize(), config.output.canonicalize())
        && file.starts_with(&output)
    {
        return Err(RunError::Option {
            option: "--weights",
            reason: format!(
                "{} lies in the folder of the results, which replace it: give another --output",
                path.display()
            ),
        });
    }
    let checkpoint = Checkpoint::open(path)?;
    let found = checkpoint.architecture();
    if found == Some(config.model) {
        return Ok(Some(checkpoint));
    }
    let reason = match found {
        Some(model) => format!(
            "{} has weights of {model}, not of {}: give --model {model}",
            path.display(),
            config.model
        ),
        None => format!(
            "the layers in {} are not those of {}",
            path.display(),
            config.model
        ),
    };
    Err(RunError::Option {
        option: "--weights",
        reason,
    })
}

/// `config` with all that it leaves to the weights decided: as for `weights`, as in the run in
/// the output folder if that one goes on (its first weights may be gone), or as in PyTorch.
///
/// # Errors
///
/// If the configuration of the run that goes on cannot be read.
pub(in crate::train) fn decided(
    config: &TrainConfig,
    weights: Option<&Checkpoint>,
    goes_on: bool,
) -> Result<TrainConfig, RunError> {
    let path = config.output.join(output::CONFIG);
    let before = match goes_on && path.exists() {
        true => Some(TrainConfig::read(path, None)?),
        false => None,
    };
    let preprocessing = weights.and_then(Checkpoint::preprocessing);
    let normalisation = config
        .normalisation
        .clone()
        .or(before.as_ref().and_then(|run| run.normalisation.clone()))
        .or(preprocessing.as_ref().map(Normalisation::of))
        .unwrap_or_default();
    let epsilon = config
        .norm_epsilon
        .or(before.and_then(|run| run.norm_epsilon))
        .or(weights.map(Checkpoint::norm_epsilon))
        .unwrap_or(norm::EPSILON);
    Ok(TrainConfig {
        normalisation: Some(normalisation),
        norm_epsilon: Some(epsilon),
        ..config.clone()
    })
}

/// What becomes of the classifier in `weights` for `labels`: its outputs are taken by name.
///
/// # Errors
///
/// If it has no output for a label and no new classifier is asked for.
pub(in crate::train) fn head(
    weights: &Checkpoint,
    labels: &[String],
    new_head: bool,
) -> Result<Head, RunError> {
    if new_head {
        return Ok(Head::New);
    }
    let refused = |reason: String| {
        RunError::from(WeightsError::Outputs {
            path: weights.path().to_path_buf(),
            reason: format!("{reason}; give --new-head for a new classifier"),
        })
    };
    let Some(outputs) = weights.outputs() else {
        return Err(refused("there are none, only a backbone".to_string()));
    };
    let Some(names) = weights.labels() else {
        return Err(refused(format!(
            "nothing says which labels the {outputs} are of, which `cargo run --example weights -- convert` can write down"
        )));
    };
    if names == labels {
        return Ok(Head::Whole);
    }
    let row = |label: &String| {
        let position = names.iter().position(|name| name == label);
        position.ok_or_else(|| {
            refused(format!(
                "there is none for {label}, only for {}",
                names.join(", ")
            ))
        })
    };
    labels
        .iter()
        .map(row)
        .collect::<Result<_, _>>()
        .map(Head::Outputs)
}

/// Puts `weights` into `network`, and says what was loaded.
///
/// # Errors
///
/// If they do not fit.
pub(in crate::train) fn start_from<C: Classifier>(
    network: &mut C,
    weights: &Checkpoint,
    head: &Head,
) -> Result<(), RunError> {
    let report = weights.load_into(network, head)?;
    let classifier = match head {
        Head::Whole => "; its classifier",
        Head::Outputs(_) => "; the outputs of its classifier taken by name",
        Head::New => "",
    };
    write_line(&format!("weights: {report}{classifier}"));
    Ok(())
}

/// The parameters of the backbone.
pub(in crate::train) fn backbone<C: Classifier>() -> ParamGroup {
    let classifier = format!("{NETWORK}.{}.", C::CLASSIFIER);
    ParamGroup::all().exclude(ParamGroup::from_predicate(classifier))
}

#[cfg(test)]
mod tests {
    use burn::module::{Module, ModuleVisitor, Param};
    use burn::tensor::{Device, Tensor};

    use super::*;
    use crate::loss::{BinaryCrossEntropy, Reduction};
    use crate::model::{DenseNetConfig, ResNetConfig};
    use crate::train::SupervisedClassifier;

    /// The parameters outside of a group, by their paths, as the optimiser sees them.
    struct Outside {
        group: ParamGroup,
        path: Vec<String>,
        found: Vec<String>,
    }

    impl ModuleVisitor for Outside {
        fn enter_module(&mut self, name: &str, _: &str) {
            self.path.push(name.to_string());
        }

        fn exit_module(&mut self, _: &str, _: &str) {
            self.path.pop();
        }

        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let path = self.path.join(".");
            if !self.group.matches(&param.id, Some(&path)) {
                self.found.push(path);
            }
        }
    }

    fn outside<C: Classifier>(network: C) -> Vec<String> {
        let loss = BinaryCrossEntropy::new(Reduction::Mean);
        let mut visitor = Outside {
            group: backbone::<C>(),
            path: Vec::new(),
            found: Vec::new(),
        };
        SupervisedClassifier::new(network, loss).visit(&mut visitor);
        visitor.found
    }

    /// The parameters that get gradients, as ranks tell them each other.
    struct Trained(Vec<String>, Vec<String>);

    impl ModuleVisitor for Trained {
        fn enter_module(&mut self, name: &str, _: &str) {
            self.0.push(name.to_string());
        }

        fn exit_module(&mut self, _: &str, _: &str) {
            self.0.pop();
        }

        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if param.base().is_require_grad() {
                self.1.push(self.0.join("."));
            }
        }
    }

    #[test]
    fn a_frozen_backbone_has_no_gradients_on_the_device_of_a_run() {
        let network = DenseNetConfig::densenet121().init(&Device::flex());
        let loss = BinaryCrossEntropy::new(Reduction::Mean);
        let model = SupervisedClassifier::new(network, loss).freeze_backbone();
        let mut trained = Trained(Vec::new(), Vec::new());
        model
            .train()
            .fork(&Device::flex().autodiff())
            .visit(&mut trained);
        let classifier = ["network.classifier.weight", "network.classifier.bias"];
        assert_eq!(trained.1, classifier);
    }

    #[test]
    fn only_the_classifier_is_no_backbone() {
        let device = Device::flex();
        assert_eq!(
            outside(DenseNetConfig::densenet121().init(&device)),
            ["network.classifier.weight", "network.classifier.bias"]
        );
        assert_eq!(
            outside(ResNetConfig::resnet50().init(&device)),
            ["network.fc.weight", "network.fc.bias"]
        );
    }
}
