//! What the networks are computed with: kernels where the backend has them, Burn's own operations
//! elsewhere and wherever a layer is one that the kernels do not know.
//!
//! | room | what it is |
//! |---|---|
//! | `operations` | the kernels as an extension of Burn's backends |
//! | `autodiff` | their backward passes |
//! | `tensors` | them on Burn's tensors |
//! | `flex` | tensors of Burn's CPU backend to slices and back |
//! | `cpu` | the kernels on slices, without Burn |
//!
//! They work on 32 bit floats. [`plain`] shows what the same network gives without them: the reference that
//! they are tested and measured against. May not know the layers of this crate, which stand on it.

#[cfg(feature = "train")]
mod adam;
#[cfg(feature = "flex")]
mod autodiff;
#[cfg(feature = "flex")]
mod cpu;
#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "flex")]
mod operations;
mod pool;
#[cfg(feature = "flex")]
mod tensors;

use std::cell::Cell;

#[cfg(feature = "flex")]
use burn::nn::PaddingConfig2d;
use burn::nn::conv::Conv2d;
#[cfg(feature = "flex")]
use burn::tensor::DType;
use burn::tensor::{Tensor, activation::relu};

#[cfg(feature = "train")]
pub use adam::FusedAdam;
pub use pool::Pool;
#[cfg(feature = "flex")]
pub(crate) use tensors::{GrowingMap, LayerWeights, NormWeights, norm};

thread_local!(static PLAIN: Cell<bool> = const { Cell::new(false) });

/// What `run` gives with Burn's own operations in place of the kernels, on this thread. A backward pass goes back
/// the way that the forward pass went.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use burn_chexnet::kernels::plain;
/// use burn_chexnet::model::{Classifier, DenseNetConfig};
///
/// let device = Device::flex();
/// let model = DenseNetConfig::densenet121().init(&device);
/// let images = Tensor::ones([1, 3, 32, 32], &device);
/// let expected = plain(|| model.logits(images.clone()));
/// let distance = (model.logits(images) - expected).abs().max();
/// assert!(distance.into_scalar::<f32>() < 1e-3);
/// ```
pub fn plain<R>(run: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            PLAIN.set(self.0);
        }
    }
    let _restore = Restore(PLAIN.replace(true));
    run()
}

/// Gives memory that the kernels keep for their next call back to the system, weights that they keep in another order for
/// inference too. They do so by themselves with what they have not used for a while; a program that needs the memory at
/// once calls this.
pub fn release_memory() {
    #[cfg(feature = "flex")]
    {
        flex::release_packed();
        cpu::memory::release();
    }
}

/// Whether kernels work on `input`.
#[cfg(feature = "flex")]
pub(crate) fn serve<const D: usize>(input: &Tensor<D>) -> bool {
    let served = operations::is_served(&input.device());
    served && !PLAIN.get() && input.dtype() == DType::F32 && input.shape().num_elements() > 0
}

/// `layer` applied to `input`, `[batch, channels, height, width]`.
pub(crate) fn convolution(layer: &Conv2d, input: Tensor<4>) -> Tensor<4> {
    #[cfg(feature = "flex")]
    if serve(&input)
        && let Some(slide) = slide(layer)
        && fits(layer, &input, slide)
    {
        return tensors::convolution(input, layer.weight.val(), slide);
    }
    layer.forward(input)
}

/// Whether a kernel makes the two convolutions of a layer of a dense block: 1×1, then 3×3 that keeps the size.
#[cfg(feature = "flex")]
pub(crate) fn know_dense_layer(first: &Conv2d, second: &Conv2d) -> bool {
    let of = |layer: &Conv2d| Some((layer.weight.val().dims()[2], slide(layer)?));
    let known = |kernel: usize| {
        let padding = kernel / 2;
        Some((kernel, operations::Slide { stride: 1, padding }))
    };
    of(first) == known(1)
        && of(second) == known(3)
        && second.weight.val().dims()[1] == first.weight.val().dims()[0]
}

/// How `layer` slides, if that is a way that the kernels know: with a square kernel, the same in both directions,
/// without groups, dilation and bias.
#[cfg(feature = "flex")]
fn slide(layer: &Conv2d) -> Option<operations::Slide> {
    let [_, _, kernel, width] = layer.weight.val().dims();
    let padding = match layer.padding {
        PaddingConfig2d::Valid => 0,
        PaddingConfig2d::Explicit(top, left, bottom, right)
            if [left, bottom, right] == [top; 3] =>
        {
            top
        }
        _ => return None,
    };
    let known = layer.bias.is_none()
        && layer.groups == 1
        && layer.dilation == [1, 1]
        && kernel == width
        && layer.stride == [layer.stride[0]; 2];
    known.then_some(operations::Slide {
        stride: layer.stride[0],
        padding,
    })
}

/// Whether `input` has the channels of `layer`, and a place for its kernel; what has not is left to Burn, which says so.
#[cfg(feature = "flex")]
fn fits(layer: &Conv2d, input: &Tensor<4>, slide: operations::Slide) -> bool {
    let [_, inputs, kernel, _] = layer.weight.val().dims();
    let [_, channels, height, width] = input.dims();
    channels == inputs && height.min(width) + 2 * slide.padding >= kernel
}

/// ReLU of `normalised` if `with_relu`, then the pool; with Burn's own operations.
pub(crate) fn plain_after(normalised: Tensor<4>, with_relu: bool, pool: Pool) -> Tensor<4> {
    let activated = if with_relu {
        relu(normalised)
    } else {
        normalised
    };
    pool.plain(activated)
}
