//! A contender: a process that runs some steps when it is told to.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::{Case, Result, Task, own};

const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/peers/network.py");

/// This project.
pub const KERNELS: &str = "kernels";
/// This project with Burn's own operations.
pub const PLAIN: &str = "plain Burn";

/// Steps before the first one that counts: compilers and caches are warm then.
const WARM_UP: usize = 3;

/// What a contender says of its turn.
#[derive(Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Of each step.
    pub seconds: Vec<f64>,
    /// The most memory that the process has had.
    pub peak_kib: u64,
}

/// The names of those that are there.
pub fn all(task: Task) -> Vec<&'static str> {
    let mut all = vec![KERNELS, PLAIN];
    if has("torch, torchvision") {
        all.extend([
            "pytorch",
            "pytorch channels-last",
            "pytorch compiled",
            "pytorch compiled channels-last",
            "pytorch bf16 channels-last",
        ]);
    } else {
        println!("skipped: PyTorch, since CHEXNET_PEER_PYTHON has no torch and torchvision");
    }
    if task == Task::Infer {
        if has("torch, torchvision, onnx, onnxruntime") {
            all.push("onnx-runtime");
        } else {
            println!(
                "skipped: ONNX Runtime, since CHEXNET_PEER_PYTHON has no onnx and onnxruntime"
            );
        }
    }
    all
}

fn python() -> String {
    std::env::var("CHEXNET_PEER_PYTHON").unwrap_or_else(|_| "python3".into())
}

fn has(modules: &str) -> bool {
    let mut python = Command::new(python());
    python.args(["-c", &format!("import {modules}")]);
    let status = python.stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

pub struct Contender {
    name: &'static str,
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Contender {
    /// Starts it and waits until it is warm.
    pub fn start(name: &'static str, case: Case) -> Result<Self> {
        let mut command = if name == KERNELS || name == PLAIN {
            let mut command = Command::new(std::env::current_exe()?);
            own::tell(&mut command, case, name == PLAIN);
            command
        } else {
            let mut command = Command::new(python());
            let name = name.replace(' ', "-");
            command.args([PEER, &name, case.task.name()]).args(
                [
                    case.batch,
                    case.size,
                    case.threads,
                    WARM_UP,
                    case.task.steps(),
                ]
                .map(|number| number.to_string()),
            );
            command
        };
        let threads = case.threads.to_string();
        let mut process = command
            .envs([
                ("RAYON_NUM_THREADS", &threads),
                ("OMP_NUM_THREADS", &threads),
            ])
            .env("PYTHONWARNINGS", "ignore")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = BufReader::new(process.stdout.take().ok_or("no output")?);
        let mut contender = Self {
            name,
            process,
            output,
        };
        contender.line("ready")?;
        Ok(contender)
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The next line that begins so; what libraries say before is passed over.
    fn line(&mut self, begins: &str) -> Result<String> {
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line)? == 0 {
                return Err(format!("{} has ended: {}", self.name, self.process.wait()?).into());
            }
            if line.starts_with(begins) {
                return Ok(line);
            }
        }
    }

    /// Its turn.
    pub fn measure(&mut self) -> Result<Measured> {
        let input = self.process.stdin.as_mut().ok_or("no input")?;
        writeln!(input, "go")?;
        input.flush()?;
        Ok(serde_json::from_str(&self.line("{")?)?)
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        // It ends with its input; who does not is ended.
        drop(self.process.stdin.take());
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What a process of this project does with each line: as the peers' script.
pub fn serve(steps: usize, mut step: impl FnMut()) -> Result<()> {
    for _ in 0..WARM_UP {
        step();
    }
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        line?;
        let timed = |_| {
            let began = std::time::Instant::now();
            step();
            began.elapsed().as_secs_f64()
        };
        let measured = Measured {
            seconds: (0..steps).map(timed).collect(),
            peak_kib: peak_kib(),
        };
        println!("{}", serde_json::to_string(&measured)?);
    }
    Ok(())
}

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or(0)
}
