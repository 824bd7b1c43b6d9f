//! An augmentation as the text of a command line.

use std::fmt;
use std::str::FromStr;

use super::{Augmentation, AugmentationError};

impl FromStr for Augmentation {
    type Err = AugmentationError;

    /// Reads `none`, or a list of `field=value` between commas; a field that is not named is zero,
    /// and `flip` alone is `flip=0.5`. So `flip` is [`Augmentation::paper`].
    ///
    /// # Errors
    ///
    /// An unknown field, a field that is there twice, a value that is no number, and the errors of
    /// [`check`](Augmentation::check).
    ///
    /// ```
    /// use chest_datasets::Augmentation;
    ///
    /// assert_eq!("none".parse(), Ok(Augmentation::none()));
    /// assert_eq!("flip".parse(), Ok(Augmentation::paper()));
    /// let augmentation: Augmentation = "flip=0.5,rotation=5,brightness=0.1".parse()?;
    /// assert_eq!(augmentation.rotation, 5.0);
    /// assert_eq!(augmentation.scale, 0.0);
    /// # Ok::<(), chest_datasets::AugmentationError>(())
    /// ```
    fn from_str(text: &str) -> Result<Self, AugmentationError> {
        let mut augmentation = Self::none();
        if text == "none" {
            return Ok(augmentation);
        }
        let mut named = Vec::new();
        for part in text.split(',') {
            let unknown = || AugmentationError::Unknown {
                part: part.to_owned(),
            };
            let (name, value) = match part.trim() {
                "flip" => ("flip", Self::paper().flip),
                field => {
                    let (name, value) = field.split_once('=').ok_or_else(unknown)?;
                    (name, value.parse().map_err(|_| unknown())?)
                }
            };
            let (field, place) = match name {
                "flip" => ("flip", &mut augmentation.flip),
                "rotation" => ("rotation", &mut augmentation.rotation),
                "translation" => ("translation", &mut augmentation.translation),
                "scale" => ("scale", &mut augmentation.scale),
                "brightness" => ("brightness", &mut augmentation.brightness),
                _ => return Err(unknown()),
            };
            if named.contains(&field) {
                return Err(AugmentationError::Twice { field });
            }
            named.push(field);
            *place = value;
        }
        augmentation.check()?;
        Ok(augmentation)
    }
}

impl fmt::Display for Augmentation {
    /// Writes what [`from_str`](FromStr::from_str) reads: the fields that are not zero.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() {
            return formatter.pad("none");
        }
        if *self == Self::paper() {
            return formatter.pad("flip");
        }
        let parts: Vec<String> = [
            ("flip", self.flip),
            ("rotation", self.rotation),
            ("translation", self.translation),
            ("scale", self.scale),
            ("brightness", self.brightness),
        ]
        .into_iter()
        .filter(|(_, value)| *value != 0.0)
        .map(|(field, value)| format!("{field}={value}"))
        .collect();
        formatter.pad(&parts.join(","))
    }
}

impl TryFrom<String> for Augmentation {
    type Error = AugmentationError;

    fn try_from(text: String) -> Result<Self, AugmentationError> {
        text.parse()
    }
}

impl From<Augmentation> for String {
    fn from(augmentation: Augmentation) -> Self {
        augmentation.to_string()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Augmentation {
        text.parse().unwrap()
    }

    #[test]
    fn every_form_is_read() {
        assert_eq!(read("none"), Augmentation::none());
        assert_eq!(read("flip"), Augmentation::paper());
        assert_eq!(read("flip=0"), Augmentation::none());
        let all = Augmentation {
            flip: 0.5,
            rotation: 5.0,
            translation: 0.02,
            scale: 0.05,
            brightness: 0.1,
        };
        let text = "flip=0.5,rotation=5,translation=0.02,scale=0.05,brightness=0.1";
        assert_eq!(read(text), all);
        assert_eq!(all.to_string(), text);
        assert_eq!(
            read("brightness=0.1, scale=0.05, translation=0.02, rotation=5, flip"),
            all
        );
        let rotation = Augmentation {
            rotation: 5.0,
            ..Augmentation::none()
        };
        assert_eq!(read("rotation=5"), rotation);
    }

    #[test]
    fn what_is_no_augmentation_is_refused_in_one_line() {
        for part in [
            "",
            "paper",
            "rotation",
            "rotation=",
            "rotation=five",
            "Flip=1",
            "zoom=0.1",
            "a\nb",
        ] {
            for text in [part.to_owned(), format!("scale=0.1,{part}")] {
                assert_eq!(
                    text.parse::<Augmentation>().unwrap_err().to_string(),
                    format!(
                        "{part:?} is no augmentation: give none, flip, or a list such as \
                         flip=0.5,rotation=5,translation=0.02,scale=0.05,brightness=0.1"
                    )
                );
            }
        }
        let error = |text: &str| text.parse::<Augmentation>().unwrap_err().to_string();
        assert!(error("none,flip").starts_with("\"none\" is no augmentation"));
        assert_eq!(
            error("flip,flip=0.5"),
            "augmentation: flip is given twice: remove one"
        );
        assert_eq!(
            error("flip,rotation=90"),
            "augmentation: rotation is 90: it must be degrees from 0 to 45"
        );
    }

    proptest! {
        #[test]
        fn the_text_of_an_augmentation_is_read_as_it_was(
            flip in 0.0_f32..=1.0,
            rotation in 0.0_f32..=45.0,
            translation in 0.0_f32..=0.5,
            scale in 0.0_f32..=0.5,
            brightness in 0.0_f32..=1.0,
            // A field that is zero is not written.
            present: [bool; 5],
        ) {
            let kept = |index: usize, value: f32| if present[index] { value } else { 0.0 };
            let augmentation = Augmentation {
                flip: kept(0, flip),
                rotation: kept(1, rotation),
                translation: kept(2, translation),
                scale: kept(3, scale),
                brightness: kept(4, brightness),
            };
            prop_assert_eq!(augmentation.to_string().parse(), Ok(augmentation));
        }
    }
}
