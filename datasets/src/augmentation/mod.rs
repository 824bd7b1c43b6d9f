//! Random changes to the images of training: how much of each is wanted, what is drawn for an
//! image, and how it is applied. It may not depend on tables, files or the loader.
//!
//! A [`Draw`] is fixed by the seed, the epoch and the image's name, and does not know how much is
//! wanted; an [`Augmentation`] knows how much is wanted, and applies a draw to pixels.

mod apply;
mod draw;
mod text;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use draw::Draw;

/// What can be wrong with an augmentation.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum AugmentationError {
    /// A field is not a number of its range.
    #[error("augmentation: {field} is {value}: it must be {unit} from 0 to {greatest}")]
    OutOfRange {
        /// The field.
        field: &'static str,
        /// Its value.
        value: f32,
        /// What the field is measured in.
        unit: &'static str,
        /// The greatest value that is permitted.
        greatest: f32,
    },
    /// A part of a text is none of those that are read.
    #[error(
        "{part:?} is no augmentation: give none, flip, or a list such as \
         flip=0.5,rotation=5,translation=0.02,scale=0.05,brightness=0.1"
    )]
    Unknown {
        /// The part.
        part: String,
    },
    /// A text names a field twice.
    #[error("augmentation: {field} is given twice: remove one")]
    Twice {
        /// The field.
        field: &'static str,
    },
}

/// How much the images of training are changed at random; zero is not at all.
///
/// As text, with serde as well, it is `none`, `flip` or a list of fields: see
/// [`from_str`](std::str::FromStr::from_str). Text with a value out of its range is refused; the
/// fields themselves refuse nothing, [`check`](Self::check) does.
///
/// ```
/// use chest_datasets::{Augmentation, Draw};
///
/// let augmentation: Augmentation = "flip,rotation=5".parse()?;
/// augmentation.check()?;
///
/// let mut pixels = vec![0; 224 * 224];
/// augmentation.apply(&mut pixels, 224, Draw::new(42, 0, "00000001_000.png"));
/// # Ok::<(), chest_datasets::AugmentationError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Augmentation {
    /// The probability of a mirror image, left for right: 0 to 1.
    pub flip: f32,
    /// The greatest rotation about the centre, either way, in degrees: 0 to 45.
    pub rotation: f32,
    /// The greatest shift across and the greatest shift down, either way, as a fraction of the
    /// side: 0 to 0.5.
    pub translation: f32,
    /// The greatest enlargement and reduction about the centre: the factor is from `1 - scale` to
    /// `1 + scale`. 0 to 0.5.
    pub scale: f32,
    /// The greatest change of the grey values: they are multiplied by a factor from
    /// `1 - brightness` to `1 + brightness`. 0 to 1.
    pub brightness: f32,
}

impl Augmentation {
    /// Images as they are.
    pub const fn none() -> Self {
        Self {
            flip: 0.0,
            rotation: 0.0,
            translation: 0.0,
            scale: 0.0,
            brightness: 0.0,
        }
    }

    /// What the CheXNet paper does (Rajpurkar et al., 2017): half of the images are flipped.
    pub const fn paper() -> Self {
        Self {
            flip: 0.5,
            ..Self::none()
        }
    }

    /// Whether no image is changed.
    pub fn is_none(&self) -> bool {
        *self == Self::none()
    }

    /// Checks that every field is a number of its range.
    ///
    /// # Errors
    ///
    /// A field is below zero, above the greatest value that is permitted, or no number. The first
    /// such field is named, with its range.
    pub fn check(&self) -> Result<(), AugmentationError> {
        for (field, value, unit, greatest) in [
            ("flip", self.flip, "a probability", 1.0),
            ("rotation", self.rotation, "degrees", 45.0),
            (
                "translation",
                self.translation,
                "a fraction of the side",
                0.5,
            ),
            ("scale", self.scale, "a fraction of the size", 0.5),
            (
                "brightness",
                self.brightness,
                "a fraction of the grey values",
                1.0,
            ),
        ] {
            // Not a comparison with the bounds: NaN must be refused.
            if !(0.0..=greatest).contains(&value) {
                return Err(AugmentationError::OutOfRange {
                    field,
                    value,
                    unit,
                    greatest,
                });
            }
        }
        Ok(())
    }
}

impl Default for Augmentation {
    /// [`Augmentation::paper`].
    fn default() -> Self {
        Self::paper()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn the_paper_flips_half_and_is_the_default() {
        assert_eq!(Augmentation::default(), Augmentation::paper());
        assert_eq!(Augmentation::paper().flip, 0.5);
        assert!(!Augmentation::paper().is_none());
        assert!(Augmentation::none().is_none());
    }

    #[test]
    fn both_ends_of_every_range_are_permitted() {
        Augmentation::none().check().unwrap();
        let greatest = Augmentation {
            flip: 1.0,
            rotation: 45.0,
            translation: 0.5,
            scale: 0.5,
            brightness: 1.0,
        };
        greatest.check().unwrap();
    }

    #[test]
    fn what_is_out_of_range_is_named_with_its_range() {
        let none = Augmentation::none();
        for (augmentation, message) in [
            (
                Augmentation { flip: 1.5, ..none },
                "flip is 1.5: it must be a probability from 0 to 1",
            ),
            (
                Augmentation {
                    rotation: 46.0,
                    ..none
                },
                "rotation is 46: it must be degrees from 0 to 45",
            ),
            (
                Augmentation {
                    translation: 10.0,
                    ..none
                },
                "translation is 10: it must be a fraction of the side from 0 to 0.5",
            ),
            (
                Augmentation {
                    scale: f32::NAN,
                    ..none
                },
                "scale is NaN: it must be a fraction of the size from 0 to 0.5",
            ),
            (
                Augmentation {
                    brightness: f32::INFINITY,
                    ..none
                },
                "brightness is inf: it must be a fraction of the grey values from 0 to 1",
            ),
            (
                Augmentation {
                    brightness: -0.1,
                    ..none
                },
                "brightness is -0.1: it must be a fraction of the grey values from 0 to 1",
            ),
        ] {
            let error = augmentation.check().unwrap_err();
            assert_eq!(error.to_string(), format!("augmentation: {message}"));
        }
    }

    #[test]
    fn serde_is_the_text() {
        let json = serde_json::to_string(&Augmentation::paper()).unwrap();
        let read: Augmentation = serde_json::from_str(&json).unwrap();
        assert_eq!((json.as_str(), read), (r#""flip""#, Augmentation::paper()));
        for (text, part) in [(r#""zoom=2""#, "zoom"), (r#""rotation=90""#, "45")] {
            let error = serde_json::from_str::<Augmentation>(text).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
