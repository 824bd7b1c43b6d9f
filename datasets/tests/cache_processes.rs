//! The packed cache among processes and on drives that are full or can only be read.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cache_images;

use std::env;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cache_images::{cache_file, decoded, images, names, open, pixels, source};
use chest_datasets::{CacheOutcome, CacheProgress, OnBadImage, PackedCache};

/// What a process takes from its environment.
const IMAGES: &str = "CACHE_TEST_IMAGES";
const FOLDER: &str = "CACHE_TEST_FOLDER";
const SIZE: &str = "CACHE_TEST_SIZE";
const SIGNALS: &str = "CACHE_TEST_SIGNALS";

/// Opens or builds a cache as its environment says, and prints the outcome and a hash of the
/// pixels, or the error. In the middle of building it waits, if there is a folder of signals.
#[test]
#[ignore = "a process that the other tests start"]
fn cache_process() {
    let variable = |name| env::var(name).expect("the other tests set the variables");
    let source = source(Path::new(&variable(IMAGES)));
    let size = variable(SIZE).parse().unwrap();
    let signals = env::var_os(SIGNALS).map(PathBuf::from);
    let progress = |progress| {
        let Some(signals) = &signals else {
            return;
        };
        match progress {
            CacheProgress::Waiting => signal(&signals.join("waiting")),
            CacheProgress::Building { done: 1.., .. } => {
                signal(&signals.join("building"));
                wait_for(&signals.join("go on"));
            }
            CacheProgress::Building { .. } | CacheProgress::Verifying { .. } => {}
        }
    };
    let folder = variable(FOLDER);
    match PackedCache::open_or_build(
        Path::new(&folder),
        &source,
        size,
        OnBadImage::Stop,
        &progress,
    ) {
        Ok(cache) => eprintln!("{} {}", cache.outcome(), hash(&pixels(&cache, &source))),
        Err(error) => eprintln!("{error}"),
    }
}

fn hash(pixels: &[Vec<u8>]) -> u64 {
    let mut hasher = DefaultHasher::new();
    pixels.hash(&mut hasher);
    hasher.finish()
}

fn signal(path: &Path) {
    File::create(path).unwrap();
}

fn wait_for(path: &Path) {
    let begin = Instant::now();
    while !path.exists() {
        assert!(
            begin.elapsed() < Duration::from_secs(120),
            "{} never came",
            path.display()
        );
        sleep(Duration::from_millis(5));
    }
}

/// The command line of [`cache_process`].
fn process_arguments() -> Vec<String> {
    let program = env::current_exe().unwrap();
    let program = program.to_str().unwrap();
    [
        program,
        "--ignored",
        "--exact",
        "--nocapture",
        "cache_process",
    ]
    .map(String::from)
    .to_vec()
}

