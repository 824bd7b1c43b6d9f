//! The output folder of a run: the names in it, and making room for a new run.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::Path;

use burn_dist::progress::{log_to, write_line};
use burn_dist::train::{Snapshots, TrainError};

use super::cases::is_case;
use super::{RunError, TrainConfig};

pub(super) const BEST: &str = "best.safetensors";
pub(super) const LAST: &str = "last.safetensors";
pub(super) const METRICS: &str = "metrics.csv";
pub(super) const CONFIG: &str = "config.json";
pub(super) const SPLIT: &str = "split.csv";
pub(super) const RESULTS: &str = "results.json";
/// Of several seeds, in the folder above theirs.
pub(super) const SEEDS: &str = "seeds.json";
pub(super) const CURVES: &str = "figures/curves.svg";
pub(super) const ROC: &str = "figures/roc.svg";
/// Heat maps of test images.
pub(super) const CASES: &str = "figures/cases";
/// The synthetic data set, where no other is named. It stays: the next run may want the same.
pub(super) const PHANTOM: &str = "phantom";
/// Logs of the ranks that draw no progress.
const LOGS: &str = "logs";
/// Held by the process that trains into the folder.
const LOCK: &str = ".lock";
/// burn-dist's snapshots.
pub(super) const CHECKPOINTS: &str = "checkpoints";

/// Makes the folder.
pub(super) fn create(output: &Path) -> Result<(), RunError> {
    std::fs::create_dir_all(output).map_err(|error| RunError::Output {
        path: output.to_path_buf(),
        reason: error.to_string(),
    })
}

/// Makes the folder for a rank that writes nothing but its log, and begins that.
pub(super) fn follow(output: &Path, rank: usize) -> Result<(), RunError> {
    let folder = output.join(LOGS);
    create(&folder)?;
    let path = folder.join(format!("rank-{rank}.log"));
    let file = File::create(&path).map_err(|error| RunError::file(&path, error))?;
    log_to(file);
    Ok(())
}

/// Takes the folder for this process while the file lives; the system gives it back however the
/// process ends.
///
/// # Errors
///
/// If another process has it. Where the file system has no locks everybody gets it.
pub(super) fn lock(output: &Path) -> Result<Option<File>, RunError> {
    let options = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(output.join(LOCK));
    let Ok(file) = options else {
        return Ok(None);
    };
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(RunError::Output {
            path: output.to_path_buf(),
            reason: "another process is training into it: wait for its end, or name another folder"
                .to_string(),
        }),
        Err(TryLockError::Error(_)) => Ok(None),
        Ok(()) => Ok(Some(file)),
    }
}

/// Refuses a folder whose configuration this program has not written: nothing of somebody else's
/// may be replaced.
pub(super) fn ensure_own(output: &Path) -> Result<(), RunError> {
    let path = output.join(CONFIG);
    match path.exists() {
        false => Ok(()),
        true => match TrainConfig::read(&path, None) {
            Ok(_) => Ok(()),
            Err(error) => Err(RunError::Output {
                path: output.to_path_buf(),
                reason: format!(
                    "it holds something else, to go by {error}: name another folder, or remove that file"
                ),
            }),
        },
    }
}

/// Removes the results of a run that goes on: they would be those of fewer epochs.
pub(super) fn remove_results(output: &Path) -> Result<(), RunError> {
    for name in [RESULTS, CURVES, ROC] {
        remove(&output.join(name))?;
    }
    Ok(())
}

fn remove(file: &Path) -> Result<(), RunError> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(RunError::file(file, format!("cannot be replaced: {error}")))
        }
        _ => Ok(()),
    }
}

/// Whether the folder has weights or results, of a run that must not be lost by mistake.
pub(super) fn has_weights(output: &Path) -> bool {
    [BEST, LAST, RESULTS]
        .iter()
        .any(|name| output.join(name).exists())
}

/// Makes the folders in it.
pub(super) fn create_folders(output: &Path) -> Result<(), RunError> {
    for folder in [CHECKPOINTS, CASES] {
        create(&output.join(folder)).map_err(|error| match error {
            RunError::Output { reason, .. } => RunError::Output {
                path: output.to_path_buf(),
                reason,
            },
            other => other,
        })?;
    }
    Ok(())
}

/// Removes what an earlier run left in the folder, file by file: results beside another run's
/// configuration would deceive. Whatever else lies there stays.
pub(super) fn remove_earlier_run(output: &Path) -> Result<(), RunError> {
    let snapshots = Snapshots::new(output.join(CHECKPOINTS));
    if has_weights(output) || !snapshots.is_empty().map_err(TrainError::from)? {
        write_line(&format!("replacing the run in {}", output.display()));
    }
    let files = [
        BEST, LAST, METRICS, CONFIG, SPLIT, RESULTS, SEEDS, CURVES, ROC,
    ];
    let cases = std::fs::read_dir(output.join(CASES)).into_iter().flatten();
    let cases = cases
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(is_case)
        });
    for file in files.map(|name| output.join(name)).into_iter().chain(cases) {
        remove(&file)?;
    }
    Ok(snapshots.clear().map_err(TrainError::from)?)
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
        create_folders(&output).unwrap();
        fs::create_dir(output.join("checkpoints/step-12")).unwrap();
        fs::create_dir(output.join("checkpoints/step-13.tmp")).unwrap();
        let own = [
            BEST,
            RESULTS,
            ROC,
            "figures/cases/Mass-lowest-positive.png",
            "checkpoints/step-12/model.bpk",
            "checkpoints/step-13.tmp/model.bpk",
        ];
        let others = [
            "notes.txt",
            "figures/paper.pdf",
            "figures/cases/paper.png",
            "checkpoints/step-one",
        ];
        for name in own.iter().chain(&others) {
            fs::write(output.join(name), "").unwrap();
        }
        remove_earlier_run(&output).unwrap();
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
        for make in [create, create_folders] {
            let error = make(&file).unwrap_err().to_string();
            assert!(error.starts_with("cannot use the output folder"), "{error}");
            assert!(error.contains(file.to_str().unwrap()), "{error}");
        }
        let run = folder.path().join("run");
        fs::create_dir_all(run.join(BEST)).unwrap();
        let error = remove_earlier_run(&run).unwrap_err().to_string();
        assert!(
            error.contains(BEST) && error.contains("cannot be replaced"),
            "{error}"
        );
    }
}
