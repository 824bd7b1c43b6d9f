//! Why images or batches of them cannot be had.

use thiserror::Error;

use crate::bad_image::BadImage;

/// Why images or batches of them cannot be had.
#[derive(Debug, Error)]
pub enum LoadError {
    /// A size of zero.
    #[error("{option} is 0: it must be at least 1")]
    Zero {
        /// The option.
        option: &'static str,
    },
    /// A size beyond what images are resized to.
    #[error("image_size is {image_size}: it must be at most {largest}")]
    TooLarge {
        /// The size.
        image_size: usize,
        /// The largest size.
        largest: usize,
    },
    /// An image cannot be read; or it is bad, and [`Stop`](crate::OnBadImage::Stop) is to be done
    /// about it.
    #[error("{0}")]
    Image(BadImage),
    /// The order holds a record whose image the source was not asked to find.
    #[error(
        "record {index} is not in use in the source of the images: name it when the source is made"
    )]
    NotInUse {
        /// The index of the record.
        index: usize,
    },
    /// The cache holds images of another size.
    #[error(
        "the cache holds images of {cached} by {cached} pixels, and image_size is {image_size}: open a cache of that size"
    )]
    CacheSize {
        /// Width and height of the images of the cache, in pixels.
        cached: usize,
        /// The size that the loader is to give.
        image_size: usize,
    },
    /// The cache was opened without an image that the loader has in use.
    #[error(
        "the cache does not hold the image {image:?} of the loader's source: open it with this source"
    )]
    NotCached {
        /// The first such image, as the table names it.
        image: String,
    },
    /// The thread that makes the batches cannot be started.
    #[error("the thread that loads images cannot be started: {source}")]
    Thread {
        /// Why.
        source: std::io::Error,
    },
    /// The thread that makes the batches panicked. A decoder that panics makes a bad image
    /// instead.
    #[error("the thread that loads images panicked after {images} images: {message}")]
    Panicked {
        /// Images that were handed over before.
        images: u64,
        /// What the panic says.
        message: String,
    },
}
