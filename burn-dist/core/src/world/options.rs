//! What a process may choose about its world, mostly by variables.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::collective::{Algorithm, Order, Table};
use crate::rendezvous::{Environment, InterfaceError, InterfaceFilter, Token, TokenError};
use crate::report::Report;
use crate::transport::{Poll, Throttle, Transport};

/// How processes come together and talk.
///
/// | variable | option | default |
/// |---|---|---|
/// | `BURN_DIST_TIMEOUT` | seconds to come together | 600 |
/// | `BURN_DIST_OP_TIMEOUT` | seconds of an operation | 300 |
/// | `BURN_DIST_TOKEN`, `BURN_DIST_TOKEN_FILE` | what strangers do not know | unset |
/// | `BURN_DIST_TLS` | `1`: connections are encrypted; needs a token, and the feature `tls` | 0 |
/// | `BURN_DIST_IFNAME` | the network interface, see [`InterfaceFilter`] | that of the route to rank 0 |
/// | `BURN_DIST_HOST_ID` | what tells this host from others, where a virtual machine was cloned while it ran | what the kernel draws when it starts |
/// | `BURN_DIST_TRANSPORT` | `auto`, `tcp` or `shm` | `auto` |
/// | `BURN_DIST_STREAMS` | TCP connections of two ranks on different hosts | 2 |
/// | `BURN_DIST_POLL` | `spin`, `block` or `hybrid` | `hybrid`; `block` where a host has as many ranks as cores |
/// | `BURN_DIST_PORTS` | ports for other ranks, `first-last` | any |
/// | `BURN_DIST_ORDER` | `rank`, or `any` to allow faster orders of additions | `rank` |
/// | `BURN_DIST_ALGORITHM` | the algorithm of every operation that it serves | by size |
/// | `BURN_DIST_TUNE` | a table of `burn-dist tune` | built in |
/// | `BURN_DIST_THROTTLE` | `RATE:LATENCY` in MB/s and µs, for tests | none |
/// | `BURN_DIST_ANY_BUILD` | `1`: other binaries are welcome | 0 |
/// | `BURN_DIST_TRACE` | file for a timeline of all operations, for Chrome's trace viewer; each rank has its own | none |
/// | `BURN_DIST_FLIGHT_RECORDER` | folder for the records of a failure | a folder of the job in the system's temporary folder |
#[derive(Clone, Debug)]
pub struct Options {
    /// Time to come together.
    pub timeout: Duration,
    /// Time of an operation.
    pub operation_timeout: Duration,
    /// What the processes of the job know.
    pub token: Token,
    /// Whether connections are encrypted. Needs a token, and the feature `tls`.
    pub tls: bool,
    /// The network interface; that of the route to rank 0, if `None`.
    pub interface: Option<InterfaceFilter>,
    /// What tells this host from others; what the kernel draws when it starts, if `None`.
    pub host: Option<String>,
    /// The transport of all connections; by the place of the two ranks, if `None`.
    pub transport: Option<Transport>,
    /// TCP connections of two ranks on different hosts.
    pub streams: usize,
    /// What a rank does while nothing arrives; by the number of cores, if `None`.
    pub poll: Option<Poll>,
    /// Ports to wait at for other ranks; any, if there are none.
    pub ports: Vec<u16>,
    /// In which orders may be added.
    pub order: Order,
    /// The algorithm of every operation that it serves.
    pub algorithm: Option<Algorithm>,
    /// Which algorithm an operation takes.
    pub table: Table,
    /// A slower network, for tests.
    pub throttle: Option<Throttle>,
    /// Whether processes of other binaries are welcome.
    pub any_build: bool,
    /// File for a timeline of all operations; each rank puts its number before the extension.
    pub trace: Option<PathBuf>,
    /// Folder for the records of a failure.
    pub flight_recorder: Option<PathBuf>,
    /// Variables that are named like those above and mean nothing, of which is warned.
    pub unknown: Vec<String>,
    /// Options of the program that have to be the same on all ranks, by name.
    pub configuration: Vec<(String, String)>,
    /// Where notes and warnings go; standard error, if `None`.
    pub report: Option<Report>,
}

