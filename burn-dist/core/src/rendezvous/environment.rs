//! The variables that launchers leave for the processes they start.

use std::collections::BTreeMap;

/// Variables by name: those of this process, or others for a test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// The variables of this process. What is no text is left out: no launcher writes such.
    pub fn of_process() -> Self {
        let texts = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        Self(texts.collect())
    }

    /// The value of `name`, unless it is unset or empty.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let value = self.0.get(name)?.trim();
        (!value.is_empty()).then_some(value)
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        let texts = variables.into_iter();
        Self(texts.map(|(n, v)| (n.into(), v.into())).collect())
    }
}
