//! Ranks that are killed while they train, as real processes: the others end soon and name them, and the run goes on to
//! the end of an unbroken one.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use burn_dist_core::World;

use crate::models::numbers;
use crate::trainee::{Case, Journal, snapshots};

/// The variable with the folder of a run.
const FOLDER: &str = "TEST_FOLDER";
/// The variable with the place at which a process kills itself, and how often it passes there before.
const KILL: &str = "TEST_KILL";
/// Within which the others have to end.
const SOON: Duration = Duration::from_secs(5);
/// A loaded machine.
const SLACK: Duration = Duration::from_secs(10);

/// Kills this process if it is here that it is to be.
pub fn passes(place: &str) {
    static PASSED: AtomicUsize = AtomicUsize::new(0);
    let Ok(kill) = std::env::var(KILL) else {
        return;
    };
    let (wanted, before) = kill.split_once(':').unwrap();
    if wanted == place && PASSED.fetch_add(1, Ordering::Relaxed) == before.parse::<usize>().unwrap()
    {
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
            .unwrap();
    }
}

fn case() -> Case {
    Case {
        normed: true,
        ..Case::of(4)
    }
}

#[test]
#[ignore = "the program of a rank, which other tests start as a process"]
fn rank_process() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    // No rank outlives the test that has started it.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
    let folder = Path::new(&folder);
    let world = Arc::new(World::init().unwrap());
    let newest = (world.rank() == 0).then(|| snapshots(folder).newest().unwrap());
    match case().train(&world, folder, newest.flatten(), Journal::default()) {
        Ok(trained) => {
            let bits = numbers(&trained.model);
            let bits: Vec<u64> = bits.iter().map(|number| number.to_bits()).collect();
            // Seconds differ.
            let epochs = trained.epochs.iter();
            let epochs: Vec<_> = epochs
                .map(|e| (e.training_loss, e.validation_loss))
                .collect();
            println!("\nend {:?} {epochs:?} {bits:x?}", trained.ending);
        }
        Err(error) => {
            eprintln!("\nerror {error}");
            std::process::exit(1);
        }
    }
}

/// What a rank has printed.
struct End {
    code: Option<i32>,
    text: String,
    after: Duration,
}

/// Runs both ranks; `kill` is for one of them.
fn train(folder: &Path, kill: Option<(usize, &str)>) -> [End; 2] {
    let port = crate::worlds::free_port().to_string();
    let start = |rank: usize| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--ignored", "--exact", "kills::rank_process", "--nocapture"])
            .env(FOLDER, folder)
            .env("BURN_DIST_RANK", rank.to_string())
            .env("BURN_DIST_WORLD_SIZE", "2")
            .env("BURN_DIST_RDZV", format!("tcp://127.0.0.1:{port}"))
            .env("BURN_DIST_TOKEN", "secret")
            .env("BURN_DIST_FLIGHT_RECORDER", folder)
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some((_, place)) = kill.filter(|(of, _)| *of == rank) {
            command.env(KILL, place);
        }
        command.spawn().unwrap()
    };
    let began = Instant::now();
    let wait = |child: Child| {
        std::thread::spawn(move || {
            let output = child.wait_with_output().unwrap();
            let text = [output.stdout, output.stderr].concat();
            End {
                code: output.status.code(),
                text: String::from_utf8_lossy(&text).into_owned(),
                after: began.elapsed(),
            }
        })
    };
    [0, 1]
        .map(|rank| wait(start(rank)))
        .map(|end| end.join().unwrap())
}

fn result(end: &End) -> &str {
    let line = end.text.lines().find(|line| line.starts_with("end "));
    line.unwrap_or_else(|| panic!("no end, exit code {:?}: {}", end.code, end.text))
}

#[test]
fn a_killed_rank_is_named_and_the_run_goes_on_to_the_end_of_an_unbroken_one() {
    let whole = tempfile::tempdir().unwrap();
    let unbroken = train(whole.path(), None);
    let unbroken = result(&unbroken[0]);
    assert!(unbroken.contains("Complete"), "{unbroken}");
    for (rank, place) in [
        // Before the gradients of a step, with them on their way, and where a snapshot is written.
        (1, "forward:9"),
        (0, "forward:12"),
        (1, "backward:9"),
        (0, "backward:11"),
        (1, "share:2"),
        (0, "state:3"),
        (0, "forward:0"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let ends = train(folder.path(), Some((rank, place)));
        let (killed, other) = (&ends[rank], &ends[1 - rank]);
        assert_eq!(killed.code, None, "{place}: {}", killed.text);
        assert_eq!(other.code, Some(1), "{place}: {}", other.text);
        let error = other.text.lines().find(|line| line.starts_with("error "));
        let error = error.unwrap_or_default();
        assert!(
            error.contains(&format!("rank {rank}")),
            "{place}: {error:?}"
        );
        let late = other.after.saturating_sub(killed.after);
        assert!(late < SOON + SLACK, "{place}: {late:?}");
        let resumed = train(folder.path(), None);
        assert_eq!(result(&resumed[0]), unbroken, "{place}");
        assert_eq!(result(&resumed[1]), unbroken, "{place}");
    }
}