/// Why an option cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// A variable has a value that it cannot have.
    #[error("{name} is {value:?}: {expected}")]
    Value {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        expected: String,
    },
    /// The token cannot be had.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The interface is none.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// The table cannot be read.
    #[error("the table {} of BURN_DIST_TUNE cannot be used: {reason}", path.display())]
    Table {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

impl Default for Options {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(600),
            operation_timeout: Duration::from_secs(300),
            token: Token::default(),
            tls: false,
            interface: None,
            host: None,
            transport: None,
            streams: 2,
            poll: None,
            ports: Vec::new(),
            order: Order::Rank,
            algorithm: None,
            table: Table::default(),
            throttle: None,
            any_build: false,
            trace: None,
            flight_recorder: None,
            unknown: Vec::new(),
            configuration: Vec::new(),
            report: None,
        }
    }
}

impl Options {
    /// The options that variables say.
    ///
    /// # Errors
    ///
    /// If one has a value that it cannot have, or names a file that cannot be read.
    pub fn of(environment: &Environment) -> Result<Self, OptionsError> {
        let read = Reading(environment);
        let default = Self::default();
        let order = read.value("BURN_DIST_ORDER", "rank or any", |text| match text {
            "rank" => Some(Order::Rank),
            "any" => Some(Order::Any),
            _ => None,
        })?;
        let transport = read.value(
            "BURN_DIST_TRANSPORT",
            "auto, tcp or shm",
            |text| match text {
                "auto" => Some(None),
                "tcp" => Some(Some(Transport::Tcp)),
                "shm" => Some(Some(Transport::Shm)),
                _ => None,
            },
        )?;
        let streams = read.value("BURN_DIST_STREAMS", "a number from 1 to 16", |text| {
            text.parse()
                .ok()
                .filter(|streams| (1..=16).contains(streams))
        })?;
        Ok(Self {
            timeout: read
                .seconds("BURN_DIST_TIMEOUT")?
                .unwrap_or(default.timeout),
            operation_timeout: read
                .seconds("BURN_DIST_OP_TIMEOUT")?
                .unwrap_or(default.operation_timeout),
            token: Token::of(environment)?,
            tls: read.switch("BURN_DIST_TLS")?,
            interface: InterfaceFilter::of(environment)?,
            host: environment.text("BURN_DIST_HOST_ID").map(ToOwned::to_owned),
            transport: transport.unwrap_or_default(),
            streams: streams.unwrap_or(default.streams),
            poll: read.parsed("BURN_DIST_POLL")?,
            ports: read
                .value("BURN_DIST_PORTS", "two ports, as 40000-40100", ports)?
                .unwrap_or_default(),
            order: order.unwrap_or_default(),
            algorithm: read.parsed("BURN_DIST_ALGORITHM")?,
            table: read.table()?.unwrap_or_default(),
            throttle: read.parsed("BURN_DIST_THROTTLE")?,
            any_build: read.switch("BURN_DIST_ANY_BUILD")?,
            trace: environment.text("BURN_DIST_TRACE").map(PathBuf::from),
            flight_recorder: environment
                .text("BURN_DIST_FLIGHT_RECORDER")
                .map(PathBuf::from),
            unknown: environment.unknown(),
            ..default
        })
    }

    /// What of it has to be the same on all ranks.
    pub(super) fn terms(&self) -> Vec<(String, String)> {
        let own = [
            ("BURN_DIST_TLS", u8::from(self.tls).to_string()),
            ("BURN_DIST_STREAMS", self.streams.to_string()),
            ("BURN_DIST_TRANSPORT", named(self.transport, "auto")),
            ("BURN_DIST_ORDER", self.order.to_string()),
            ("BURN_DIST_ALGORITHM", named(self.algorithm, "by size")),
            ("BURN_DIST_TUNE", self.table.to_string()),
            (
                "BURN_DIST_OP_TIMEOUT",
                self.operation_timeout.as_secs_f64().to_string(),
            ),
        ];
        let own = own.map(|(name, value)| (name.to_owned(), value));
        self.configuration.iter().cloned().chain(own).collect()
    }
}

fn named(value: Option<impl Display>, none: &str) -> String {
    value.map_or_else(|| none.to_owned(), |value| value.to_string())
}

struct Reading<'a>(&'a Environment);

