//! A host, seen from the launcher: ssh to it, which starts a node there.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::{ChildStdin, Command};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use super::error::LaunchError;
use super::host::Host;
use super::wire::Order;

/// Never asks for a password, since nobody could answer for all hosts; gives up a connection on which
/// nothing comes back for a minute.
const SSH: &str = "ssh -T -x -o BatchMode=yes -o ServerAliveInterval=15 -o ServerAliveCountMax=4";

/// What a node is to start.
pub(super) struct Share<'a> {
    pub(super) program: &'a OsStr,
    pub(super) arguments: &'a [OsString],
    pub(super) first_rank: usize,
    pub(super) world_size: usize,
    pub(super) grace: Duration,
}

/// The words of the command for ssh: `given`, or else `BURN_DIST_SSH`, or else ssh itself.
pub(super) fn ssh(given: Option<&str>) -> Result<Vec<String>, LaunchError> {
    let set = std::env::var("BURN_DIST_SSH").ok();
    let set = set.filter(|command| !command.trim().is_empty());
    let command = given.or(set.as_deref()).unwrap_or(SSH);
    let words = shlex::split(command).filter(|words| !words.is_empty());
    words.ok_or_else(|| LaunchError::Ssh {
        command: command.to_string(),
    })
}

/// Starts `share` on `host` by the binary `node`, in `folder`.
pub(super) fn command(
    ssh: &[String],
    host: &Host,
    node: &Path,
    folder: &Path,
    share: &Share<'_>,
) -> io::Result<Command> {
    let quoted = |words: &[&OsStr]| {
        let words = words.iter().map(|word| word.as_bytes());
        // Only a zero byte cannot be quoted.
        shlex::bytes::try_join(words).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
    };
    let numbers = [
        format!("--first-rank={}", share.first_rank),
        format!("--ranks={}", host.ranks),
        format!("--world-size={}", share.world_size),
        format!("--grace={}", share.grace.as_secs_f64()),
    ];
    let mut words = vec![node.as_os_str(), OsStr::new("node")];
    words.extend(numbers.iter().map(OsStr::new));
    words.extend([OsStr::new("--"), share.program]);
    words.extend(share.arguments.iter().map(OsString::as_os_str));
    let mut text = quoted(&[OsStr::new("cd"), OsStr::new("--"), folder.as_os_str()])?;
    text.extend_from_slice(b" && exec ");
    text.extend(quoted(&words)?);
    let mut command = Command::new(&ssh[0]);
    command.args(&ssh[1..]).arg(&host.name);
    command.arg(OsString::from_vec(text));
    Ok(command)
}

/// The way to a node's standard input, which is closed when this is dropped.
pub(super) struct Orders(Sender<Vec<u8>>);

impl Orders {
    /// Writes `first` to `input`, and orders behind it, in a thread of its own: a connection that
    /// takes nothing must hold up nobody.
    pub(super) fn new(mut input: ChildStdin, first: Vec<u8>) -> io::Result<Self> {
        let (sender, orders) = channel::<Vec<u8>>();
        let thread = std::thread::Builder::new().name("orders".to_string());
        thread.spawn(move || {
            let written = input.write_all(&first);
            let mut orders = orders.into_iter();
            // What ends a connection is said by the end of ssh.
            let _ = written.and_then(|()| orders.try_for_each(|order| input.write_all(&order)));
        })?;
        Ok(Self(sender))
    }

    pub(super) fn send(&self, order: Order) {
        // Without a receiver the connection is gone.
        let _ = self.0.send(order.write());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_shell_reads_the_words_as_they_were() {
        let words = ["a b", "it's", "$HOME", "x\ny", "", "*", "\\", "\"!"];
        let arguments: Vec<OsString> = words.iter().map(OsString::from).collect();
        let share = Share {
            program: OsStr::new("./my program"),
            arguments: &arguments,
            first_rank: 2,
            world_size: 4,
            grace: Duration::from_millis(1500),
        };
        let host = &Host::list("me@b:2").unwrap()[0];
        let ssh = ssh(Some("ssh -p '2 2'")).unwrap();
        // A program that prints its arguments in place of a node.
        let node = Path::new("printf");
        let command = command(&ssh, host, node, Path::new("/tmp"), &share).unwrap();
        let found: Vec<&OsStr> = command.get_args().collect();
        assert_eq!(found[..3], ["-p", "2 2", "me@b"]);
        let text = found[3].to_str().unwrap();
        let text = text.replace("exec printf node", "pwd && printf '%s|'");
        let shell = Command::new("sh").arg("-c").arg(text).output().unwrap();
        let printed = String::from_utf8(shell.stdout).unwrap();
        let expected = "/tmp\n--first-rank=2|--ranks=2|--world-size=4|--grace=1.5|--|./my program|";
        assert_eq!(printed, format!("{expected}{}|", words.join("|")));
    }

    #[test]
    fn what_is_no_command_for_ssh_is_refused() {
        for command in ["", " ", "ssh 'x"] {
            let error = ssh(Some(command)).unwrap_err().to_string();
            assert!(
                error.contains(&format!("{command:?} is no command")),
                "{error}"
            );
        }
    }
}
