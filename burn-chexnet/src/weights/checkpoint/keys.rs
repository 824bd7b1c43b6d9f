//! Key styles: how published checkpoints name their tensors, and torchvision's name for each.
//!
//! Knows names alone, no tensors and no files.

/// Where a network may stand in a dictionary: behind any prefix. A head has one of these names,
/// behind the prefix or a part of it.
const HEADS: [&str; 8] = [
    "classifier",
    "classifier.0",
    "classifier.1",
    "class_layers.out",
    "predictions",
    "fc",
    "fc.0",
    "fc.1",
];

/// The networks that can be told apart by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// DenseNet of any depth.
    DenseNet,
    /// ResNet of bottlenecks.
    ResNet,
}

impl Family {
    /// Names that every network of the family has; the first is its first convolution.
    fn landmarks(self) -> [&'static str; 2] {
        match self {
            Self::DenseNet => ["features.conv0.weight", "features.norm5.weight"],
            Self::ResNet => ["conv1.weight", "layer1.0.conv1.weight"],
        }
    }

    /// torchvision's name of the weight of the first convolution.
    pub(crate) fn first_convolution(self) -> &'static str {
        self.landmarks()[0]
    }

    /// torchvision's name of the head.
    pub(crate) fn classifier(self) -> &'static str {
        match self {
            Self::DenseNet => "classifier",
            Self::ResNet => "fc",
        }
    }
}

/// How the layers in a dense block are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LayerNames {
    /// `denselayer1.norm.1`: torchvision before PyTorch 0.4, and its own ImageNet files to this day.
    Dotted,
    /// `denselayer1.layers.norm1`.
    Monai,
}

/// What a key stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The tensor that torchvision calls so.
    Tensor {
        /// torchvision's name.
        name: String,
        /// How the layer is named, where it is not as torchvision does today.
        layer_names: Option<LayerNames>,
    },
    /// A part of a classifier.
    Head {
        /// The name of the classifier in the file.
        name: &'static str,
        /// `weight` or `bias`.
        part: &'static str,
    },
    /// Nothing that a logit depends on.
    Ignored(Ignored),
    /// Nothing that is known.
    Unknown,
}

/// Tensors that no logit depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ignored {
    /// PyTorch's count of the batches that a norm has seen.
    BatchCount,
    /// TorchXRayVision's operating points, which it bends probabilities with.
    OperatingPoints,
}

/// A network in a dictionary of tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) family: Family,
    /// What stands before the network's own names.
    pub(crate) prefix: String,
}

impl Style {
    /// The networks among `keys`.
    pub(crate) fn all<'a>(keys: impl Iterator<Item = &'a str> + Clone) -> Vec<Self> {
        let known: std::collections::HashSet<&str> = keys.clone().collect();
        let mut styles = Vec::new();
        for key in keys {
            for family in [Family::DenseNet, Family::ResNet] {
                let [first, second] = family.landmarks();
                // A prefix is whole names: `preconv1.weight` is no first convolution.
                let prefix = key
                    .strip_suffix(first)
                    .filter(|prefix| prefix.is_empty() || prefix.ends_with('.'));
                let Some(prefix) = prefix else { continue };
                if known.contains(format!("{prefix}{second}").as_str()) {
                    styles.push(Self {
                        family,
                        prefix: prefix.to_string(),
                    });
                }
            }
        }
        styles
    }

    /// What `key` stands for.
    pub(crate) fn meaning(&self, key: &str) -> Meaning {
        let Some(own) = self.own(key) else {
            return Meaning::Unknown;
        };
        if own == "num_batches_tracked" || own.ends_with(".num_batches_tracked") {
            return Meaning::Ignored(Ignored::BatchCount);
        }
        if own == "op_threshs" {
            return Meaning::Ignored(Ignored::OperatingPoints);
        }
        for head in HEADS {
            let part = own
                .strip_prefix(head)
                .and_then(|rest| rest.strip_prefix('.'));
            let part = ["weight", "bias"]
                .into_iter()
                .find(|&own| part == Some(own));
            if let Some(part) = part {
                return Meaning::Head { name: head, part };
            }
        }
        // A backbone has all of its names behind the same prefix.
        if !key.starts_with(&self.prefix) {
            return Meaning::Unknown;
        }
        let (name, layer_names) = match self.family {
            Family::DenseNet => layer(own),
            Family::ResNet => (own.to_string(), None),
        };
        Meaning::Tensor { name, layer_names }
    }

    /// `key` without the prefix or, for what stands beside the backbone, without the longest part
    /// of it.
    fn own<'a>(&self, key: &'a str) -> Option<&'a str> {
        let ends = self.prefix.match_indices('.').map(|(dot, _)| dot + 1);
        let mut parts: Vec<&str> = ends.map(|end| &self.prefix[..end]).collect();
        parts.insert(0, "");
        parts.iter().rev().find_map(|part| key.strip_prefix(part))
    }
}

