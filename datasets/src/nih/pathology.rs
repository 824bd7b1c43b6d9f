//! The 14 findings of NIH ChestX-ray14.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A finding of NIH ChestX-ray14 (Wang et al., CVPR 2017), in the order of the CheXNet paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pathology {
    /// Lung tissue without air.
    Atelectasis,
    /// An enlarged heart.
    Cardiomegaly,
    /// Fluid between lung and chest wall.
    Effusion,
    /// A denser area of lung tissue, not well defined.
    Infiltration,
    /// A round opacity of 3 cm or more.
    Mass,
    /// A round opacity below 3 cm.
    Nodule,
    /// An infection of the lung.
    Pneumonia,
    /// Air between lung and chest wall.
    Pneumothorax,
    /// Air spaces filled with fluid or cells.
    Consolidation,
    /// Fluid in the lung tissue.
    Edema,
    /// Destroyed, over-inflated air spaces.
    Emphysema,
    /// Scarred lung tissue.
    Fibrosis,
    /// A thickened lining of the lung: `Pleural_Thickening` in the tables.
    PleuralThickening,
    /// An abdominal organ in the chest.
    Hernia,
}

impl Pathology {
    /// All 14, in the order of the CheXNet paper.
    pub const ALL: [Self; 14] = [
        Self::Atelectasis,
        Self::Cardiomegaly,
        Self::Effusion,
        Self::Infiltration,
        Self::Mass,
        Self::Nodule,
        Self::Pneumonia,
        Self::Pneumothorax,
        Self::Consolidation,
        Self::Edema,
        Self::Emphysema,
        Self::Fibrosis,
        Self::PleuralThickening,
        Self::Hernia,
    ];

    /// The name in NIH's tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Atelectasis => "Atelectasis",
            Self::Cardiomegaly => "Cardiomegaly",
            Self::Effusion => "Effusion",
            Self::Infiltration => "Infiltration",
            Self::Mass => "Mass",
            Self::Nodule => "Nodule",
            Self::Pneumonia => "Pneumonia",
            Self::Pneumothorax => "Pneumothorax",
            Self::Consolidation => "Consolidation",
            Self::Edema => "Edema",
            Self::Emphysema => "Emphysema",
            Self::Fibrosis => "Fibrosis",
            Self::PleuralThickening => "Pleural_Thickening",
            Self::Hernia => "Hernia",
        }
    }
}

impl fmt::Display for Pathology {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// A name that is none of the 14.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{name:?} is not one of the 14 findings of ChestX-ray14: {}", Pathology::ALL.map(Pathology::name).join(", "))]
pub struct UnknownPathology {
    /// The name.
    pub name: String,
}

impl FromStr for Pathology {
    type Err = UnknownPathology;

    /// Reads a name as NIH's tables write it. `Infiltrate`, the spelling of the box list, is
    /// [`Pathology::Infiltration`].
    fn from_str(name: &str) -> Result<Self, UnknownPathology> {
        if name == "Infiltrate" {
            return Ok(Self::Infiltration);
        }
        Self::ALL
            .into_iter()
            .find(|pathology| pathology.name() == name)
            .ok_or_else(|| UnknownPathology {
                name: name.to_owned(),
            })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back() {
        for (position, pathology) in Pathology::ALL.into_iter().enumerate() {
            assert_eq!(pathology.name().parse(), Ok(pathology));
            assert_eq!(pathology as usize, position);
        }
        assert_eq!("Infiltrate".parse(), Ok(Pathology::Infiltration));
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let message = "Oedema".parse::<Pathology>().unwrap_err().to_string();
        assert!(
            message.starts_with(
                "\"Oedema\" is not one of the 14 findings of ChestX-ray14: Atelectasis, "
            ),
            "{message}"
        );
        assert!(message.ends_with("Pleural_Thickening, Hernia"), "{message}");
    }
}
