//! A label policy as text: `zeros,Edema=ones`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::str::FromStr;

use super::{LabelPolicy, LabelPolicyError, LabelRule};

impl FromStr for LabelPolicy {
    type Err = LabelPolicyError;

    /// Reads a rule, then `LABEL=RULE` for each exception, separated by commas. Blanks around a label
    /// or a rule do not count.
    fn from_str(text: &str) -> Result<Self, LabelPolicyError> {
        let refuse = |part: &str| LabelPolicyError::Part {
            policy: text.to_owned(),
            part: part.to_owned(),
        };
        let rule_of = |name: &str| {
            let mut rules = LabelRule::ALL.into_iter();
            rules.find(|rule| rule.name() == name.trim())
        };
        let mut parts = text.split(',').map(str::trim).peekable();
        let rule = match parts.next_if(|part| !part.contains('=')) {
            Some(part) => rule_of(part).ok_or_else(|| refuse(part))?,
            None => LabelRule::default(),
        };
        let mut exceptions = BTreeMap::new();
        for part in parts {
            // The last one: a label may have an equals sign in its name.
            let (label, name) = part.rsplit_once('=').ok_or_else(|| refuse(part))?;
            let rule = rule_of(name).ok_or_else(|| refuse(part))?;
            let label = label.trim_end();
            if label.is_empty() {
                return Err(refuse(part));
            }
            match exceptions.entry(label.to_owned()) {
                Entry::Vacant(entry) => entry.insert(rule),
                Entry::Occupied(_) => {
                    return Err(LabelPolicyError::Duplicate {
                        policy: text.to_owned(),
                        label: label.to_owned(),
                    });
                }
            };
        }
        Ok(Self { rule, exceptions })
    }
}

impl fmt::Display for LabelPolicy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.rule)?;
        for (label, rule) in &self.exceptions {
            write!(formatter, ",{label}={rule}")?;
        }
        Ok(())
    }
}

impl TryFrom<String> for LabelPolicy {
    type Error = LabelPolicyError;

    fn try_from(text: String) -> Result<Self, LabelPolicyError> {
        text.parse()
    }
}

impl From<LabelPolicy> for String {
    fn from(policy: LabelPolicy) -> Self {
        policy.to_string()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(text: &str) -> String {
        text.parse::<LabelPolicy>().unwrap_err().to_string()
    }

    #[test]
    fn a_policy_is_a_rule_and_exceptions() {
        let policy: LabelPolicy = " ones , Pleural Effusion = zeros,a=b=ignore"
            .parse()
            .unwrap();
        assert_eq!(policy.rule("Mass"), LabelRule::Ones);
        assert_eq!(policy.rule("Pleural Effusion"), LabelRule::Zeros);
        assert_eq!(policy.rule("a=b"), LabelRule::Ignore);
        assert_eq!(policy.to_string(), "ones,Pleural Effusion=zeros,a=b=ignore");
        let policy: LabelPolicy = "Edema=ones".parse().unwrap();
        assert_eq!(policy.to_string(), "ignore,Edema=ones");
        assert_eq!("zeros".parse(), Ok(LabelPolicy::from(LabelRule::Zeros)));
    }

    #[test]
    fn what_is_no_policy_is_refused_in_one_line() {
        assert_eq!(
            message("zero"),
            "\"zero\" in the label policy \"zero\" is not LABEL=RULE with the rule zeros, ones or \
             ignore; only the first part may be a rule alone"
        );
        for (text, part) in [
            ("", ""),
            ("zeros,", ""),
            ("zeros,ones", "ones"),
            ("zeros,Edema=one", "Edema=one"),
            ("zeros,Edema=", "Edema="),
            ("zeros, =ones", "=ones"),
            ("Edema=ones,zeros", "zeros"),
        ] {
            assert!(
                message(text).starts_with(&format!("{part:?} in the label policy {text:?} ")),
                "{text}"
            );
        }
        assert_eq!(
            message("zeros,Edema=ones,Edema=ones"),
            "the label \"Edema\" is twice in the label policy \"zeros,Edema=ones,Edema=ones\": \
             remove one"
        );
    }

    #[test]
    fn json_is_the_text_and_is_validated() {
        let policy: LabelPolicy = "zeros,Edema=ones".parse().unwrap();
        let json = serde_json::to_string(&policy).unwrap();
        assert_eq!(json, "\"zeros,Edema=ones\"");
        assert_eq!(serde_json::from_str::<LabelPolicy>(&json).unwrap(), policy);
        let error = serde_json::from_str::<LabelPolicy>("\"none\"").unwrap_err();
        assert!(error.to_string().contains("is not LABEL=RULE"), "{error}");
    }

    proptest! {
        #[test]
        fn every_policy_reads_back(
            rule in proptest::sample::select(&LabelRule::ALL[..]),
            exceptions in proptest::collection::btree_map(
                "[A-Za-z=ä/\n][A-Za-z _=\t-]{0,8}".prop_map(|label| label.trim().to_owned())
                    .prop_filter("blank", |label| !label.is_empty()),
                proptest::sample::select(&LabelRule::ALL[..]),
                0..6,
            ),
        ) {
            let policy = LabelPolicy { rule, exceptions };
            prop_assert_eq!(policy.to_string().parse(), Ok(policy));
        }

        #[test]
        fn no_text_panics(text in "(zeros|ones|[A-Za-z]{1,2}|=|,| |\n){0,8}") {
            match text.parse::<LabelPolicy>() {
                Ok(policy) => prop_assert_eq!(policy.to_string().parse(), Ok(policy)),
                Err(error) => prop_assert!(!error.to_string().contains('\n')),
            }
        }
    }
}
