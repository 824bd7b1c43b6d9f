//! Looks into files of weights, makes those of others this project's own, and compares their logits
//! with those of another program.
//!
//! ```text
//! cargo run --example weights -- inspect FILE
//! cargo run --example weights -- convert FILE OUTPUT --labels nih
//! cargo run --example weights -- verify FILE --reference REFERENCE
//! ```

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use burn_chexnet::train::DeviceName;
use burn_chexnet::weights::{Checkpoint, Conversion, Inspection, Reference, convert};
use burn_chexnet::{Normalisation, Preprocessing, Resize};
use chest_datasets::nih::Pathology;
use clap::{Args, Parser, Subcommand};

/// Inspect, convert and verify weights: safetensors and PyTorch checkpoints of DenseNet-121, 161, 169,
/// 201 and ResNet-50, in any published key style. Nothing of a pickle is executed.
#[derive(Parser)]
#[command(version)]
struct Options {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Say what is in a file, load it into its network and count the tensors; exit with 1 if they are
    /// not all that it needs
    Inspect {
        /// File of weights, or folder of a run
        file: PathBuf,
        /// List every tensor: its key, its shape and the name that torchvision has for it
        #[arg(long)]
        tensors: bool,
    },
    /// Write weights as safetensors with torchvision's keys, labels and preprocessing, for the other
    /// programs of this project and for torchvision
    Convert(Convert),
    /// Compare the logits with those that another program has computed
    Verify {
        /// File of weights, or folder of a run
        file: PathBuf,
        /// Safetensors file of `images`, [count, channels, height, width], and `logits`, [count, outputs]
        #[arg(long, value_name = "FILE")]
        reference: PathBuf,
        /// The greatest max|a-b| / max|b| that passes
        #[arg(long, value_name = "SHARE", default_value_t = 1e-4)]
        tolerance: f64,
    },
}

#[derive(Args)]
struct Convert {
    /// File of weights, or folder of a run
    file: PathBuf,
    /// File to write; it must not exist yet
    output: PathBuf,
    /// Names of the outputs, in their order: nih for the 14 of ChestX-ray14 in the order of the paper, or
    /// names separated by commas [default: those that the file has]
    #[arg(long, value_delimiter = ',', value_name = "nih|NAMES")]
    labels: Option<Vec<String>>,
    /// The outputs that stay, by name [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    keep: Option<Vec<String>>,
    /// What pixels are normalised for: imagenet or torchxrayvision [default: as the file says, else imagenet]
    #[arg(long, value_name = "NAME")]
    normalisation: Option<Normalisation>,
    /// Channels of the input, 1 or 3 [default: as the file]
    #[arg(long, value_name = "N")]
    in_channels: Option<usize>,
    /// Height and width of the input in pixels [default: as the file says, else 224]
    #[arg(long, value_name = "N")]
    image_size: Option<usize>,
    /// Resize the shorter side to so many pixels and cut the input out of the centre [default: as the
    /// file says, else resize the whole image]
    #[arg(long, value_name = "N")]
    short_side: Option<usize>,
}

impl Convert {
    fn labels(&self) -> Option<Vec<String>> {
        let names = self.labels.as_ref()?;
        Some(match &names[..] {
            [nih] if nih.eq_ignore_ascii_case("nih") => Pathology::ALL
                .map(|label| label.name().to_string())
                .to_vec(),
            _ => names.iter().map(|name| name.trim().to_string()).collect(),
        })
    }

    fn preprocessing(&self, checkpoint: &Checkpoint) -> Result<Preprocessing, Box<dyn Error>> {
        let own = checkpoint.preprocessing();
        if self.labels.is_some() && own.is_some() && self.normalisation.is_none() {
            // With names of its own it may be none of TorchXRayVision's after all.
            return Err("--normalisation: say what the pixels were normalised for".into());
        }
        let channels = self.in_channels.or(checkpoint.in_channels()).unwrap_or(3);
        let size = self.image_size.or(own.as_ref().map(|own| own.image_size));
        let normalisation = self.normalisation.clone();
        let normalisation = normalisation
            .or(own.as_ref().map(Normalisation::of))
            .unwrap_or_default();
        let resize = match self.short_side {
            Some(short_side) => Resize::CentreCrop { short_side },
            None => own.map(|own| own.resize).unwrap_or_default(),
        };
        let preprocessing = Preprocessing {
            resize,
            ..Preprocessing::new(size.unwrap_or(224), channels, &normalisation)?
        };
        preprocessing.check()?;
        Ok(preprocessing)
    }
}

fn main() -> ExitCode {
    chexnet::main(|options: Options| match options.task {
        Task::Inspect { file, tensors } => inspect(&Checkpoint::open(file)?, tensors),
        Task::Convert(task) => converted(&task),
        Task::Verify {
            file,
            reference,
            tolerance,
        } => verify(
            &Checkpoint::open(file)?,
            &Reference::open(reference)?,
            tolerance,
        ),
    })
}

fn inspect(checkpoint: &Checkpoint, tensors: bool) -> Result<ExitCode, Box<dyn Error>> {
    let inspection = Inspection::new(checkpoint, &DeviceName::Cpu.device());
    chexnet::print(inspection.to_string().trim_end())?;
    if tensors {
        for (name, key, shape) in checkpoint.tensors() {
            chexnet::print(format_args!("{key}  {shape:?}  {name}"))?;
        }
    }
    Ok(match inspection.into_result() {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}

fn converted(task: &Convert) -> Result<ExitCode, Box<dyn Error>> {
    if task.output.exists() {
        let path = task.output.display();
        return Err(format!("{path} is there already: name another file").into());
    }
    let checkpoint = Checkpoint::open(&task.file)?;
    let conversion = Conversion {
        labels: task.labels(),
        keep: task.keep.clone(),
        preprocessing: Some(task.preprocessing(&checkpoint)?),
    };
    let network = convert(&checkpoint, &conversion, &DeviceName::Cpu.device())?;
    network.save(&task.output)?;
    chexnet::print(format_args!(
        "{}\nlabels: {}\ninput: {}\nwritten to {}",
        network.report(),
        network.metadata().labels.join(", "),
        network.metadata().preprocessing,
        task.output.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn verify(
    checkpoint: &Checkpoint,
    reference: &Reference,
    tolerance: f64,
) -> Result<ExitCode, Box<dyn Error>> {
    if !(0.0..1.0).contains(&tolerance) {
        return Err(format!("--tolerance: {tolerance} must be from 0 to below 1").into());
    }
    let device = DeviceName::Cpu.device();
    let network = checkpoint.network(&device)?;
    let comparison = reference.compare(&network, &device)?;
    chexnet::print(format_args!("{}\n{comparison}", network.report()))?;
    if comparison.relative <= tolerance {
        return Ok(ExitCode::SUCCESS);
    }
    Err(format!("the logits differ by more than {tolerance} of the greatest").into())
}
