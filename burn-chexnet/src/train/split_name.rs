//! The name of a split in options and files.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Which images train, validate and test.
///
/// ```
/// use burn_chexnet::train::SplitName;
/// assert_eq!("random".parse(), Ok(SplitName::Random));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum SplitName {
    /// NIH's lists; a seeded tenth of the patients of `train_val_list.txt` validates.
    Official,
    /// 70/10/20 by patient, seeded.
    Random,
    /// A table `image,split`, such as the `split.csv` of another run.
    File(PathBuf),
}

impl fmt::Display for SplitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Official => f.write_str("official"),
            Self::Random => f.write_str("random"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

impl FromStr for SplitName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "official" => Ok(Self::Official),
            "random" => Ok(Self::Random),
            file if file.ends_with(".csv") => Ok(Self::File(file.into())),
            other => Err(format!(
                "unknown split `{other}`: expected official, random or a .csv table image,split"
            )),
        }
    }
}

impl TryFrom<String> for SplitName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        name.parse()
    }
}

impl From<SplitName> for String {
    fn from(split: SplitName) -> Self {
        split.to_string()
    }
}
