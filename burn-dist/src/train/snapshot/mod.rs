//! Snapshots of a run: all that it needs to go on as if it had never stopped.
//!
//! | file | what it is |
//! |---|---|
//! | `folder` | [`Snapshots`]: the folder of `step-N`, one folder a snapshot; whole or not there |
//! | `content` | [`Snapshot`]: its files, and what was read of them |
//! | `checksums` | the file that tells a damaged snapshot |
//! | `state` | [`RunState`]: what changes in a run beside model and optimiser |
//! | `transfer` | a snapshot from one replica to the others |
//! | `records` | model and optimiser as bytes, and back, every tensor accounted for |
//! | `error` | [`SnapshotError`] |
//!
//! A snapshot is taken after a step of the optimiser and nowhere else, so the number of steps names
//! it. May not know the training loop.

mod checksums;
mod content;
mod error;
mod folder;
mod records;
mod state;
mod transfer;

pub use content::Snapshot;
pub use error::SnapshotError;
pub use folder::Snapshots;
pub(super) use records::LearnerRecords;
pub(super) use state::{ReplicaState, RunState, Totals};

use std::path::Path;

use serde_json::Value;

/// The names of the entries in which `was` and `is` differ, with both values, nested ones as
/// `outer.inner`.
fn differences(was: &Value, is: &Value) -> Vec<String> {
    fn compare(name: &str, was: &Value, is: &Value, found: &mut Vec<String>) {
        match (was, is) {
            (Value::Object(was), Value::Object(is)) => {
                let names: std::collections::BTreeSet<&String> =
                    was.keys().chain(is.keys()).collect();
                for key in names {
                    let inner = match name {
                        "" => key.clone(),
                        outer => format!("{outer}.{key}"),
                    };
                    let value = |map: &serde_json::Map<String, Value>| {
                        map.get(key).cloned().unwrap_or_default()
                    };
                    compare(&inner, &value(was), &value(is), found);
                }
            }
            _ if was == is => {}
            _ => found.push(format!("{name} ({was} there, {is} here)")),
        }
    }
    let mut found = Vec::new();
    compare("", was, is, &mut found);
    found
}

fn damaged(path: &Path, reason: impl std::fmt::Display) -> SnapshotError {
    SnapshotError::Damaged {
        path: path.to_path_buf(),
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_are_named_with_both_values() {
        let was = json!({"lr": 0.1, "split": "random", "schedule": {"steps": 5, "minimum": 0}});
        let is = json!({"lr": 0.2, "split": "random", "schedule": {"steps": 5}, "new": true});
        assert_eq!(
            differences(&was, &is),
            [
                "lr (0.1 there, 0.2 here)",
                "new (null there, true here)",
                "schedule.minimum (0 there, null here)"
            ]
        );
        assert!(differences(&was, &was).is_empty());
    }
}
