//! Output folders that must not be used: of other runs, of other data, of somebody else.

use std::fs;

use super::bad_input::{Case, edit, names};
use super::{example, text};

#[test]
fn a_run_of_other_options_is_not_resumed_and_they_are_named() {
    let case = Case::new();
    case.trained("run", &[]);
    let error = case.fails(&["--resume", "auto", "--lr", "0.5", "--optimizer", "sgd"]);
    names(
        &error,
        &[
            "the run in ",
            "another learning_rate (0.001 there, 0.5 here)",
            "another optimizer (\"adam\" there, \"sgd\" here)",
        ],
    );
    // The data may lie elsewhere, but has to be the same.
    edit(&case.data().join("test_list.txt"), |names| {
        names
            .lines()
            .skip(1)
            .map(|name| format!("{name}\n"))
            .collect()
    });
    let error = case.fails(&["--resume", "auto"]);
    names(&error, &["split.csv", "the run began with this split"]);
}

#[test]
fn a_run_does_not_go_on_with_other_labels() {
    let case = Case::new();
    case.trained("run", &[]);
    edit(&case.table(), |table| table.replace("Mass", "Edema"));
    let error = case.fails(&["--resume", "auto"]);
    names(
        &error,
        &["the labels of the data are no longer those that the run began with"],
    );
}

#[test]
fn nothing_to_resume() {
    let case = Case::new();
    let missing = case.folder.path().join("missing");
    let refused = |options: &[&str]| {
        let done = example().args(options).output().unwrap();
        assert!(!done.status.success());
        let error = text(&done.stderr);
        assert_eq!(error.lines().count(), 1, "{error}");
        error
    };
    let missing = missing.to_str().unwrap();
    names(
        &refused(&["--resume", missing]),
        &[
            "missing: there is no run here to resume, it would",
            "config.json",
            "output folder",
        ],
    );
    names(
        &refused(&["--resume", missing, "--config", "config.json"]),
        &["--config: a run that is resumed has a configuration of its own"],
    );
    fs::write(case.folder.path().join("config.json"), "{}").unwrap();
    let folder = case.folder.path().to_str().unwrap();
    names(
        &refused(&["--resume", folder, "--output", "other"]),
        &["--output: a run that is resumed goes on in its own folder"],
    );
}

/// Whoever removes the large files and resumes must not lose the small ones.
#[test]
fn results_without_snapshots_are_not_replaced_by_a_resume() {
    let case = Case::new();
    let run = case.folder.path().join("run");
    fs::create_dir(&run).unwrap();
    fs::write(run.join("best.safetensors"), "weights").unwrap();
    let error = case.fails(&["--resume", "auto"]);
    names(
        &error,
        &[
            "it has weights or results, and no snapshot",
            "leave out --resume",
        ],
    );
    assert_eq!(fs::read(run.join("best.safetensors")).unwrap(), b"weights");
}

#[test]
fn a_folder_of_something_else_is_not_replaced() {
    let case = Case::new();
    let run = case.folder.path().join("run");
    fs::create_dir(&run).unwrap();
    fs::write(run.join("config.json"), r#"{"a": 1}"#).unwrap();
    for options in [&[][..], &["--resume", "auto"]] {
        let error = case.fails(options);
        names(
            &error,
            &[
                "it holds something else",
                "unknown field `a`",
                "name another folder",
            ],
        );
    }
    assert_eq!(
        fs::read_to_string(run.join("config.json")).unwrap(),
        r#"{"a": 1}"#
    );
}

#[test]
fn a_folder_that_another_process_trains_into() {
    let case = Case::new();
    let run = case.folder.path().join("run");
    let mut other = example()
        .args(["--image-size", "32", "--epochs", "500", "--data"])
        .arg(case.data())
        .arg("--output")
        .arg(&run)
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while !run.join("split.csv").exists() {
        assert!(other.try_wait().unwrap().is_none());
    }
    let error = case.fails(&[]);
    other.kill().unwrap();
    other.wait().unwrap();
    names(
        &error,
        &[
            "cannot use the output folder",
            "another process is training into it",
        ],
    );
}

#[test]
fn a_configuration_does_not_replace_its_own_run() {
    let case = Case::new();
    let run = case.folder.path().join("run");
    fs::create_dir(&run).unwrap();
    let config = run.join("config.json");
    fs::write(
        &config,
        format!("{{\"output\": {:?}}}", run.to_str().unwrap()),
    )
    .unwrap();
    let done = example().arg("--config").arg(&config).output().unwrap();
    let error = text(&done.stderr);
    assert!(!done.status.success());
    assert_eq!(error.lines().count(), 1, "{error}");
    names(
        &error,
        &["--output: the run of", "name another folder", "--resume"],
    );
}