/// [`cache_process`] at size 7, with the signals also its folder for temporary files.
fn process(images: &Path, folder: &Path, signals: &Path) -> Command {
    let arguments = process_arguments();
    let mut command = Command::new(&arguments[0]);
    command
        .args(&arguments[1..])
        .envs([(IMAGES, images), (FOLDER, folder), (SIGNALS, signals)])
        .envs([("TMPDIR", signals), (SIZE, Path::new("7"))])
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

fn start(images: &Path, folder: &Path, signals: &Path) -> Child {
    process(images, folder, signals).spawn().unwrap()
}

/// Starts a builder and kills it in the middle.
fn leave_a_partial(images: &Path, folder: &Path) {
    let signals = tempfile::tempdir().unwrap();
    let mut killed = start(images, folder, signals.path());
    wait_for(&signals.path().join("building"));
    killed.kill().unwrap();
    killed.wait().unwrap();
}

/// The names in `folder` of files that are not complete.
fn partials(folder: &Path) -> Vec<String> {
    let mut names = names(folder);
    names.retain(|name| name.ends_with("partial"));
    names
}

/// The one lock in `folder`.
fn lock_file(folder: &Path) -> PathBuf {
    let mut names = names(folder);
    names.retain(|name| name.ends_with(".lock"));
    assert_eq!(names.len(), 1, "{names:?}");
    folder.join(&names[0])
}

fn printed(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    text
}

#[test]
fn of_two_builders_one_builds_and_the_other_waits_and_opens() {
    let images = images(5);
    let [cache, signals] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let first = start(images.path(), cache.path(), signals.path());
    wait_for(&signals.path().join("building"));
    let second = start(images.path(), cache.path(), signals.path());
    wait_for(&signals.path().join("waiting"));
    signal(&signals.path().join("go on"));

    let source = source(images.path());
    let hash = hash(&decoded(&source, 7));
    let [first, second] =
        [first, second].map(|process| printed(&process.wait_with_output().unwrap()));
    assert_eq!(first, format!("built {hash}\n"));
    assert_eq!(second, format!("opened {hash}\n"));
}

#[test]
fn what_a_killed_builder_leaves_is_removed_by_the_next() {
    let images = images(5);
    let source = source(images.path());
    // The next of the same cache, and the next of another.
    for size in [7, 8] {
        let cache = tempfile::tempdir().unwrap();
        leave_a_partial(images.path(), cache.path());
        assert_eq!(partials(cache.path()).len(), 1);
        // Not one of ours.
        let other = cache.path().join(".another.partial");
        signal(&other);
        let built = open(cache.path(), &source, size).unwrap();
        assert_eq!(built.outcome(), &CacheOutcome::Built { others: 0 });
        assert_eq!(pixels(&built, &source), decoded(&source, size));
        assert_eq!(partials(cache.path()), [".another.partial"]);
    }
}

#[test]
fn what_a_builder_of_another_cache_is_writing_stays() {
    let images = images(5);
    let [cache, signals] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let first = start(images.path(), cache.path(), signals.path());
    wait_for(&signals.path().join("building"));
    let source = source(images.path());
    open(cache.path(), &source, 8).unwrap();
    assert_eq!(partials(cache.path()).len(), 1);
    signal(&signals.path().join("go on"));
    let printed = printed(&first.wait_with_output().unwrap());
    assert_eq!(printed, format!("built {}\n", hash(&decoded(&source, 7))));
}

#[test]
fn without_a_lock_in_the_folder_partials_neither_remove_nor_are_removed() {
    let images = images(5);
    let [cache, signals] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    leave_a_partial(images.path(), cache.path());
    let left = partials(cache.path());
    // A lock that cannot be opened.
    let lock = lock_file(cache.path());
    fs::remove_file(&lock).unwrap();
    fs::create_dir(&lock).unwrap();
    let first = start(images.path(), cache.path(), signals.path());
    wait_for(&signals.path().join("building"));
    let mut both = partials(cache.path());
    assert_eq!(both.len(), 2);
    assert!(both.contains(&left[0]));

    // One who has the lock in the folder does not see the first.
    fs::remove_dir(&lock).unwrap();
    let source = source(images.path());
    open(cache.path(), &source, 7).unwrap();
    both.retain(|name| name != &left[0]);
    assert_eq!(partials(cache.path()), both);
    signal(&signals.path().join("go on"));
    let printed = printed(&first.wait_with_output().unwrap());
    assert_eq!(printed, format!("built {}\n", hash(&decoded(&source, 7))));
    assert!(partials(cache.path()).is_empty());
}

/// As in a folder that all may write, where another user has made the lock.
#[test]
fn a_lock_that_cannot_be_written_is_still_taken_and_one_that_cannot_be_read_is_in_nobodys_way() {
    let images = images(5);
    let source = source(images.path());
    let hash = hash(&decoded(&source, 7));
    for (lock_mode, waits) in [(0o444, true), (0o000, false)] {
        let [cache, signals] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        drop(open(cache.path(), &source, 7).unwrap());
        fs::remove_file(cache_file(cache.path())).unwrap();
        let lock = lock_file(cache.path());
        let held = File::open(&lock).unwrap();
        held.lock().unwrap();
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(&lock, lock_mode);
        mode(images.path(), 0o755);
        mode(cache.path(), 0o1777);
        mode(signals.path(), 0o777);
        signal(&signals.path().join("go on"));

        let mut command = process(images.path(), cache.path(), signals.path());
        if fs::metadata(&lock).unwrap().uid() == 0 {
            command.uid(65_534); // Root may write everything.
        }
        let process = match command.spawn() {
            Ok(process) => process,
            Err(error) => {
                println!("skipped: nobody else may run this test: {error}");
                return;
            }
        };
        if waits {
            wait_for(&signals.path().join("waiting"));
            drop(held);
        }
        let printed = printed(&process.wait_with_output().unwrap());
        assert_eq!(printed, format!("built {hash}\n"));
    }
}

/// Runs a script of the shell in which `$CACHE_TEST_FOLDER` is a drive of its own of 64 KiB and
/// `"$@"` is [`cache_process`]; `None`, and says why, where nothing can be mounted.
fn on_a_small_drive(images: &Path, script: &str) -> Option<String> {
    let [drive, temporary] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let unshared = |script: &str| {
        Command::new("unshare")
            .args(["--map-root-user", "--mount", "sh", "-e", "-c"])
            .args([
                &format!("mount -t tmpfs -o size=64k tmpfs \"${FOLDER}\"\n{script}"),
                "sh",
            ])
            .args(process_arguments())
            .envs([(IMAGES, images), (FOLDER, drive.path())])
            .env("TMPDIR", temporary.path())
            .stdout(Stdio::null())
            .output()
    };
    let refused = match unshared("") {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Some(format!("unshare: {error}")),
    };
    if let Some(refused) = refused {
        println!("skipped: no drive can be mounted: {}", refused.trim_end());
        return None;
    }
    let text = printed(&unshared(script).unwrap());
    // Whatever the folder is called.
    Some(text.replace(drive.path().to_str().unwrap(), "DRIVE"))
}

#[test]
fn a_folder_that_can_only_be_read_is_used_and_never_built_in() {
    let images = images(5);
    let script = "
        export CACHE_TEST_SIZE=7
        \"$@\"
        mount -o remount,ro \"$CACHE_TEST_FOLDER\"
        \"$@\"
        CACHE_TEST_SIZE=8 \"$@\"
        mount -o remount,rw \"$CACHE_TEST_FOLDER\"
        printf X | dd of=$(ls \"$CACHE_TEST_FOLDER\"/*.chestcache) bs=1 seek=200 conv=notrunc status=none
        mount -o remount,ro \"$CACHE_TEST_FOLDER\"
        \"$@\"
    ";
    let Some(text) = on_a_small_drive(images.path(), script) else {
        return;
    };
    let hash = hash(&decoded(&source(images.path()), 7));
    let ending = "and it cannot be written (Read-only file system (os error 30)): name a folder \
                  that can be written";
    assert_eq!(
        text.lines().collect::<Vec<_>>(),
        [
            format!("built {hash}"),
            format!("opened {hash}"),
            format!("DRIVE: there is no cache of these images as they are now, {ending}"),
            format!(
                "DRIVE: the cache of these images is damaged (image 3 of 5 does not agree with \
                 its checksum), {ending}"
            ),
        ]
    );
}

#[test]
fn a_full_disk_is_an_error_with_the_bytes_needed_and_nothing_is_left() {
    let images = images(5);
    let script = "
        CACHE_TEST_SIZE=200 \"$@\"
        ls -A \"$CACHE_TEST_FOLDER\" >&2
        CACHE_TEST_SIZE=7 \"$@\"
    ";
    let Some(text) = on_a_small_drive(images.path(), script) else {
        return;
    };
    let lines: Vec<&str> = text.lines().collect();
    let [full, lock, built] = lines[..] else {
        panic!("{text}");
    };
    // The header, five images with their entries, and the checksum.
    let needed = 64 + 5 * (200 * 200 + 8) + 4;
    assert_eq!(
        full,
        format!(
            "DRIVE: no space is left for the cache (No space left on device (os error 28)): free \
             {needed} bytes there, or name another folder"
        )
    );
    assert!(lock.starts_with('.') && lock.ends_with(".lock"), "{lock}");
    assert!(built.starts_with("built "), "{built}");
}

#[test]
fn the_file_can_be_read_by_others() {
    let images = images(1);
    let cache = tempfile::tempdir().unwrap();
    open(cache.path(), &source(images.path()), 7).unwrap();
    // As the umask has it for any new file.
    signal(&cache.path().join("new"));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(
        mode(&cache_file(cache.path())),
        mode(&cache.path().join("new"))
    );
}