/// torchvision's name of what may be a part of a dense layer.
fn layer(name: &str) -> (String, Option<LayerNames>) {
    let segments: Vec<&str> = name.split('.').collect();
    let position = segments.iter().position(|segment| {
        segment
            .strip_prefix("denselayer")
            .is_some_and(|number| number.parse::<usize>().is_ok())
    });
    let Some(position) = position else {
        return (name.to_string(), None);
    };
    let layer = segments[..=position].join(".");
    match &segments[position + 1..] {
        ["layers", part, value] => (format!("{layer}.{part}.{value}"), Some(LayerNames::Monai)),
        [kind @ ("norm" | "conv"), number @ ("1" | "2"), value] => (
            format!("{layer}.{kind}{number}.{value}"),
            Some(LayerNames::Dotted),
        ),
        _ => (name.to_string(), None),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    const LANDMARKS: [&str; 2] = ["features.conv0.weight", "features.norm5.weight"];

    fn densenet(prefix: &str) -> Style {
        let keys = LANDMARKS.map(|name| format!("{prefix}{name}"));
        let [style] = &Style::all(keys.iter().map(String::as_str))[..] else {
            panic!("one network behind {prefix}");
        };
        assert_eq!(style.prefix, prefix);
        style.clone()
    }

    fn name(style: &Style, key: &str) -> String {
        match style.meaning(key) {
            Meaning::Tensor { name, .. } => name,
            Meaning::Head { part, .. } => format!("{}.{part}", style.family.classifier()),
            other => panic!("{key}: {other:?}"),
        }
    }

    #[test]
    fn every_published_style_becomes_torchvisions() {
        let layer = "features.denseblock2.denselayer7.norm1.weight";
        for (prefix, key, expected) in [
            ("", layer, layer),
            ("module.", &format!("module.{layer}"), layer),
            (
                "module.densenet121.",
                "module.densenet121.features.denseblock2.denselayer7.norm.1.weight",
                layer,
            ),
            (
                "",
                "features.denseblock2.denselayer7.layers.norm1.weight",
                layer,
            ),
            (
                "",
                "features.denseblock2.denselayer7.conv.2.weight",
                "features.denseblock2.denselayer7.conv2.weight",
            ),
            ("", "class_layers.out.weight", "classifier.weight"),
            ("", "predictions.bias", "classifier.bias"),
            ("", "fc.bias", "classifier.bias"),
            (
                "module.densenet121.",
                "module.densenet121.classifier.0.bias",
                "classifier.bias",
            ),
            // A head beside the wrapped backbone.
            (
                "module.backbone.",
                "module.classifier.weight",
                "classifier.weight",
            ),
        ] {
            assert_eq!(name(&densenet(prefix), key), expected);
        }
    }

    #[test]
    fn what_is_not_of_the_network_is_unknown() {
        let style = densenet("module.densenet121.");
        for key in [
            "module.features.conv0.weight",
            "criterion.weight",
            "optimizer.state.0.exp_avg",
            "module.extra",
        ] {
            assert_eq!(style.meaning(key), Meaning::Unknown, "{key}");
        }
    }

    #[test]
    fn counters_and_operating_points_are_ignored() {
        let style = densenet("module.");
        for (key, what) in [
            (
                "module.features.norm0.num_batches_tracked",
                Ignored::BatchCount,
            ),
            (
                "module.features.denseblock1.denselayer1.norm.1.num_batches_tracked",
                Ignored::BatchCount,
            ),
            ("module.op_threshs", Ignored::OperatingPoints),
        ] {
            assert_eq!(style.meaning(key), Meaning::Ignored(what), "{key}");
        }
    }

    #[test]
    fn networks_are_found_by_whole_names() {
        assert_eq!(Style::all(["x.weight"].into_iter()), []);
        let half = ["myfeatures.conv0.weight", "myfeatures.norm5.weight"];
        assert_eq!(Style::all(half.into_iter()), []);
        let two = [
            "a.conv1.weight",
            "a.layer1.0.conv1.weight",
            "b.conv1.weight",
            "b.layer1.0.conv1.weight",
        ];
        assert_eq!(Style::all(two.into_iter()).len(), 2);
    }
}
