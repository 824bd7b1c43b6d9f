//! Descendants that have lost their parent: while an [`Adoption`] lives they become children of this
//! process, so that it can take note of their end. In a container there may be nobody else who does.

/// While it lives, this process adopts orphans among its descendants, where the system is Linux.
pub(super) struct Adoption {
    #[cfg(target_os = "linux")]
    before: Option<rustix::process::Pid>,
}

impl Adoption {
    #[cfg(target_os = "linux")]
    pub(super) fn new() -> Self {
        use rustix::process::{child_subreaper, getpid, set_child_subreaper};

        let before = child_subreaper().ok().flatten();
        // Without it, the end of a rank is noticed later at worst.
        let _ = set_child_subreaper(Some(getpid()));
        Self { before }
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn new() -> Self {
        Self {}
    }
}

#[cfg(target_os = "linux")]
impl Drop for Adoption {
    fn drop(&mut self) {
        let _ = rustix::process::set_child_subreaper(self.before);
    }
}
