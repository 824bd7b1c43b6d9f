//! The optimiser, by name.

use std::fmt;
use std::str::FromStr;

use burn::optim::ModuleOptimizer;
use burn_dist::optimizer::{Adam, Sgd, WeightDecay};
use serde::{Deserialize, Serialize};

use crate::kernels::FusedAdam;

use super::text::Text;

/// Which optimiser moves the weights, with PyTorch's defaults for what is not named.
///
/// ```
/// use burn_chexnet::train::OptimizerChoice;
/// let choice: OptimizerChoice = "sgd,momentum=0.9,nesterov,weight-decay=0.0001".parse()?;
/// assert_eq!(choice.to_string(), "sgd,momentum=0.9,nesterov,weight-decay=0.0001");
/// assert_eq!("adam".parse(), Ok(OptimizerChoice::default()));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum OptimizerChoice {
    /// Adam; weight decay is added to the gradient.
    Adam {
        /// λ.
        weight_decay: f64,
    },
    /// AdamW; weights decay by learning rate times λ.
    AdamW {
        /// λ, 0.01 unless named.
        weight_decay: f64,
    },
    /// Stochastic gradient descent.
    Sgd {
        /// Share of the velocity that is kept.
        momentum: f64,
        /// Whether to look ahead along it.
        nesterov: bool,
        /// λ, added to the gradient.
        weight_decay: f64,
    },
}

/// PyTorch's default for AdamW.
const ADAMW_DECAY: f64 = 0.01;

impl Default for OptimizerChoice {
    /// The paper's: Adam without weight decay.
    fn default() -> Self {
        Self::Adam { weight_decay: 0.0 }
    }
}

impl OptimizerChoice {
    /// The optimiser.
    pub(in crate::train) fn optimizer(self) -> ModuleOptimizer {
        let adam = |weight_decay| {
            FusedAdam(Adam {
                weight_decay,
                ..Adam::default()
            })
        };
        match self {
            Self::Adam { weight_decay } => adam(WeightDecay::Gradient(weight_decay)).into(),
            Self::AdamW { weight_decay } => adam(WeightDecay::Decoupled(weight_decay)).into(),
            Self::Sgd {
                momentum,
                nesterov,
                weight_decay,
            } => Sgd {
                momentum,
                nesterov,
                weight_decay,
            }
            .into(),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut text = Text::parse(text)?;
        let decay = |text: &mut Text, default| {
            text.number("weight-decay", default, "0 or above", |decay| {
                decay >= 0.0 && decay.is_finite()
            })
        };
        let choice = match text.name {
            "adam" => Self::Adam {
                weight_decay: decay(&mut text, 0.0)?,
            },
            "adamw" => Self::AdamW {
                weight_decay: decay(&mut text, ADAMW_DECAY)?,
            },
            "sgd" => Self::Sgd {
                momentum: text.number("momentum", 0.0, "from 0 to below 1", |momentum| {
                    (0.0..1.0).contains(&momentum)
                })?,
                nesterov: text.flag("nesterov")?,
                weight_decay: decay(&mut text, 0.0)?,
            },
            _ => return Err("expected adam, adamw or sgd".to_string()),
        };
        text.finish()?;
        match choice {
            Self::Sgd {
                momentum: 0.0,
                nesterov: true,
                ..
            } => Err("nesterov needs a momentum, such as momentum=0.9".to_string()),
            choice => Ok(choice),
        }
    }
}

impl FromStr for OptimizerChoice {
    type Err = String;

    /// Reads `adam`, `adamw` or `sgd`, each with `weight-decay=λ`, and `sgd` with `momentum=` and
    /// `nesterov`.
    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse(text).map_err(|reason| {
            format!("optimizer `{text}`: {reason} (such as adamw,weight-decay=0.01 or sgd,momentum=0.9,nesterov)")
        })
    }
}

impl fmt::Display for OptimizerChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, default, decay) = match self {
            Self::Adam { weight_decay } => ("adam", 0.0, weight_decay),
            Self::AdamW { weight_decay } => ("adamw", ADAMW_DECAY, weight_decay),
            Self::Sgd { weight_decay, .. } => ("sgd", 0.0, weight_decay),
        };
        f.write_str(name)?;
        if let Self::Sgd {
            momentum, nesterov, ..
        } = self
        {
            if *momentum != 0.0 {
                write!(f, ",momentum={momentum}")?;
            }
            if *nesterov {
                f.write_str(",nesterov")?;
            }
        }
        match *decay == default {
            true => Ok(()),
            false => write!(f, ",weight-decay={decay}"),
        }
    }
}

impl TryFrom<String> for OptimizerChoice {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<OptimizerChoice> for String {
    fn from(choice: OptimizerChoice) -> Self {
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
            "adam",
            "adam,weight-decay=0.00001",
            "adamw",
            "adamw,weight-decay=0",
            "sgd",
            "sgd,momentum=0.9",
            "sgd,momentum=0.9,nesterov,weight-decay=0.0001",
        ] {
            let choice: OptimizerChoice = text.parse().unwrap();
            assert_eq!(choice.to_string(), text);
            let json = serde_json::to_string(&choice).unwrap();
            assert_eq!(
                serde_json::from_str::<OptimizerChoice>(&json).unwrap(),
                choice
            );
        }
        assert_eq!(
            " sgd , nesterov , momentum = 0.5".parse(),
            Ok(OptimizerChoice::Sgd {
                momentum: 0.5,
                nesterov: true,
                weight_decay: 0.0
            })
        );
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (text, part) in [
            ("", "expected adam, adamw or sgd"),
            ("Adam", "expected adam, adamw or sgd"),
            ("adam,momentum=0.9", "adam has no setting `momentum`"),
            ("adam,weight-decay", "weight-decay is ``"),
            ("adam,weight-decay=-1", "weight-decay is `-1`"),
            ("adam,weight-decay=inf", "weight-decay is `inf`"),
            ("sgd,momentum=1", "momentum is `1`"),
            ("sgd,nesterov", "nesterov needs a momentum"),
            ("sgd,momentum=0.9,nesterov=yes", "nesterov takes no value"),
            ("sgd,momentum=0.9,momentum=0.8", "momentum is given twice"),
        ] {
            let error = text.parse::<OptimizerChoice>().unwrap_err();
            assert!(error.contains(part) && !error.contains('\n'), "{error}");
        }
    }
}
