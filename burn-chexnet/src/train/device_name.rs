//! The name of a device in options and files.

use std::fmt;
use std::str::FromStr;

use burn::tensor::Device;
use serde::{Deserialize, Serialize};

/// Where to compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceName {
    /// Burn's CPU backend, Flex.
    #[default]
    Cpu,
}

impl DeviceName {
    /// The Burn device of that name.
    pub fn device(self) -> Device {
        match self {
            Self::Cpu => Device::flex(),
        }
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
        }
    }
}

impl FromStr for DeviceName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "cpu" => Ok(Self::Cpu),
            other => Err(format!("unknown device `{other}`: this build has cpu")),
        }
    }
}
