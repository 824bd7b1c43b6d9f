//! The schedule of the learning rate, by name and in epochs.

use std::fmt;
use std::str::FromStr;

use burn_dist::train::{Plateau, Schedule};
use serde::{Deserialize, Serialize};

use super::text::Text;

/// How the learning rate falls over a run.
///
/// ```
/// use burn_chexnet::train::ScheduleChoice;
/// let choice: ScheduleChoice = "step,epochs=10,factor=0.1".parse()?;
/// assert_eq!(choice.to_string(), "step,epochs=10,factor=0.1");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum ScheduleChoice {
    /// Not at all.
    Constant,
    /// Along half a cosine over the whole run.
    Cosine {
        /// The rate at its end.
        minimum: f64,
    },
    /// Multiplied by `factor` every so many epochs.
    Step {
        /// Epochs between two changes.
        epochs: f64,
        /// Factor on the rate.
        factor: f64,
    },
    /// Multiplied by `factor` after more than `patience` epochs without a lower validation loss.
    Plateau {
        /// Factor on the rate.
        factor: f64,
        /// Epochs without improvement that are forgiven.
        patience: usize,
    },
}

impl Default for ScheduleChoice {
    /// The paper's: a tenth, each time the validation loss plateaus after an epoch.
    fn default() -> Self {
        Self::Plateau {
            factor: 0.1,
            patience: 0,
        }
    }
}

impl ScheduleChoice {
    /// In steps of the optimiser: `epoch` steps make one epoch, and `run` the whole run behind the
    /// warm-up.
    pub(in crate::train) fn schedule(self, epoch: usize, run: usize) -> Schedule {
        match self {
            Self::Constant => Schedule::Constant,
            Self::Cosine { minimum } => Schedule::Cosine {
                steps: run,
                minimum,
            },
            Self::Step { epochs, factor } => Schedule::Step {
                every: ((epochs * epoch as f64).round() as usize).max(1),
                factor,
            },
            Self::Plateau { factor, patience } => Schedule::Plateau(Plateau::new(factor, patience)),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut text = Text::parse(text)?;
        let factor = |text: &mut Text| {
            text.number("factor", 0.1, "above 0 and below 1", |factor| {
                factor > 0.0 && factor < 1.0
            })
        };
        let choice = match text.name {
            "constant" => Self::Constant,
            "cosine" => Self::Cosine {
                minimum: text.number("minimum", 0.0, "0 or above", |rate| {
                    rate >= 0.0 && rate.is_finite()
                })?,
            },
            "step" => Self::Step {
                epochs: text.number("epochs", 1.0, "above 0", |epochs| {
                    epochs > 0.0 && epochs.is_finite()
                })?,
                factor: factor(&mut text)?,
            },
            "plateau" => Self::Plateau {
                factor: factor(&mut text)?,
                patience: text.number("patience", 0.0, "a whole number of epochs", |epochs| {
                    epochs >= 0.0 && epochs.fract() == 0.0 && epochs < 1e9
                })? as usize,
            },
            _ => return Err("expected constant, cosine, step or plateau".to_string()),
        };
        text.finish()?;
        Ok(choice)
    }
}

impl FromStr for ScheduleChoice {
    type Err = String;

    /// Reads `constant`, `cosine`, `cosine,minimum=RATE`, `step,epochs=N,factor=F` or
    /// `plateau,factor=F,patience=N`.
    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse(text).map_err(|reason| {
            format!("schedule `{text}`: {reason} (such as cosine or plateau,factor=0.1,patience=1)")
        })
    }
}

impl fmt::Display for ScheduleChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant => f.write_str("constant"),
            Self::Cosine { minimum: 0.0 } => f.write_str("cosine"),
            Self::Cosine { minimum } => write!(f, "cosine,minimum={minimum}"),
            Self::Step { epochs, factor } => write!(f, "step,epochs={epochs},factor={factor}"),
            Self::Plateau { factor, patience } => {
                write!(f, "plateau,factor={factor},patience={patience}")
            }
        }
    }
}

impl TryFrom<String> for ScheduleChoice {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<ScheduleChoice> for String {
    fn from(choice: ScheduleChoice) -> Self {
        choice.to_string()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_choice_is_its_text() {
        for text in [
            "constant",
            "cosine",
            "cosine,minimum=0.00001",
            "step,epochs=2.5,factor=0.5",
            "plateau,factor=0.1,patience=3",
        ] {
            let choice: ScheduleChoice = text.parse().unwrap();
            assert_eq!(choice.to_string(), text);
            let json = serde_json::to_string(&choice).unwrap();
            assert_eq!(
                serde_json::from_str::<ScheduleChoice>(&json).unwrap(),
                choice
            );
        }
        assert_eq!("plateau".parse(), Ok(ScheduleChoice::default()));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (text, part) in [
            ("linear", "expected constant, cosine, step or plateau"),
            ("constant,factor=0.1", "constant has no setting `factor`"),
            ("cosine,minimum=-1", "minimum is `-1`"),
            ("step,epochs=0", "epochs is `0`"),
            ("step,factor=1", "factor is `1`"),
            ("plateau,patience=1.5", "patience is `1.5`"),
            ("plateau,patience=-1", "patience is `-1`"),
        ] {
            let error = text.parse::<ScheduleChoice>().unwrap_err();
            assert!(error.contains(part) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn epochs_become_steps() {
        let choice = ScheduleChoice::Step {
            epochs: 1.5,
            factor: 0.1,
        };
        let step = |every| Schedule::Step { every, factor: 0.1 };
        assert_eq!(choice.schedule(7, 70), step(11));
        assert_eq!(
            ScheduleChoice::Cosine { minimum: 0.0 }.schedule(7, 70),
            Schedule::Cosine {
                steps: 70,
                minimum: 0.0
            }
        );
    }
}