impl Reading<'_> {
    fn value<T>(
        &self,
        name: &'static str,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, OptionsError> {
        let Some(value) = self.0.text(name) else {
            return Ok(None);
        };
        let parsed = parse(value).ok_or_else(|| OptionsError::Value {
            name,
            value: value.to_owned(),
            expected: format!("expected {expected}"),
        });
        parsed.map(Some)
    }

    fn switch(&self, name: &'static str) -> Result<bool, OptionsError> {
        let value = self.value(name, "0 or 1", |text| match text {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        })?;
        Ok(value.unwrap_or_default())
    }

    fn seconds(&self, name: &'static str) -> Result<Option<Duration>, OptionsError> {
        self.value(name, "seconds from 1 to 1000000", |text| {
            let seconds = text.parse::<f64>().ok();
            let seconds = seconds.filter(|seconds| (1.0..=1e6).contains(seconds))?;
            Duration::try_from_secs_f64(seconds).ok()
        })
    }

    fn parsed<T: FromStr<Err = String>>(
        &self,
        name: &'static str,
    ) -> Result<Option<T>, OptionsError> {
        let parsed = self.0.text(name).map(|value| {
            value.parse().map_err(|expected| OptionsError::Value {
                name,
                value: value.to_owned(),
                expected,
            })
        });
        parsed.transpose()
    }

    fn table(&self) -> Result<Option<Table>, OptionsError> {
        let Some(path) = self.0.text("BURN_DIST_TUNE") else {
            return Ok(None);
        };
        let failed = |reason: String| OptionsError::Table {
            path: path.into(),
            reason,
        };
        let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        let table = serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
        Ok(Some(table))
    }
}

fn ports(text: &str) -> Option<Vec<u16>> {
    let (first, last) = text.split_once('-')?;
    let (first, last) = (first.parse::<u16>().ok()?, last.parse::<u16>().ok()?);
    (0 < first && first <= last).then(|| (first..=last).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<Options, OptionsError> {
        Options::of(&variables.iter().copied().collect())
    }

    #[test]
    fn variables_say_what_is_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("table.json");
        let tuned = Table {
            tree_up_to: 7,
            ..Table::default()
        };
        std::fs::write(&table, serde_json::to_string(&tuned).unwrap()).unwrap();
        let options = of(&[
            ("BURN_DIST_TIMEOUT", "1.5"),
            ("BURN_DIST_OP_TIMEOUT", "7"),
            ("BURN_DIST_HOST_ID", "clone 2"),
            ("BURN_DIST_TRANSPORT", "tcp"),
            ("BURN_DIST_STREAMS", "4"),
            ("BURN_DIST_POLL", "spin"),
            ("BURN_DIST_PORTS", "40000-40002"),
            ("BURN_DIST_ORDER", "any"),
            ("BURN_DIST_ALGORITHM", "ring"),
            ("BURN_DIST_TUNE", table.to_str().unwrap()),
            ("BURN_DIST_THROTTLE", "125:100"),
            ("BURN_DIST_ANY_BUILD", "1"),
            ("BURN_DIST_TLS", "1"),
        ]);
        let options = options.unwrap();
        assert_eq!(options.timeout, Duration::from_millis(1_500));
        assert_eq!(options.operation_timeout, Duration::from_secs(7));
        assert_eq!(options.host.as_deref(), Some("clone 2"));
        assert_eq!(options.transport, Some(Transport::Tcp));
        assert_eq!((options.streams, options.poll), (4, Some(Poll::Spin)));
        assert_eq!(options.ports, [40_000, 40_001, 40_002]);
        assert_eq!(
            (options.order, options.algorithm),
            (Order::Any, Some(Algorithm::Ring))
        );
        assert_eq!(options.table.tree_up_to, 7);
        assert_eq!(options.throttle.unwrap().rate, 125e6);
        assert!(options.any_build && options.tls);
    }

    #[test]
    fn values_that_make_no_sense_name_their_variable() {
        for (name, value) in [
            ("BURN_DIST_TIMEOUT", "0"),
            ("BURN_DIST_TIMEOUT", "1e300"),
            ("BURN_DIST_OP_TIMEOUT", "soon"),
            ("BURN_DIST_TRANSPORT", "pigeon"),
            ("BURN_DIST_STREAMS", "0"),
            ("BURN_DIST_POLL", "never"),
            ("BURN_DIST_PORTS", "9-8"),
            ("BURN_DIST_PORTS", "80"),
            ("BURN_DIST_ORDER", "none"),
            ("BURN_DIST_ALGORITHM", "best"),
            ("BURN_DIST_THROTTLE", "0:1"),
            ("BURN_DIST_THROTTLE", "fast"),
            ("BURN_DIST_ANY_BUILD", "yes"),
            ("BURN_DIST_TLS", "yes"),
        ] {
            let text = of(&[(name, value)]).unwrap_err().to_string();
            assert!(text.contains(name) && text.contains(value), "{text}");
            assert!(!text.contains('\n'), "{text}");
        }
        let text = of(&[("BURN_DIST_TUNE", "/nowhere")])
            .unwrap_err()
            .to_string();
        assert!(text.contains("/nowhere"), "{text}");
    }
}
