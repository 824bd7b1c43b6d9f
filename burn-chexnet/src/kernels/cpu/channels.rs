//! What is done to each channel of pixels alike: normalisation, its gradient, and sums over pixels.
//! The channels of a pixel are a row, so the compiler makes vectors of them and no sum crosses lanes.

use super::affine::{Affine, Slope};
use super::matrix::{Matrix, MatrixMut};

/// A function that is compiled for each of the instruction sets that are worth it, of which the best
/// one that the machine has is called. The body is plain Rust: the compiler makes the vectors.
macro_rules! vectorised {
    ($(#[$meta:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block) => {
        $(#[$meta])*
        #[allow(clippy::too_many_arguments)]
        pub fn $name($($argument: $type),*) {
            #[inline(always)]
            #[allow(clippy::too_many_arguments)]
            fn body($($argument: $type),*) $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
                #[allow(clippy::too_many_arguments)]
                fn with_avx512($($argument: $type),*) { body($($argument),*) }

                #[target_feature(enable = "avx2,fma")]
                #[allow(clippy::too_many_arguments)]
                fn with_avx2($($argument: $type),*) { body($($argument),*) }

                if is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("fma")
                {
                    // SAFETY: the machine has them (all others follow from these).
                    return unsafe { with_avx512($($argument),*) };
                }
                if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                    // SAFETY: the machine has them.
                    return unsafe { with_avx2($($argument),*) };
                }
            }
            body($($argument),*)
        }
    };
}
pub(super) use vectorised;

/// Zero for what is negative; what is no number stays none.
#[inline(always)]
pub fn relu(value: f32) -> f32 {
    if value < 0.0 { 0.0 } else { value }
}

vectorised! {
    /// `output = scale · input + shift`, and no less than zero if `with_relu`.
    fn normalise(input: Matrix, affine: &Affine, with_relu: bool, output: &mut MatrixMut) {
        for row in 0..input.rows() {
            let pixels = input.row(row).iter().zip(output.row(row));
            let channels = affine.scale.iter().zip(&affine.shift);
            if with_relu {
                for ((x, y), (scale, shift)) in pixels.zip(channels) {
                    *y = relu(scale * x + shift);
                }
            } else {
                for ((x, y), (scale, shift)) in pixels.zip(channels) {
                    *y = scale * x + shift;
                }
            }
        }
    }
}

vectorised! {
    /// Adds the rows of `input` to `sums`.
    fn add_rows(input: Matrix, sums: &mut [f32]) {
        let fours = input.rows() / 4;
        for four in 0..fours {
            let [a, b, c, d] = [0, 1, 2, 3].map(|i| input.row(4 * four + i));
            for ((((sum, a), b), c), d) in sums.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                *sum += (a + b) + (c + d);
            }
        }
        for row in 4 * fours..input.rows() {
            for (sum, x) in sums.iter_mut().zip(input.row(row)) {
                *sum += x;
            }
        }
    }
}

vectorised! {
    /// Adds the squared distances of the rows of `input` to `mean`.
    fn add_squares(input: Matrix, mean: &[f32], sums: &mut [f32]) {
        let fours = input.rows() / 4;
        for four in 0..fours {
            let [a, b, c, d] = [0, 1, 2, 3].map(|i| input.row(4 * four + i));
            let channels = sums.iter_mut().zip(mean);
            for (((((sum, mean), a), b), c), d) in channels.zip(a).zip(b).zip(c).zip(d) {
                let [a, b, c, d] = [a - mean, b - mean, c - mean, d - mean];
                *sum += (a * a + b * b) + (c * c + d * d);
            }
        }
        for row in 4 * fours..input.rows() {
            for ((sum, mean), x) in sums.iter_mut().zip(mean).zip(input.row(row)) {
                *sum += (x - mean) * (x - mean);
            }
        }
    }
}

vectorised! {
    /// Keeps of `gradient` what passed the ReLU, where `output` is positive, and adds to the sums of it,
    /// and of it times the distance of `input` to its mean.
    fn pass_relu(
        input: Matrix,
        output: Matrix,
        mean: &[f32],
        gradient: &mut MatrixMut,
        sums: &mut [f32],
        moments: &mut [f32],
    ) {
        /// Arguments tell the compiler that nothing overlaps: without, it makes no vectors.
        #[inline(always)]
        fn pixel(x: &[f32], y: &[f32], mean: &[f32], g: &mut [f32], sum: &mut [f32], moment: &mut [f32]) {
            let n = x.len();
            let (y, mean, g) = (&y[..n], &mean[..n], &mut g[..n]);
            let (sum, moment) = (&mut sum[..n], &mut moment[..n]);
            for i in 0..n {
                let kept = if y[i] > 0.0 { g[i] } else { 0.0 };
                g[i] = kept;
                sum[i] += kept;
                moment[i] += kept * (x[i] - mean[i]);
            }
        }
        for row in 0..input.rows() {
            pixel(input.row(row), output.row(row), mean, gradient.row(row), sums, moments);
        }
    }
}

vectorised! {
    /// `output = slope · gradient + tilt · (input − mean) + offset`.
    fn through_statistics(
        input: Matrix,
        mean: &[f32],
        slope: &Slope,
        gradient: Matrix,
        output: &mut MatrixMut,
    ) {
        for row in 0..input.rows() {
            let pixels = input.row(row).iter().zip(gradient.row(row)).zip(output.row(row));
            let channels = mean.iter().zip(&slope.slope).zip(&slope.tilt).zip(&slope.offset);
            for (((x, g), output), (((mean, slope), tilt), offset)) in pixels.zip(channels) {
                *output = slope * g + (tilt * (x - mean) + offset);
            }
        }
    }
}

vectorised! {
    /// As [`through_statistics`], where the gradient is.
    fn through_statistics_in_place(
        input: Matrix,
        mean: &[f32],
        slope: &Slope,
        gradient: &mut MatrixMut,
    ) {
        for row in 0..input.rows() {
            let pixels = input.row(row).iter().zip(gradient.row(row));
            let channels = mean.iter().zip(&slope.slope).zip(&slope.tilt).zip(&slope.offset);
            for ((x, g), (((mean, slope), tilt), offset)) in pixels.zip(channels) {
                *g = slope * *g + (tilt * (x - mean) + offset);
            }
        }
    }
}

vectorised! {
    /// Adds to the sums of `gradient`, and of it times the distance of `input` to its mean.
    fn add_moments(
        input: Matrix,
        mean: &[f32],
        gradient: Matrix,
        sums: &mut [f32],
        moments: &mut [f32],
    ) {
        #[inline(always)]
        fn pixel(x: &[f32], mean: &[f32], g: &[f32], sum: &mut [f32], moment: &mut [f32]) {
            let n = x.len();
            let (mean, g, sum, moment) = (&mean[..n], &g[..n], &mut sum[..n], &mut moment[..n]);
            for i in 0..n {
                sum[i] += g[i];
                moment[i] += g[i] * (x[i] - mean[i]);
            }
        }
        for row in 0..input.rows() {
            pixel(input.row(row), mean, gradient.row(row), sums, moments);
        }
    }
}

vectorised! {
    /// `a += b`
    fn add(a: &mut [f32], b: &[f32]) {
        for (a, b) in a.iter_mut().zip(b) {
            *a += b;
        }
    }
}
