//! The variables that launchers leave for the processes they start.

use std::collections::BTreeMap;

/// What follows `BURN_DIST_` in the names of variables that mean something.
const KNOWN: [&str; 26] = [
    "ALGORITHM",
    "ANY_BUILD",
    "FLIGHT_RECORDER",
    "HOST_ID",
    "IFNAME",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "OP_TIMEOUT",
    "ORDER",
    "POLL",
    "PORTS",
    "RANK",
    "RDZV",
    "RUN",
    "SSH",
    "STARTED_BY_ITSELF",
    "STREAMS",
    "THROTTLE",
    "TIMEOUT",
    "TLS",
    "TOKEN",
    "TOKEN_FILE",
    "TRACE",
    "TRANSPORT",
    "TUNE",
    "WORLD_SIZE",
];

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

    /// Variables that are named like those of burn-dist and are none of them.
    pub(crate) fn unknown(&self) -> Vec<String> {
        let names = self.0.keys().filter(|name| {
            let own = name.strip_prefix("BURN_DIST_");
            // Kubernetes leaves the last of these for a service that is named burn-dist.
            own.is_some_and(|own| {
                let of_service =
                    own == "PORT" || own.starts_with("PORT_") || own.starts_with("SERVICE_");
                !KNOWN.contains(&own) && !of_service
            })
        });
        names.cloned().collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_looks_like_a_variable_of_burn_dist_is_unknown() {
        let variables = [
            "BURN_DIST_RANK",
            "BURN_DIST_SERVICE_HOST",
            "BURN_DIST_PORT_29500_TCP",
            "BURN_DIST_OP_TIMOUT",
            "RANK",
            "BURN_DIST_",
        ];
        let environment: Environment = variables.map(|name| (name, "1")).into_iter().collect();
        assert_eq!(environment.unknown(), ["BURN_DIST_", "BURN_DIST_OP_TIMOUT"]);
    }
}
