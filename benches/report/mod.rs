//! What contenders took, side by side: figures, ratios, a JSON file.
//!
//! A bench measures all contenders in turn, in several rounds; ratios are taken within a round, so that what else the
//! machine does meets both sides. Knows nothing of what is measured.

use std::error::Error;
use std::path::Path;

use serde::Serialize;

/// One contender at one size in one round.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    pub contender: String,
    pub size: u64,
    pub round: usize,
    pub seconds: f64,
}

/// The middle of some figures, and how far they spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    pub median: f64,
    pub least: f64,
    pub greatest: f64,
}

impl Spread {
    /// `None` if there are none.
    pub fn of(mut figures: Vec<f64>) -> Option<Self> {
        figures.sort_by(f64::total_cmp);
        let middle = figures.len() / 2;
        let median = match figures.len() {
            0 => return None,
            even if even % 2 == 0 => (figures[middle - 1] + figures[middle]) / 2.0,
            _ => figures[middle],
        };
        Some(Self {
            median,
            least: figures[0],
            greatest: figures[figures.len() - 1],
        })
    }
}

/// What was measured, and on what.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Cores, kernel, and load before and after.
    pub machine: Vec<String>,
    pub samples: Vec<Sample>,
}

impl Report {
    /// A report of nothing yet; warns if the machine has something else to do.
    pub fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let load = load();
        if load > 0.5 {
            println!("! the load is {load}: figures of contenders that spin mean little");
        }
        Self {
            machine: vec![
                format!("{cores} cores, kernel {}", kernel.trim()),
                format!("load before {load}"),
            ],
            samples: Vec::new(),
        }
    }

    /// All is measured.
    pub fn close(&mut self) {
        self.machine.push(format!("load after {}", load()));
    }

    fn seconds(&self, contender: &str, size: u64) -> Vec<f64> {
        let of = self
            .samples
            .iter()
            .filter(|s| s.contender == contender && s.size == size);
        of.map(|sample| sample.seconds).collect()
    }

    /// What a contender took at a size.
    pub fn spread(&self, contender: &str, size: u64) -> Option<Spread> {
        Spread::of(self.seconds(contender, size))
    }

    /// How many times as fast `one` is as `other`, round by round.
    pub fn ratio(&self, one: &str, other: &str, size: u64) -> Option<Spread> {
        let of = |contender: &str, round: usize| {
            let found = self.samples.iter().find(|sample| {
                (sample.contender.as_str(), sample.size, sample.round) == (contender, size, round)
            });
            found.map(|sample| sample.seconds)
        };
        let rounds = self
            .samples
            .iter()
            .map(|sample| sample.round + 1)
            .max()
            .unwrap_or(0);
        let ratios = (0..rounds).filter_map(|round| Some(of(other, round)? / of(one, round)?));
        Spread::of(ratios.collect())
    }

    pub fn contenders(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for sample in &self.samples {
            if !names.contains(&sample.contender) {
                names.push(sample.contender.clone());
            }
        }
        names
    }

    pub fn sizes(&self) -> Vec<u64> {
        let mut sizes: Vec<u64> = self.samples.iter().map(|sample| sample.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Writes everything to a file.
    pub fn write_json(&self, path: &Path) -> Result<(), Box<dyn Error>> {
        Ok(std::fs::write(path, serde_json::to_string_pretty(self)?)?)
    }
}

/// Processes that have run or waited to, over a minute.
fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ')
        .next()
        .and_then(|load| load.parse().ok())
        .unwrap_or(0.0)
}

/// Checks the arithmetic, in test mode: a bench has no test harness of its own.
pub fn self_check() {
    let sample = |contender: &str, round, seconds| Sample {
        contender: contender.into(),
        size: 8,
        round,
        seconds,
    };
    let report = Report {
        machine: Vec::new(),
        samples: vec![
            sample("a", 0, 1.0),
            sample("b", 0, 3.0),
            sample("a", 1, 2.0),
            sample("b", 1, 2.0),
            // A round without the other counts for nothing.
            sample("b", 2, 100.0),
        ],
    };
    let ratio = report.ratio("a", "b", 8);
    let expected = Spread {
        median: 2.0,
        least: 1.0,
        greatest: 3.0,
    };
    assert_eq!(ratio, Some(expected));
    assert_eq!(report.spread("b", 8).map(|spread| spread.median), Some(3.0));
    assert_eq!(report.ratio("a", "c", 8), None);
    assert_eq!((report.contenders().len(), report.sizes()), (2, vec![8]));
}
