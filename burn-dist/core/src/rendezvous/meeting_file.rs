//! The file at which processes meet, if no address is known before: rank 0 writes where it listens, the others read it.
//!
//! A job that was killed leaves it behind. Rank 0 of the next one replaces it if nobody listens there any more, and
//! no process takes that of another run for its own.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::RendezvousError;
use super::handshake::named;
use crate::report::Report;

/// The time in which who listens at an old address accepts a connection.
const ANSWER: Duration = Duration::from_secs(1);

/// What stands in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MeetingFile {
    /// The run of the job, if its launcher says so.
    pub run: Option<String>,
    /// Where rank 0 listens, the best first.
    pub addresses: Vec<SocketAddr>,
}

/// A file that this process has written.
pub(super) struct Published {
    path: PathBuf,
    content: String,
}

impl MeetingFile {
    /// Writes the file.
    ///
    /// # Errors
    ///
    /// If it is there and not left over, or cannot be written.
    pub fn publish(&self, path: &Path, report: &Report) -> Result<Published, RendezvousError> {
        let failed = |error| RendezvousError::File {
            path: path.into(),
            error,
        };
        match std::fs::read_to_string(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
            Ok(text) => {
                let old: Self = serde_json::from_str(&text)
                    .map_err(|_| failed(ErrorKind::AlreadyExists.into()))?;
                old.is_left_over(self.run.as_ref()).map_err(failed)?;
                let of = named(&old.run);
                let path = path.display();
                report.note(&format!("{path} is left over from {of}: it is replaced"));
            }
        }
        let content = serde_json::to_string(self).map_err(|error| failed(error.into()))?;
        // Whole or not at all.
        let draft = path.with_extension(format!("draft-{}", std::process::id()));
        std::fs::write(&draft, &content).map_err(failed)?;
        std::fs::rename(&draft, path).map_err(failed)?;
        Ok(Published {
            path: path.into(),
            content,
        })
    }

    /// Nothing if nobody waits there any more, as far as this host can know, for a job of run `own`.
    fn is_left_over(&self, own: Option<&String>) -> io::Result<()> {
        let mut unknown = None;
        for address in &self.addresses {
            match TcpStream::connect_timeout(address, ANSWER) {
                Ok(_) => {
                    let waits = format!("who has written it still waits at {address}");
                    return Err(io::Error::new(ErrorKind::AlreadyExists, waits));
                }
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                Err(error) => unknown = Some(format!("it is there, and {address} in it: {error}")),
            }
        }
        let is_of_another = self
            .run
            .as_ref()
            .zip(own)
            .is_some_and(|(one, own)| one != own);
        match unknown.filter(|_| !is_of_another) {
            Some(reason) => Err(io::Error::new(ErrorKind::AlreadyExists, reason)),
            None => Ok(()),
        }
    }

    /// The addresses in the file at `path`, if a process of the same run has written it; else why not.
    pub fn addresses(path: &Path, run: &Option<String>) -> Result<Vec<SocketAddr>, String> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| format!("{shown}: {error}"))?;
        let file: Self = serde_json::from_str(&text)
            .map_err(|_| format!("{shown} is no file of rank 0: remove it"))?;
        if file.run != *run {
            let (theirs, own) = (named(&file.run), named(run));
            return Err(format!("{shown} is of {theirs}, this process of {own}"));
        }
        Ok(file.addresses)
    }
}

impl Published {
    /// Removes the file, unless another job has replaced it.
    pub fn remove(self) {
        // Whoever has removed it before has done what is to be done.
        if std::fs::read_to_string(&self.path).is_ok_and(|text| text == self.content) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn file(run: Option<&str>, address: SocketAddr) -> MeetingFile {
        MeetingFile {
            run: run.map(ToOwned::to_owned),
            addresses: vec![address],
        }
    }

    /// An address at which nobody listens any more.
    fn refuses() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    }

    #[test]
    fn what_a_job_has_left_that_is_gone_is_replaced_and_a_job_that_waits_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("meeting");
        let report = Report::silent();
        let gone = file(Some("1"), refuses());
        gone.publish(&path, &report).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let waits = file(Some("2"), listener.local_addr().unwrap());
        let published = waits.publish(&path, &report).unwrap();
        for run in [Some("2"), Some("3"), None] {
            let text = file(run, refuses()).publish(&path, &report);
            let text = text.map(drop).unwrap_err().to_string();
            assert!(text.contains("still waits at 127.0.0.1:"), "{text}");
        }
        drop(listener);
        let next = file(Some("2"), refuses()).publish(&path, &report).unwrap();
        published.remove();
        assert!(path.exists(), "it is of the next job");
        next.remove();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        std::fs::write(&path, "notes of somebody\n").unwrap();
        gone.publish(&path, &report).map(drop).unwrap_err();
    }

    #[test]
    fn a_host_that_does_not_answer_is_gone_only_for_another_run() {
        // No host has it (RFC 6666), and a network may say so or nothing.
        let old = file(Some("1"), "[100::1]:9".parse().unwrap());
        assert!(old.is_left_over(Some(&"2".to_owned())).is_ok());
        for own in [Some("1".to_owned()), None] {
            let text = old.is_left_over(own.as_ref()).unwrap_err().to_string();
            assert!(
                text.contains("it is there, and [100::1]:9 in it: "),
                "{text}"
            );
        }
    }

    #[test]
    fn a_file_of_another_run_is_not_read_as_ones_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("meeting");
        let address = refuses();
        let written = file(Some("1"), address);
        written.publish(&path, &Report::silent()).unwrap();
        let run = |run: &str| Some(run.to_owned());
        let found = MeetingFile::addresses(&path, &run("1"));
        assert_eq!(found, Ok(vec![address]));
        let text = MeetingFile::addresses(&path, &run("2")).unwrap_err();
        assert!(
            text.ends_with(r#"is of run "1", this process of run "2""#),
            "{text}"
        );
        let text = MeetingFile::addresses(&path, &None).unwrap_err();
        assert!(
            text.ends_with(r#"is of run "1", this process of no run"#),
            "{text}"
        );
    }
}
