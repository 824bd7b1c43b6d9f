//! A configuration as a JSON file.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::TrainConfig;
use crate::train::{RunError, output};
use crate::written::write_whole;

impl TrainConfig {
    /// Reads a configuration; what the file leaves out is as in the [`recipe`](Self::recipe) for
    /// `data`, which takes the place of the file's, or for the file's when it is `None`.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is no JSON, or has an unknown or mistyped entry.
    pub fn read(path: impl AsRef<Path>, data: Option<PathBuf>) -> Result<Self, RunError> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|e| RunError::file(path, e))?;
        let text = text.trim_start_matches('\u{feff}');
        // serde would also take the values as a list, in the order of the fields.
        if !text.trim_start().starts_with('{') {
            return Err(RunError::file(
                path,
                "this is no JSON object: it must begin with {",
            ));
        }
        let failed = |error| RunError::file(path, error);
        let config: Self = serde_json::from_str(text).map_err(failed)?;
        let data = data.or(config.data);
        // Once more, over the recipe: serde itself fills in the paper's.
        let entries: Map<String, Value> = serde_json::from_str(text).map_err(failed)?;
        let recipe = serde_json::to_value(Self::recipe(data.clone())).map_err(failed)?;
        let mut merged = Map::from_iter(recipe.as_object().cloned().unwrap_or_default());
        merged.extend(entries);
        let config: Self = serde_json::from_value(Value::Object(merged)).map_err(failed)?;
        Ok(Self { data, ..config })
    }

    /// The configuration of the run in `folder`, with `folder` as its output: it may have been moved.
    /// `data` takes the place of the run's, if it is given.
    ///
    /// # Errors
    ///
    /// If there is no run, or its configuration cannot be read.
    pub fn of_run(folder: impl AsRef<Path>, data: Option<PathBuf>) -> Result<Self, RunError> {
        let folder = folder.as_ref();
        let path = folder.join(output::CONFIG);
        if !path.exists() {
            return Err(RunError::file(
                folder,
                format!(
                    "there is no run here to resume, it would have a {}: name the output folder of a run",
                    output::CONFIG
                ),
            ));
        }
        Ok(Self {
            output: folder.to_path_buf(),
            ..Self::read(path, data)?
        })
    }

    /// Refuses to take its own run's place: `path` is where it was read from, and nobody has named
    /// another output.
    ///
    /// # Errors
    ///
    /// If `path` lies in the output folder.
    pub fn ensure_elsewhere(&self, path: impl AsRef<Path>) -> Result<(), RunError> {
        let own = self.output.join(output::CONFIG).canonicalize();
        match (own, path.as_ref().canonicalize()) {
            (Ok(own), Ok(path)) if own == path => Err(RunError::Option {
                option: "--output",
                reason: format!(
                    "the run of {} is in {}: name another folder, or go on with it by --resume",
                    path.display(),
                    self.output.display()
                ),
            }),
            _ => Ok(()),
        }
    }

    /// All entries by name, with their values as JSON: what processes that train together compare.
    pub fn entries(&self) -> Vec<(String, String)> {
        // Numbers, text and lists of them can be written.
        let value = serde_json::to_value(self).unwrap_or_default();
        let entries = value.as_object().into_iter().flatten();
        entries
            .map(|(name, value)| (name.clone(), value.to_string()))
            .collect()
    }

    /// Writes the configuration as JSON.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), RunError> {
        let path = path.as_ref();
        let text = serde_json::to_string_pretty(self).map_err(|e| RunError::file(path, e))?;
        write_whole(path, (text + "\n").as_bytes()).map_err(|e| RunError::file(path, e))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use chest_datasets::OnBadImage;

    use super::*;
    use crate::model::Architecture;
    use crate::train::SplitName;

    #[test]
    fn written_configuration_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        let config = TrainConfig {
            data: Some("data".into()),
            split: SplitName::File("split.csv".into()),
            model: Architecture::ResNet50,
            max_steps: Some(7),
            cache: Some("cache".into()),
            uncertain: "zeros,Edema=ones".parse().unwrap(),
            augmentation: "flip,rotation=5".parse().unwrap(),
            on_bad_image: OnBadImage::Skip,
            optimizer: "sgd,momentum=0.9,nesterov".parse().unwrap(),
            schedule: "step,epochs=2,factor=0.5".parse().unwrap(),
            // Not the shortest that a sloppy reader would give back.
            learning_rate: 0.1 + 0.2,
            ..TrainConfig::default()
        };
        config.write(&path).unwrap();
        assert_eq!(TrainConfig::read(&path, None).unwrap(), config);
    }

    #[test]
    fn what_a_file_leaves_out_is_of_the_recipe_for_its_data() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        let read = |text: &str, data: Option<&str>| {
            std::fs::write(&path, text).unwrap();
            TrainConfig::read(&path, data.map(PathBuf::from)).unwrap()
        };
        let phantom = read(r#"{"epochs": 3}"#, None);
        assert_eq!(
            phantom,
            TrainConfig {
                epochs: 3,
                ..TrainConfig::phantom()
            }
        );
        for config in [
            read(r#"{"epochs": 3}"#, Some("xrays")),
            read(r#"{"epochs": 3, "data": "xrays"}"#, None),
            read(r#"{"epochs": 3, "data": "others"}"#, Some("xrays")),
        ] {
            assert_eq!(
                config,
                TrainConfig {
                    data: Some("xrays".into()),
                    epochs: 3,
                    ..TrainConfig::default()
                }
            );
        }
    }

    #[test]
    fn unknown_entries_and_values_are_refused_with_file_and_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        for (text, part) in [
            (r#"{"epoch": 3}"#, "unknown field `epoch`"),
            (r#"{"split": "patients"}"#, "unknown split `patients`"),
            (r#"{"model": "vgg16"}"#, "unknown variant `vgg16`"),
            (r#"{"epochs": -1}"#, "invalid value"),
            (r#"["data"]"#, "no JSON object"),
            ("", "no JSON object"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = TrainConfig::read(&path, None).unwrap_err().to_string();
            assert!(
                error.contains("config.json") && error.contains(part),
                "{error}"
            );
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
