//! Who takes part: this project, and PyTorch's DistributedDataParallel with Gloo.

use std::process::{Child, Command, Stdio};

use crate::cable::{ADDRESSES, Cable, INTERFACE, SIDES};
use crate::{Result, Settings, Times, rank};

const PEER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/benches/peers/data_parallel.py"
);
const PORT: u16 = 29_511;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    Own,
    PyTorch,
    /// With buckets of an eighth of the gradients, as ours: its own default leaves nothing of so small a model to overlap.
    PyTorchSmallBuckets,
}

/// Those that are there.
pub fn all() -> Vec<Contender> {
    let mut python = Command::new(python());
    python
        .args(["-c", "import torch, torchvision"])
        .stderr(Stdio::null());
    match python.status().is_ok_and(|status| status.success()) {
        true => vec![
            Contender::Own,
            Contender::PyTorch,
            Contender::PyTorchSmallBuckets,
        ],
        false => {
            println!("skipped: PyTorch, since CHEXNET_PEER_PYTHON has no torch and torchvision");
            vec![Contender::Own]
        }
    }
}

fn python() -> String {
    std::env::var("CHEXNET_PEER_PYTHON").unwrap_or_else(|_| "python3".into())
}

impl Contender {
    pub fn name(self) -> &'static str {
        match self {
            Self::Own => "burn-dist",
            Self::PyTorch => "PyTorch DDP",
            Self::PyTorchSmallBuckets => "DDP, 4 MiB",
        }
    }

    /// PyTorch's `bucket_cap_mb`.
    fn bucket_megabytes(self) -> usize {
        match self {
            Self::PyTorchSmallBuckets => 4,
            _ => 25,
        }
    }

    /// Runs both ranks over the cable as it is.
    pub fn measure(self, settings: &Settings, _cable: &Cable) -> Result<Times> {
        let mut ranks = [Guard(None), Guard(None)];
        for (rank, guard) in ranks.iter_mut().enumerate() {
            guard.0 = Some(self.start(rank, settings)?);
        }
        let [first, second] = &mut ranks;
        let output = first.0.take().ok_or("not started")?.wait_with_output()?;
        if !output.status.success() {
            return Err(format!("{} has failed: {}", self.name(), output.status).into());
        }
        if let Some(mut second) = second.0.take() {
            second.wait()?;
        }
        let text = String::from_utf8(output.stdout)?;
        let line = text.lines().find(|line| line.starts_with('{'));
        Ok(serde_json::from_str(line.ok_or("no figures")?)?)
    }

    fn start(self, rank: usize, settings: &Settings) -> Result<Child> {
        let mut command = Command::new("ip");
        command.args([
            "netns",
            "exec",
            SIDES[rank],
            "taskset",
            "-c",
            &rank.to_string(),
        ]);
        match self {
            Self::Own => command
                .arg(std::env::current_exe()?)
                .env("BURN_DIST_RDZV", format!("tcp://{}:{PORT}", ADDRESSES[0]))
                .env("BURN_DIST_RANK", rank.to_string())
                .env("BURN_DIST_WORLD_SIZE", "2")
                .env("BURN_DIST_TOKEN", "bench")
                // They are of one machine, and shall not know it.
                .env("BURN_DIST_TRANSPORT", "tcp")
                .env("BURN_DIST_POLL", "block")
                .env("RAYON_NUM_THREADS", "1")
                .env(rank::IMAGE_SIZE, settings.image_size.to_string())
                .env(rank::BATCH_SIZE, settings.batch_size.to_string()),
            Self::PyTorch | Self::PyTorchSmallBuckets => command
                .arg(python())
                .arg(PEER)
                .args([
                    settings.image_size.to_string(),
                    settings.batch_size.to_string(),
                    self.bucket_megabytes().to_string(),
                ])
                .envs([("GLOO_SOCKET_IFNAME", INTERFACE), ("OMP_NUM_THREADS", "1")])
                // What it says of its own options and names.
                .envs([
                    ("PYTHONWARNINGS", "ignore"),
                    ("TORCH_CPP_LOG_LEVEL", "ERROR"),
                ])
                .env("MASTER_ADDR", ADDRESSES[0])
                .env("MASTER_PORT", PORT.to_string())
                .env("RANK", rank.to_string())
                .env("WORLD_SIZE", "2"),
        };
        Ok(command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?)
    }
}

/// A rank that does not outlive a failure of the other.
struct Guard(Option<Child>);

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // It may have ended, which is as well.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
