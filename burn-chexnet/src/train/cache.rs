//! The cache of decoded and resized pixels, with its progress shown.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use burn_dist::progress::{Progress, write_line};
use chest_datasets::{CacheProgress, ImageSource, PackedCache};

use super::{RunError, TrainConfig};

/// The pixels of all images in use, in `folder`; progress goes to standard error.
pub(super) fn open_cache(
    folder: &Path,
    source: &ImageSource,
    config: &TrainConfig,
) -> Result<Arc<PackedCache>, RunError> {
    let bars = RefCell::new((None, None));
    let show = |progress| {
        let (verifying, building) = &mut *bars.borrow_mut();
        let set = |bar: &mut Option<Progress>, label, done, total| {
            bar.get_or_insert_with(|| Progress::new(label, total, "images"))
                .set(done);
        };
        match progress {
            CacheProgress::Waiting => write_line("cache: waiting for the process that builds it"),
            CacheProgress::Verifying { done, total } => set(verifying, "verify cache", done, total),
            CacheProgress::Building { done, total } => set(building, "build cache", done, total),
        }
    };
    let (size, on_bad_image) = (config.image_size, config.on_bad_image);
    let cache = PackedCache::open_or_build(folder, source, size, on_bad_image, &show)?;
    let (verifying, building) = bars.into_inner();
    for bar in [building, verifying].into_iter().flatten() {
        bar.finish("");
    }
    write_line(&format!(
        "cache: {} {}",
        cache.path().display(),
        cache.outcome()
    ));
    Ok(Arc::new(cache))
}
