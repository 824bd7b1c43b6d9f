//! A seed fixes the initial weights. Alone in its process: the generator of a device is shared by
//! all threads.

use burn::tensor::Device;
use burn_chexnet::model::DenseNetConfig;

#[test]
fn a_seed_fixes_the_initial_weights() {
    let device = Device::flex();
    let weights = |seed| {
        device.seed(seed);
        let model = DenseNetConfig::densenet121().init(&device);
        model.features.conv0.weight.val().into_data()
    };
    assert_eq!(weights(3), weights(3));
    assert_ne!(weights(3), weights(4));
}
