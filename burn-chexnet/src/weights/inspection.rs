//! What is in a file of weights, for people to read.

use std::fmt::{Display, Formatter};

use burn::tensor::Device;

use super::{Checkpoint, Conversion, Head, Network, Report, WeightsError, convert};
use crate::model::{Architecture, ResNetConfig};
use crate::{Normalisation, Preprocessing};

/// Names of one kind that are listed one by one.
const LISTED: usize = 10;

/// What is in a [`Checkpoint`], and whether it is all that its network needs. Several lines when
/// displayed.
pub struct Inspection<'a> {
    checkpoint: &'a Checkpoint,
    result: Result<Report, WeightsError>,
}

impl<'a> Inspection<'a> {
    /// Loads `checkpoint` into the network that it is of, and keeps what came of it.
    pub fn new(checkpoint: &'a Checkpoint, device: &Device) -> Self {
        let result = match checkpoint.outputs() {
            Some(_) => checkpoint
                .network(device)
                .map(|network| network.report().clone()),
            None => checkpoint.backbone(device),
        };
        Self { checkpoint, result }
    }

    /// The report of the loading.
    ///
    /// # Errors
    ///
    /// Why it cannot be loaded.
    pub fn into_result(self) -> Result<Report, WeightsError> {
        self.result
    }
}

impl Checkpoint {
    /// The network of these weights, in evaluation mode. Outputs that nothing names are called `output 1`,
    /// `output 2` and so on; where nothing says how the input is made, ImageNet's normalisation at
    /// 224 pixels is put down.
    ///
    /// # Errors
    ///
    /// If the architecture is none of this project's, there is no classifier, or the tensors do not
    /// fit.
    pub fn network(&self, device: &Device) -> Result<Network, WeightsError> {
        let outputs = self.outputs().unwrap_or(0);
        let numbered = || (1..=outputs).map(|n| format!("output {n}")).collect();
        let conversion = Conversion {
            labels: match self.labels() {
                Some(_) => None,
                None => Some(numbered()),
            },
            keep: None,
            preprocessing: Some(self.input()?),
        };
        convert(self, &conversion, device)
    }

    fn input(&self) -> Result<Preprocessing, WeightsError> {
        let channels = self.in_channels().unwrap_or(3);
        let plain = Preprocessing::new(224, channels, &Normalisation::ImageNet);
        self.preprocessing().map_or(
            plain.map_err(|error| WeightsError::keys(self.path(), error.to_string())),
            Ok,
        )
    }

    /// Loads what there is without a classifier.
    fn backbone(&self, device: &Device) -> Result<Report, WeightsError> {
        let channels = self.input()?.channels();
        match self.known_architecture()?.densenet() {
            Some(shape) => {
                let mut network = shape.with_in_channels(channels).init(device);
                self.load_into(&mut network, &Head::New)
            }
            None => {
                let shape = ResNetConfig::resnet50().with_in_channels(channels);
                self.load_into(&mut shape.init(device), &Head::New)
            }
        }
    }

    /// The architecture.
    ///
    /// # Errors
    ///
    /// If it is none of this project's.
    pub(super) fn known_architecture(&self) -> Result<Architecture, WeightsError> {
        self.architecture().ok_or_else(|| {
            let names = Architecture::ALL.map(Architecture::name).join(", ");
            WeightsError::keys(self.path(), format!("its layers are of none of {names}"))
        })
    }
}

impl Display for Inspection<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let checkpoint = self.checkpoint;
        let mut line = |name: &str, value: String| writeln!(f, "{name:<10}  {value}");
        line("file", checkpoint.path().display().to_string())?;
        line("format", checkpoint.format().to_string())?;
        let architecture = checkpoint.architecture();
        let count = |count: Option<usize>| count.map_or("no".to_string(), |n| n.to_string());
        line(
            "network",
            format!(
                "{}, {} input channels, {} outputs",
                architecture.map_or("unknown", Architecture::name),
                count(checkpoint.in_channels()),
                count(checkpoint.outputs()),
            ),
        )?;
        let labels = checkpoint.labels().map(|labels| labels.join(", "));
        line("labels", labels.unwrap_or("not named".to_string()))?;
        let input = checkpoint.preprocessing().map(|input| input.to_string());
        line("input", input.unwrap_or("not said".to_string()))?;
        let notes = match &self.result {
            Ok(report) => report.notes.clone(),
            Err(_) => checkpoint.findings(),
        };
        for note in notes {
            line("", note)?;
        }
        match &self.result {
            Ok(report) => line(
                "tensors",
                format!(
                    "{} loaded, none missing, {}",
                    report.loaded,
                    match checkpoint.outputs() {
                        Some(_) => "none left over",
                        None => "but no classifier: train with --new-head",
                    }
                ),
            ),
            Err(WeightsError::Mismatch {
                loaded,
                missing,
                unexpected,
                mismatched,
                ..
            }) => {
                line("tensors", format!("{loaded} fit"))?;
                for (kind, names) in [
                    ("missing", missing),
                    ("unexpected", unexpected),
                    ("unfit", mismatched),
                ] {
                    for name in names.iter().take(LISTED) {
                        line(kind, name.clone())?;
                    }
                    if names.len() > LISTED {
                        line(kind, format!("and {} more", names.len() - LISTED))?;
                    }
                }
                Ok(())
            }
            Err(error) => line("unfit", error.to_string()),
        }
    }
}
