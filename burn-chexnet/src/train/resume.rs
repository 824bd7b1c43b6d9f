//! Where a run keeps its snapshots, and whether it may go on from one.

use std::num::NonZeroUsize;

use burn_dist::progress::write_line;
use burn_dist::train::{Snapshot, SnapshotError, Snapshots, TrainError};
use chest_datasets::Split;
use serde_json::Value;

use super::{RunData, RunError, ScheduleChoice, SplitName, TrainConfig, output};

/// What has to be the same for a run to go on with: everything that decides it but where files
/// lie (what they hold is compared by the split) and how long it is to be. The batch size is that of all `ranks` together.
pub(super) fn fingerprint(config: &TrainConfig, ranks: usize) -> Result<Value, RunError> {
    let failed = |error| RunError::file(config.output.join(output::CONFIG), error);
    let mut value = serde_json::to_value(config).map_err(failed)?;
    if let Some(entries) = value.as_object_mut() {
        for name in [
            "output",
            // A run that has stopped at a bad image may go on without it: it has left out none yet.
            "on_bad_image",
            "cache",
            "threads",
            "checkpoint_steps",
            "keep_checkpoints",
        ] {
            entries.remove(name);
        }
        // A cosine over more epochs has another rate at every step.
        if !matches!(config.schedule, ScheduleChoice::Cosine { .. }) {
            entries.remove("epochs");
        }
        let batch_size = config.batch_size * ranks;
        entries.remove("batch_size");
        entries.insert("global_batch_size".to_string(), batch_size.into());
        let data = match config.data {
            Some(_) => "given",
            None => "phantom",
        };
        entries.insert("data".to_string(), data.into());
        if let SplitName::File(_) = config.split {
            entries.insert("split".to_string(), "a file".into());
        }
    }
    Ok(value)
}

/// Where a run with `config` on so many ranks keeps its snapshots.
pub(super) fn snapshots(config: &TrainConfig, ranks: usize) -> Result<Snapshots, RunError> {
    let keep = NonZeroUsize::new(config.keep_checkpoints).unwrap_or(NonZeroUsize::MIN);
    Ok(Snapshots::new(config.output.join(output::CHECKPOINTS))
        .every(config.checkpoint_steps.and_then(NonZeroUsize::new))
        .keep(keep)
        .configuration(fingerprint(config, ranks)?))
}

/// Whether a run in the output folder of `config` has left a snapshot, of whatever configuration.
pub(super) fn has_snapshot(config: &TrainConfig) -> Result<bool, RunError> {
    let snapshots = Snapshots::new(config.output.join(output::CHECKPOINTS));
    Ok(!snapshots.is_empty().map_err(TrainError::from)?)
}

/// The snapshot that a run with `config` goes on from, if there is one.
pub(super) fn newest(
    config: &TrainConfig,
    snapshots: &Snapshots,
) -> Result<Option<Snapshot>, RunError> {
    let Some(snapshot) = snapshots.newest().map_err(TrainError::from)? else {
        // Beginning anew would replace them.
        if output::has_weights(&config.output) {
            return Err(RunError::Output {
                path: config.output.clone(),
                reason: format!(
                    "it has weights or results, and no snapshot in {} to go on from: leave out --resume to replace them, or name another folder",
                    output::CHECKPOINTS
                ),
            });
        }
        write_line(&format!(
            "there is no snapshot in {} yet: beginning from the start",
            config.output.display()
        ));
        return Ok(None);
    };
    snapshots.check(&snapshot).map_err(|error| match error {
        SnapshotError::Differs { differences, .. } => RunError::Differs {
            path: config.output.clone(),
            differences: differences.join(", another "),
        },
        other => TrainError::from(other).into(),
    })?;
    if snapshot.epoch() > config.epochs {
        return Err(RunError::Option {
            option: "--epochs",
            reason: format!(
                "{}, but the run in {} is in epoch {} already",
                config.epochs,
                config.output.display(),
                snapshot.epoch()
            ),
        });
    }
    Ok(Some(snapshot))
}

/// Refuses to go on with other images, or with the same on other sides.
pub(super) fn ensure_same_split(config: &TrainConfig, data: &RunData) -> Result<(), RunError> {
    let path = config.output.join(output::SPLIT);
    match Split::from_csv(&path, data.dataset()) {
        Ok(began) if began == *data.split() => Ok(()),
        _ => Err(RunError::file(
            &path,
            format!(
                "the run began with this split, which is not that of {} now: restore the tables, or begin a new run",
                data.dataset().tables()
            ),
        )),
    }
}
