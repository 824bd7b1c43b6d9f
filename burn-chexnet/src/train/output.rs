//! The output folder of a run: the names in it, and making room for a new run.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use burn_dist::progress::write_line;

use super::RunError;

pub(super) const BEST: &str = "best.safetensors";
pub(super) const LAST: &str = "last.safetensors";
pub(super) const METRICS: &str = "metrics.csv";
pub(super) const CONFIG: &str = "config.json";
pub(super) const SPLIT: &str = "split.csv";
pub(super) const RESULTS: &str = "results.json";
pub(super) const CURVES: &str = "figures/curves.svg";
pub(super) const ROC: &str = "figures/roc.svg";
/// The synthetic data set, where no other is named. It stays: the next run may want the same.
pub(super) const PHANTOM: &str = "phantom";
/// burn-dist's; its files are `NAME-EPOCH.bpk`.
const CHECKPOINTS: &str = "checkpoints";
const CHECKPOINT_NAMES: [&str; 3] = ["model", "optimizer", "scheduler"];

/// Makes the folder.
pub(super) fn create(output: &Path) -> Result<(), RunError> {
    std::fs::create_dir_all(output).map_err(|error| RunError::Output {
        path: output.to_path_buf(),
        reason: error.to_string(),
    })
}

/// Makes the folder and removes what an earlier run left in it, file by file: results beside
/// another run's configuration would deceive. Whatever else lies there stays.
pub(super) fn prepare(output: &Path) -> Result<(), RunError> {
    let refuse = |error: io::Error| RunError::Output {
        path: output.to_path_buf(),
        reason: error.to_string(),
    };
    for folder in [CHECKPOINTS, "figures"] {
        std::fs::create_dir_all(output.join(folder)).map_err(refuse)?;
    }
    if output.join(RESULTS).exists() {
        write_line(&format!("replacing the run in {}", output.display()));
    }
    let files = [BEST, LAST, METRICS, CONFIG, SPLIT, RESULTS, CURVES, ROC];
    let checkpoints = checkpoints(&output.join(CHECKPOINTS)).map_err(refuse)?;
    for file in files
        .map(|name| output.join(name))
        .iter()
        .chain(&checkpoints)
    {
        match std::fs::remove_file(file) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(RunError::file(file, format!("cannot be replaced: {error}")));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The checkpoints of an earlier run.
fn checkpoints(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let named = stem.and_then(|stem| stem.rsplit_once('-'));
        let own = named.is_some_and(|(name, epoch)| {
            CHECKPOINT_NAMES.contains(&name) && epoch.parse::<usize>().is_ok()
        });
        if own && path.extension().is_some_and(|extension| extension == "bpk") {
            found.push(path);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use super::*;

    #[test]
    fn a_runs_own_files_go_and_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("run");
        prepare(&output).unwrap();
        let own = [BEST, RESULTS, ROC, "checkpoints/model-12.bpk"];
        let others = [
            "notes.txt",
            "figures/paper.pdf",
            "checkpoints/model-best.bpk",
            "checkpoints/mine-1.bpk",
            "checkpoints/model-1.txt",
        ];
        for name in own.iter().chain(&others) {
            fs::write(output.join(name), "").unwrap();
        }
        prepare(&output).unwrap();
        for name in own {
            assert!(!output.join(name).exists(), "{name}");
        }
        for name in others {
            assert!(output.join(name).exists(), "{name}");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let error = prepare(&file).unwrap_err().to_string();
        assert!(error.starts_with("cannot use the output folder"), "{error}");
        assert!(error.contains(file.to_str().unwrap()), "{error}");
        fs::create_dir_all(folder.path().join("run").join(BEST)).unwrap();
        let error = prepare(&folder.path().join("run")).unwrap_err().to_string();
        assert!(
            error.contains(BEST) && error.contains("cannot be replaced"),
            "{error}"
        );
    }
}
