//! Kernels for the CPU: slices in, slices out; no Burn here.

#[cfg(feature = "train")]
pub mod adam;
pub mod affine;
pub mod channels;
pub mod convolution;
pub mod dense_layer;
pub mod matrix;
pub mod memory;
pub mod moments;
pub mod norm;
pub mod panels;
pub mod parallel;
mod pooling;
mod product;
#[cfg(test)]
mod reference;
pub mod window;
