//! The weights that a run starts from, and what of them moves.

use std::path::Path;

use burn::module::ParamGroup;
use burn_dist::progress::write_line;

use crate::model::Classifier;
use crate::train::step::NETWORK;
use crate::train::{RunError, TrainConfig};
use crate::weights::{self, Metadata};

/// Refuses weights at `path` of another network than that of `config`, without reading them whole.
///
/// # Errors
///
/// Names both networks, and the options that would fit.
pub(in crate::train) fn ensure_same_network(
    path: &Path,
    config: &TrainConfig,
) -> Result<(), RunError> {
    let metadata = Metadata::read(path)?;
    let (model, channels) = (metadata.architecture, metadata.preprocessing.channels());
    match (model, channels) == (config.model, config.in_channels) {
        true => Ok(()),
        false => Err(RunError::Option {
            option: "--weights",
            reason: format!(
                "{} has weights of {model} with {channels} channels, not of {} with {}: give --model {model} --in-channels {channels}",
                path.display(),
                config.model,
                config.in_channels,
            ),
        }),
    }
}

/// Puts the weights at `path` into `network`, for `labels`. The classifier is taken where the labels
/// are the same, in the same order; else only the backbone is, and the classifier stays new.
///
/// # Errors
///
/// If they cannot be read, or do not fit.
pub(in crate::train) fn start_from<C: Classifier>(
    network: &mut C,
    path: &Path,
    labels: &[String],
) -> Result<(), RunError> {
    let (loaded, classifier) = match Metadata::read(path)?.labels == labels {
        true => (weights::load(network, path)?, "its classifier"),
        false => (
            weights::load_backbone(network, path)?,
            "a new classifier, since the labels are others or in another order",
        ),
    };
    write_line(&format!(
        "weights: {loaded} tensors of {}, with {classifier}",
        path.display()
    ));
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
