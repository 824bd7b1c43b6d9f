//! The same run with several seeds, and how much its results vary.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use burn_dist::progress::write_line;
use serde::{Deserialize, Serialize};

use super::ranks::Ranks;
use super::recipe::decided;
use super::results::Results;
use super::resume::fingerprint;
use super::{Outcome, RunControl, RunData, RunError, TrainConfig, output, run};
use crate::written::write_whole;

/// Results over several seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeedResults {
    /// The mean AUROC of each seed, by seed; `null` where it is undefined.
    pub seeds: BTreeMap<u64, Option<f64>>,
    /// The mean AUROC over the seeds.
    pub mean_auroc: Option<Spread>,
    /// The AUROC of each label over the seeds that define it.
    pub labels: BTreeMap<String, Option<Spread>>,
}

/// Mean and deviation of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Standard deviation of the sample (n − 1); `null` for one value.
    pub deviation: Option<f64>,
}

impl Spread {
    /// Of the values that are there.
    fn of(values: impl IntoIterator<Item = Option<f64>>) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().flatten().collect();
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        (!values.is_empty()).then(|| Self {
            mean,
            deviation: (values.len() > 1).then(|| (squares / (count - 1.0)).sqrt()),
        })
    }
}

/// Runs `config` once for each of `seeds`, each in a folder `seed-N` of its output folder, and
/// writes `seeds.json` there. A seed decides all that is random in a run, the split too unless it is
/// a file or NIH's test list.
///
/// A resumed call takes the results of the seeds that have ended from their folders.
///
/// # Errors
///
/// If a seed is given twice or none is, and those of [`run`].
pub fn run_seeds(
    config: &TrainConfig,
    seeds: &[u64],
    control: &RunControl,
) -> Result<Outcome<SeedResults>, RunError> {
    let option = |reason: String| RunError::Option {
        option: "--seeds",
        reason,
    };
    if seeds.is_empty() {
        return Err(option("give at least one".to_string()));
    }
    if let Some(twice) = (1..seeds.len()).find(|&at| seeds[..at].contains(&seeds[at])) {
        return Err(option(format!("{} is given twice", seeds[twice])));
    }
    let ranks = Ranks::of(control.world.as_ref());
    let mut results = BTreeMap::new();
    for &seed in seeds {
        let config = TrainConfig {
            seed,
            output: config.output.join(format!("seed-{seed}")),
            ..config.clone()
        };
        let finished = ranks.main(|| match control.resume {
            true => earlier(&config, ranks.count()),
            false => Ok(None),
        })?;
        let has_finished = ranks.share(finished.as_ref().map(Option::is_some))?;
        let result = match finished.flatten() {
            Some(result) => result,
            None if has_finished => continue,
            None => {
                if ranks.is_main() {
                    write_line(&format!("seed {seed}: {}", config.output.display()));
                }
                match run(&config, control)? {
                    Outcome::Finished(result) => *result,
                    Outcome::WithMain => continue,
                    Outcome::Stopped(stopped) => return Ok(Outcome::Stopped(stopped)),
                }
            }
        };
        results.insert(seed, result);
    }
    let all = ranks.main(|| {
        let all = SeedResults::of(&results);
        all.write(&config.output.join(output::SEEDS))?;
        Ok(all)
    })?;
    Ok(match all {
        Some(all) => Outcome::Finished(all),
        None => Outcome::WithMain,
    })
}

/// The results of a run with the same options that has ended.
fn earlier(config: &TrainConfig, ranks: usize) -> Result<Option<Results>, RunError> {
    let path = config.output.join(output::RESULTS);
    let Ok(text) = std::fs::read_to_string(&path) else {
        return Ok(None);
    };
    let began = TrainConfig::of_run(&config.output, None)?;
    let results: Results =
        serde_json::from_str(&text).map_err(|error| RunError::file(path, error))?;
    let ended =
        results.stopped_early || results.epochs == config.epochs || config.max_steps.is_some();
    let now = decided(config, None, true)?;
    let same =
        fingerprint(&began, ranks)? == fingerprint(&now, ranks)? && began.epochs == now.epochs;
    if !ended || !same || RunData::open(config)?.digest() != results.data_digest {
        return Ok(None); // The run itself goes on, or says what differs.
    }
    write_line(&format!("seed {}: has ended before", config.seed));
    Ok(Some(results))
}

impl SeedResults {
    fn of(results: &BTreeMap<u64, Results>) -> Self {
        let names: Vec<&String> = match results.values().next() {
            Some(result) => result.labels.keys().collect(),
            None => Vec::new(),
        };
        let label = |name: &String| {
            let results = results
                .values()
                .map(|result| result.labels.get(name)?.auroc);
            (name.clone(), Spread::of(results))
        };
        Self {
            seeds: results
                .iter()
                .map(|(seed, result)| (*seed, result.mean_auroc))
                .collect(),
            mean_auroc: Spread::of(results.values().map(|result| result.mean_auroc)),
            labels: names.into_iter().map(label).collect(),
        }
    }

    fn write(&self, path: &Path) -> Result<(), RunError> {
        let text = serde_json::to_string_pretty(self).map_err(|e| RunError::file(path, e))?;
        write_whole(path, (text + "\n").as_bytes()).map_err(|e| RunError::file(path, e))
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.4}", self.mean)?;
        match self.deviation {
            Some(deviation) => write!(f, " ± {deviation:.4}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for SeedResults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row = |name: &str, value: Option<Spread>| match value {
            Some(spread) => writeln!(f, "{name:20} {spread}"),
            None => writeln!(f, "{name:20} undefined"),
        };
        for (name, spread) in &self.labels {
            row(name, *spread)?;
        }
        row("mean", self.mean_auroc)?;
        write!(f, "AUROC over {} seeds:", self.seeds.len())?;
        for (seed, auroc) in &self.seeds {
            match auroc {
                Some(auroc) => write!(f, " {seed}: {auroc:.4}")?,
                None => write!(f, " {seed}: undefined")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn mean_and_deviation_are_those_of_the_sample() {
        // numpy: mean 0.7, std(ddof=1) 0.1.
        let spread = Spread::of([Some(0.6), None, Some(0.7), Some(0.8)]).unwrap();
        assert!((spread.mean - 0.7).abs() < 1e-12);
        assert!((spread.deviation.unwrap() - 0.1).abs() < 1e-12);
        assert_eq!(spread.to_string(), "0.7000 ± 0.1000");
        let one = Spread::of([Some(0.5)]).unwrap();
        assert_eq!((one.mean, one.deviation), (0.5, None));
        assert_eq!(Spread::of([None]), None);
    }
}
