//! Another project: CheXNet's backbone under a head of its own, here the age of a patient in years.
//! Nothing of the training run is in the build:
//!
//! ```text
//! cargo run -p burn-chexnet --example embed_in_burn -- runs/train_chexnet/best.safetensors
//! ```

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{Device, Tensor, activation::relu};
use burn_chexnet::model::{Classifier, DenseNet, DenseNetConfig};
use burn_chexnet::{Preprocessing, weights};

#[derive(Module, Debug)]
struct AgeNet {
    backbone: DenseNet,
    hidden: Linear,
    age: Linear,
}

impl AgeNet {
    /// Years, `[batch, 1]`, of normalised images, `[batch, 3, height, width]`.
    fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let map = self.backbone.features(images); // [batch, 1024, height / 32, width / 32]
        let features = map.mean_dim(3).mean_dim(2).flatten::<2>(1, 3); // [batch, 1024]
        self.age.forward(relu(self.hidden.forward(features)))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::flex().autodiff();
    let mut backbone = DenseNetConfig::densenet121().init(&device);
    if let Some(path) = std::env::args().nth(1) {
        let report = weights::load_backbone(&mut backbone, path).map_err(|e| e.to_string())?;
        println!("{report}");
    }
    let (hidden, age) = (LinearConfig::new(1024, 64), LinearConfig::new(64, 1));
    let (hidden, age) = (hidden.init(&device), age.init(&device));
    let mut model = AgeNet {
        backbone,
        hidden,
        age,
    };

    // Your own images: 8-bit grey, 64 × 64, here four of even brightness.
    let grey: Vec<u8> = (0..4 * 64 * 64).map(|i| (i / 4096 * 60) as u8).collect();
    let images = Preprocessing::imagenet(64, 3)?.tensor(&grey, &device)?;
    let years = Tensor::<2>::from_floats([[20.0], [40.0], [60.0], [80.0]], &device);
    let mut optimizer = AdamConfig::new().init();
    for step in 1..=5 {
        let loss = (model.forward(images.clone()) - years.clone()).abs().mean();
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        println!("step {step}: off by {:.1} years", loss.into_scalar::<f32>());
        model = optimizer.step(3e-3, model, gradients);
    }
    Ok(())
}
