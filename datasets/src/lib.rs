//! Chest X-ray data sets: records and labels, splits by patient, image decoding, loading ahead.
//!
//! This crate turns files on disk into batches of 8-bit grey pixels and knows nothing of deep
//! learning: it may not depend on Burn, nor on any other member of the workspace.
//!
//! | room | what is in it |
//! |---|---|
//! | [`labels`] | [`LabelSet`]: the ordered label names that travel with data, weights and results |
//! | [`record`] | [`Record`]: one row of a table: an image, its patient, its labels |
//! | [`place`] | [`Place`]: the table and the row of a record, for messages |
//! | [`dataset`] | [`Dataset`]: the records of one table, or of several |
//! | [`label_policy`] | [`LabelPolicy`]: what uncertain and blank labels become |
//! | [`table`] | any table `image,patient,<label>...` |
//! | [`nih`] | NIH ChestX-ray14: its tables, official lists and boxes |
//! | [`chexpert`] | [`CheXpert`]: its two tables |
//! | [`split`] | [`Split`]: train, validation and test by patient, and the check for leaks |
//! | [`order`] | [`epoch_order`]: the shuffled order of an epoch |
//! | [`phantom`] | [`PhantomConfig`]: a synthetic data set, so that everything runs with no download |
//! | [`image`] | [`GrayImage`]: PNG, JPEG and (feature `dicom`) DICOM to grey, resized or resized and cropped; [`CropRegion`]: what a crop shows |
//! | [`image_index`] | [`ImageIndex`]: the image files below a folder |
//! | [`source`] | [`ImageSource`]: where the images of a data set lie |
//! | [`augmentation`] | [`Augmentation`]: random flips and small changes by seed, epoch and image |
//! | [`bad_image`] | [`BadImage`]: an image that cannot be decoded; [`OnBadImage`]: stop or skip |
//! | [`cache`] | [`PackedCache`]: the resized pixels of a source in one memory-mapped file |
//! | [`loader`] | [`Loader`]: batches made ahead of their consumer |
//!
//! # Example
//!
//! ```no_run
//! use std::sync::Arc;
//! use chest_datasets::{ChestXray14, ImageSource, Loader, LoaderConfig, Split, epoch_order};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let nih = ChestXray14::open("ChestX-ray14")?;
//! let split = Split::random(&nih.dataset, 42);
//! split.ensure_disjoint(&nih.dataset)?;
//!
//! let source = ImageSource::new(Arc::new(nih.dataset), "ChestX-ray14", split.train())?;
//! let loader = Loader::new(Arc::new(source), LoaderConfig::new(224, 16))?;
//! for batch in loader.batches(epoch_order(split.train(), 42, 0)) {
//!     let batch = batch?;
//!     assert_eq!(batch.pixels.len(), batch.indices.len() * 224 * 224);
//! }
//! # Ok(())
//! # }
//! ```

pub mod augmentation;
pub mod bad_image;
pub mod cache;
pub mod chexpert;
mod csv_file;
pub mod dataset;
mod decoding;
pub mod image;
pub mod image_index;
pub mod label_policy;
pub mod labels;
mod load_error;
pub mod loader;
pub mod nih;
pub mod order;
mod panic_message;
pub mod phantom;
pub mod place;
pub mod record;
pub mod source;
pub mod split;
pub mod table;
mod table_error;
mod text_file;

pub use augmentation::{Augmentation, AugmentationError, Draw};
pub use bad_image::{BadImage, OnBadImage};
pub use cache::{CacheError, CacheOutcome, CacheProgress, PackedCache};
pub use chexpert::CheXpert;
pub use dataset::Dataset;
pub use image::{CropRegion, GrayImage, ImageError, Pixels};
pub use image_index::{ImageIndex, ImageIndexError};
pub use label_policy::{LabelPolicies, LabelPolicy, LabelPolicyError, LabelRule, PolicyReport};
pub use labels::{LabelError, LabelSet};
pub use load_error::LoadError;
pub use loader::{Batches, ImageBatch, Loader, LoaderConfig, LoaderStatistics};
pub use nih::{BoundingBox, ChestXray14, ImageList, OfficialLists, Pathology};
pub use order::epoch_order;
pub use phantom::{PhantomConfig, PhantomError, PhantomOutcome};
pub use place::Place;
pub use record::{LabelValue, Record, Sex, View};
pub use source::{ImageSource, SourceError};
pub use split::{Side, Split, SplitError, SplitReport};
pub use table_error::TableError;
