//! DenseNet-121 memorises 64 real X-rays: the whole path from PNG to gradient works.
#![cfg(feature = "train")]
#![allow(clippy::unwrap_used)]

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use burn::tensor::Device;
use burn_chexnet::Preprocessing;
use burn_chexnet::loss::{BinaryCrossEntropy, Reduction};
use burn_chexnet::model::DenseNetConfig;
use burn_chexnet::train::{
    ClassifierOutput, Order, SupervisedClassifier, XrayLoader, predictions_of,
};
use burn_dist::optimizer::Adam;
use burn_dist::train::{EpochClock, EpochSummary, Observer, Shard, Training};
use chest_datasets::{Augmentation, ChestXray14, ImageSource, Loader, LoaderConfig};

const IMAGES: usize = 64;
const SIZE: usize = 64;
const EPOCHS: usize = 16;

struct Nothing;

impl Observer<SupervisedClassifier<burn_chexnet::model::DenseNet>> for Nothing {
    fn validated(&mut self, _: &ClassifierOutput) -> Result<(), String> {
        Ok(())
    }

    fn epoch_ended(
        &mut self,
        _: &EpochSummary,
        _: &SupervisedClassifier<burn_chexnet::model::DenseNet>,
    ) -> Result<(), String> {
        Ok(())
    }
}

#[test]
fn sixty_four_xrays_are_memorised() {
    let Some(data) = std::env::var_os("CHEXNET_TEST_DATA") else {
        eprintln!("skipped: CHEXNET_TEST_DATA is not set");
        return;
    };
    let folder = PathBuf::from(data).join("nih-sample");
    let nih = ChestXray14::open(&folder).unwrap();
    let dataset = Arc::new(nih.dataset);
    let indices: Vec<usize> = (0..IMAGES).collect();
    let source = ImageSource::new(dataset.clone(), &folder, &indices).unwrap();
    let loader = Loader::new(Arc::new(source), LoaderConfig::new(SIZE, 16)).unwrap();
    let device = Device::flex();
    let clock = EpochClock::default();
    let with_order = |order| {
        let preprocessing = Preprocessing::imagenet(SIZE, 3).unwrap();
        XrayLoader::new(
            loader.clone(),
            &indices,
            order,
            Shard::new(0, 1, 16),
            preprocessing,
            device.clone(),
        )
    };
    let shuffled = with_order(Order::Shuffled {
        seed: 1,
        clock: clock.clone(),
        augmentation: Augmentation::none(),
    });

    device.seed(1);
    let folder = tempfile::tempdir().unwrap();
    let trained = Training::new(folder.path(), device.clone())
        .epochs(EPOCHS)
        .clock(clock)
        .unit("images")
        .launch(
            SupervisedClassifier::new(
                DenseNetConfig::densenet121().init(&device),
                BinaryCrossEntropy::new(Reduction::SumOverLabels),
            ),
            Adam::default().into(),
            Arc::new(shuffled),
            Arc::new(with_order(Order::Fixed)),
            Nothing,
        )
        .unwrap();

    let predictions = predictions_of(
        &trained.model.network,
        &with_order(Order::Fixed),
        "memorised",
    )
    .unwrap();
    let names: HashSet<&str> = predictions
        .records
        .iter()
        .map(|r| r.image.as_str())
        .collect();
    assert_eq!(names.len(), IMAGES);
    let evaluation = predictions.evaluate(dataset.labels().names()).unwrap();
    println!("{evaluation}");
    assert!(evaluation.labels.len() - evaluation.undefined >= 10);
    assert!(evaluation.mean_auroc.unwrap() >= 0.99);
}
