//! A disk that is full, and a folder that may not be written.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use super::{example, pictures, succeeds, text};

fn options(data: &Path, output: &Path, epochs: &str) -> Vec<String> {
    let path = |path: &Path| path.to_str().unwrap().to_string();
    let words = [
        "--image-size",
        "32",
        "--batch-size",
        "4",
        "--resume",
        "auto",
    ];
    let mut options: Vec<String> = words.map(str::to_string).to_vec();
    options.extend(["--data".to_string(), path(data)]);
    options.extend(["--output".to_string(), path(output)]);
    options.extend(["--epochs".to_string(), epochs.to_string()]);
    options
}

fn error(output: &Output) -> String {
    let message = text(&output.stderr);
    assert!(!output.status.success(), "{message}");
    let last = message.lines().last().unwrap().to_string();
    assert!(last.starts_with("error: "), "{message}");
    assert_eq!(message.matches("error: ").count(), 1, "{message}");
    last
}

fn same(one: &Path, other: &Path) {
    for file in ["last.safetensors", "best.safetensors"] {
        let read = |run: &Path| fs::read(run.join(file)).unwrap();
        assert!(read(one) == read(other), "{file} differs");
    }
}

/// The limit on a file's size stands for a disk that takes the model and then is full: the system
/// refuses in the middle of a file. The snapshot before is whole, and the run goes on from it.
#[cfg(unix)]
#[test]
fn a_full_disk_in_the_middle_of_a_snapshot_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (data, run) = (folder.path().join("data"), folder.path().join("run"));
    let unbroken = folder.path().join("unbroken");
    pictures::write(&data, 24);
    succeeds(example().args(options(&data, &unbroken, "2")));
    succeeds(example().args(options(&data, &run, "1")));

    // 40 MB, in blocks of 512 bytes: the model has 28, the optimiser 56.
    let limited = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 80000; exec \"$0\" \"$@\""])
        .arg(example().get_program())
        .args(options(&data, &run, "2"))
        .output()
        .unwrap();
    let line = error(&limited);
    assert!(line.contains("cannot write the snapshot"), "{line}");
    assert!(
        line.contains("step-8") && line.contains("File too large"),
        "{line}"
    );
    assert!(line.ends_with("step-4 is whole"), "{line}");
    let names: Vec<_> = fs::read_dir(run.join("checkpoints"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["step-4"]);

    succeeds(example().args(options(&data, &run, "2")));
    same(&unbroken, &run);
}

/// A file system of 150 MB takes one snapshot of 84 and not two.
#[cfg(target_os = "linux")]
#[test]
fn a_disk_without_space_ends_the_run_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let (data, disk) = (folder.path().join("data"), folder.path().join("disk"));
    fs::create_dir(&disk).unwrap();
    pictures::write(&data, 24);
    let mount = "mount -t tmpfs -o size=150m tmpfs \"$DISK\" 2>/dev/null || exit 99; \"$0\" \"$@\"; code=$?; ls \"$DISK/run/checkpoints\"; exit $code";
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c", mount]);
    command.env("DISK", &disk).arg(example().get_program());
    let output = command
        .args(options(&data, &disk.join("run"), "2"))
        .output();
    let output = match output {
        Ok(output)
            if output.status.code() != Some(99) && !text(&output.stderr).starts_with("unshare") =>
        {
            output
        }
        _ => {
            println!("skipped: no private file system can be mounted here");
            return;
        }
    };
    let line = error(&output);
    assert!(line.contains("No space left on device"), "{line}");
    assert!(
        line.contains("step-8") && line.ends_with("step-4 is whole"),
        "{line}"
    );
    assert_eq!(text(&output.stdout).trim(), "step-4");
}

/// Root may write anywhere, so the process becomes another user.
#[cfg(target_os = "linux")]
#[test]
fn a_folder_without_permission_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let locked = folder.path().join("locked");
    fs::create_dir(&locked).unwrap();
    let open = |path: &Path, mode| {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    // Where the other user can read it.
    let program = folder.path().join("program");
    fs::copy(example().get_program(), &program).unwrap();
    open(folder.path(), 0o755);
    open(&program, 0o755);
    open(&locked, 0o555);
    let root = text(&Command::new("id").arg("-u").output().unwrap().stdout).trim() == "0";
    let mut command = match root {
        true => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
            command.arg(&program);
            command
        }
        false => Command::new(&program),
    };
    let output = command.arg("--output").arg(locked.join("run")).output();
    let Ok(output) = output else {
        println!("skipped: setpriv is not here, and root may write anywhere");
        return;
    };
    let line = error(&output);
    assert!(line.contains("cannot use the output folder"), "{line}");
    assert!(
        line.contains("locked/run") && line.contains("Permission denied"),
        "{line}"
    );
}
