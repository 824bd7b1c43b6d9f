//! Two network namespaces, and a cable between them whose rate a token bucket limits.

use std::process::Command;

use crate::Result;

/// Names of the namespaces; a bench runs once at a time.
pub const SIDES: [&str; 2] = ["chexnet-overlap-0", "chexnet-overlap-1"];
/// The address of each side.
pub const ADDRESSES: [&str; 2] = ["10.78.1.1", "10.78.1.2"];
/// The interface of each side.
pub const INTERFACE: &str = "cable";

/// Both networks, gone when this is.
pub struct Cable;

impl Cable {
    pub fn new() -> Result<Self> {
        // Of a bench that was killed.
        remove();
        let cable = Self;
        for side in SIDES {
            ip(&["netns", "add", side])?;
            ip(&["-n", side, "link", "set", "lo", "up"])?;
        }
        let [left, right] = SIDES;
        let ends = [
            "link", "add", INTERFACE, "netns", left, "type", "veth", "peer", "name", INTERFACE,
            "netns", right,
        ];
        ip(&ends)?;
        for (side, address) in SIDES.into_iter().zip(ADDRESSES) {
            let address = format!("{address}/24");
            ip(&["-n", side, "address", "add", &address, "dev", INTERFACE])?;
            ip(&["-n", side, "link", "set", INTERFACE, "up"])?;
        }
        Ok(cable)
    }

    /// At most so many bytes a second in each direction.
    pub fn limit(&self, rate: f64) -> Result<()> {
        self.unlimited()?;
        let rate = format!("{}kbit", (rate * 8.0 / 1e3).round());
        for side in SIDES {
            let bucket = [
                "-n", side, "qdisc", "add", "dev", INTERFACE, "root", "tbf", "rate", &rate,
                "burst", "128kb", "latency", "100ms",
            ];
            command("tc", &bucket)?;
        }
        Ok(())
    }

    pub fn unlimited(&self) -> Result<()> {
        for side in SIDES {
            // There may be none.
            let _ = command(
                "tc",
                &["-n", side, "qdisc", "del", "dev", INTERFACE, "root"],
            );
        }
        Ok(())
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        remove();
    }
}

fn remove() {
    for side in SIDES {
        // It may not be there.
        let _ = ip(&["netns", "del", side]);
    }
}

fn ip(arguments: &[&str]) -> Result<()> {
    command("ip", arguments)
}

fn command(program: &str, arguments: &[&str]) -> Result<()> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "{program} {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        )
        .into()),
    }
}
