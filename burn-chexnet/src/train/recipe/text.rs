//! `name,key=value,flag`: a choice with its settings, as one word of a command line.

use std::collections::BTreeMap;

/// A text taken apart; each setting is asked for once, and what is left over is refused.
pub(super) struct Text<'a> {
    /// What comes first.
    pub name: &'a str,
    settings: BTreeMap<&'a str, Option<&'a str>>,
}

impl<'a> Text<'a> {
    /// Takes `text` apart.
    pub fn parse(text: &'a str) -> Result<Self, String> {
        let mut parts = text.split(',').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let mut settings = BTreeMap::new();
        for part in parts {
            let (key, value) = match part.split_once('=') {
                Some((key, value)) => (key.trim(), Some(value.trim())),
                None => (part, None),
            };
            if settings.insert(key, value).is_some() {
                return Err(format!("{key} is given twice: remove one"));
            }
        }
        Ok(Self { name, settings })
    }

    /// The number of a setting, or its default; `wanted` says which numbers make sense.
    pub fn number(
        &mut self,
        key: &str,
        default: f64,
        wanted: &str,
        makes_sense: impl Fn(f64) -> bool,
    ) -> Result<f64, String> {
        let value = match self.settings.remove(key) {
            None => return Ok(default),
            Some(value) => value.unwrap_or_default(),
        };
        let number = value.parse().ok().filter(|number| makes_sense(*number));
        number.ok_or_else(|| format!("{key} is `{value}`: it must be {wanted}"))
    }

    /// Whether a setting without a value is there.
    pub fn flag(&mut self, key: &str) -> Result<bool, String> {
        match self.settings.remove(key) {
            None => Ok(false),
            Some(None) => Ok(true),
            Some(Some(value)) => Err(format!("{key} takes no value, `{value}` was given")),
        }
    }

    /// Refuses what nobody asked for.
    pub fn finish(self) -> Result<(), String> {
        match self.settings.keys().next() {
            None => Ok(()),
            Some(key) => Err(format!("{} has no setting `{key}`", self.name)),
        }
    }
}
